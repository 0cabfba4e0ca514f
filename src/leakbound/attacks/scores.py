"""Scores: one number for each output, higher for members."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from leakbound._catalogue import Catalogue
from leakbound.attacks.protocols import RenderedQuery, Score
from leakbound.attacks.words import share_in_order
from leakbound.errors import UsageError
from leakbound.stats import Fixed, GaussianLaw, OutputDistribution, Split, ThresholdRule
from leakbound.stats.arrays import Floats
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.stats.noise.votes import VoteScores
from leakbound.tasks import Access, Outputs

__all__ = [
    "SCORES", "ContainsCanary", "DistanceGap", "DocumentScore", "LabelMargin", "Overlap",
    "PredictedMember", "ProbabilityMargin", "ReferenceDirection", "Score", "ScoreMargin",
    "Unanswered", "output_texts",
]  # fmt: skip

BEYOND = 4  # votes beyond both ends that thresholds reach: rare noise there tells most


def output_texts(outputs: Outputs) -> list[str]:
    """(draws,) the chosen text of each, or the keywords that were released together; else ""."""
    if outputs.picked is not None and outputs.points is None:
        return [" ".join(outputs.choices[i] for i in row) for row in outputs.picked]
    return [outputs.choices[i] if i < len(outputs.choices) else "" for i in outputs.answers]


class _Indicator(Score):
    """A score of answers between 0 and 1."""

    __slots__ = ()
    access: ClassVar[Access] = "black_box"
    threshold: ClassVar[ThresholdRule] = Fixed(0.5)

    def levels(self, voters: int) -> Floats:
        return np.array([0.5])


@dataclass(frozen=True, slots=True)
class Unanswered(_Indicator):
    """1 where the output is none of the answers, else 0: a refusal, a content filter, no text.

    It finds a model or a service that answers, and keeps silent once the canary is in its context.
    """

    name: ClassVar[str] = "unanswered"
    counts_unreadable: ClassVar[bool] = True

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        return np.asarray(outputs.answers >= len(answers), float)


@dataclass(frozen=True, slots=True)
class PredictedMember(_Indicator):
    """1 where the released answer is the member answer, else 0."""

    name: ClassVar[str] = "predicted_member"
    of_votes: ClassVar[Literal["winner", "margin", "none"]] = "winner"

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        return np.asarray(outputs.answers == answers.index(rendered.member), float)

    def chances(
        self, law: OutputDistribution, outputs: Outputs, rendered: RenderedQuery,
        answers: tuple[str, ...], levels: Floats,
    ) -> Floats | None:  # fmt: skip
        """(K,) chances that the member answer is released, where the largest noisy vote is."""
        if not isinstance(law, GaussianLaw | DiscreteGaussianLaw):
            return Score.chances(self, law, outputs, rendered, answers, levels)
        if not _releases_largest(outputs, answers):
            return None
        wins = law.win_chance(answers.index(rendered.member))
        return None if wins is None else np.where(levels > 1, 0.0, np.where(levels > 0, wins, 1.0))


def _releases_largest(outputs: Outputs, answers: tuple[str, ...]) -> bool:
    """Is the released answer the one with the largest noisy count?"""
    noisy = outputs.noisy
    if noisy is None or outputs.points is not None or outputs.choices:
        return False
    classes = noisy.shape[1] in (len(answers), len(answers) + 1)
    if not classes or (outputs.answers >= noisy.shape[1]).any():
        return False
    return bool((noisy[np.arange(len(noisy)), outputs.answers] == noisy.max(1)).all())


class _Margin(Score):
    """What scores of noisy votes share: their thresholds."""

    __slots__ = ()

    def levels(self, voters: int) -> Floats:
        """Every whole margin of `voters` votes, and some beyond the ends."""
        return np.arange(-voters - float(BEYOND), voters + BEYOND + 1.0)

    def noise_levels(self, voters: int, mu: float | None) -> Floats:
        """Between votes, and up to 4.5 noise scales of `mu` beyond those of `voters`."""
        if not mu:
            return self.levels(voters)
        return VoteScores(-voters, voters, 2 / mu, 2).thresholds  # a moved vote changes it by 2


@dataclass(frozen=True, slots=True)
class LabelMargin(_Margin):
    """Noisy votes for the member answer less those for the non-member answer, in votes.

    Where no answer speaks for a non-member, the best other one is taken.

    Reference:
        XL.
    """

    name: ClassVar[str] = "label_margin"
    of_votes: ClassVar[Literal["winner", "margin", "none"]] = "margin"
    access: ClassVar[Access] = "white_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        if outputs.noisy is None:
            raise UsageError(
                f"{self.name} needs the noisy votes of an output; use predicted_member for a "
                "black box."
            )
        noisy, member = outputs.scale * outputs.noisy, answers.index(rendered.member)
        if rendered.nonmember is not None:
            return np.asarray(noisy[:, member] - noisy[:, answers.index(rendered.nonmember)])
        others = np.delete(noisy, member, axis=1)
        return np.asarray(noisy[:, member] - others.max(1))

    def chances(
        self, law: OutputDistribution, outputs: Outputs, rendered: RenderedQuery,
        answers: tuple[str, ...], levels: Floats,
    ) -> Floats | None:  # fmt: skip
        """(K,) chances of the difference of two noisy votes, or of one and the best other one."""
        if not isinstance(law, GaussianLaw | DiscreteGaussianLaw):
            return None
        one, scale = answers.index(rendered.member), outputs.scale
        if rendered.nonmember is None:
            return law.margin_chances(one, scale, levels)
        return law.difference_chances(one, answers.index(rendered.nonmember), scale, levels)


@dataclass(frozen=True, slots=True)
class ScoreMargin(LabelMargin):
    """The same for scores of any unit that a system gives to its answers.

    Such as votes, probabilities or log-probabilities.
    """

    name: ClassVar[str] = "score_margin"
    of_votes: ClassVar[Literal["winner", "margin", "none"]] = "none"

    def levels(self, voters: int) -> Floats:
        """Zero, and both signs of 1, 2 and 5 from hundredths to hundreds."""
        sizes = np.outer(10.0 ** np.arange(-2, 3), [1, 2, 5]).ravel()
        return np.concatenate([-sizes[::-1], [0.0], sizes])

    def noise_levels(self, voters: int, mu: float | None) -> Floats:
        return self.levels(voters)  # the unit is not known


@dataclass(frozen=True, slots=True)
class ProbabilityMargin(ScoreMargin):
    """Log-probability of the member answer less that of the non-member answer, in nats.

    For an endpoint that reports the likeliest first tokens, or any model that scores answers. The
    zero is the answer itself: above it the model would say that the canary is there.
    """

    name: ClassVar[str] = "probability_margin"
    access: ClassVar[Access] = "probabilities"


@dataclass(frozen=True, slots=True)
class DistanceGap(_Margin):
    """How much nearer a noisy mean lies to the member answer's public point, in votes.

    With the points p1 and p0 of both answers, g = |p1 - p0|, and z the mean of T answers:
    2T/g (z . (p1 - p0)/g - (|p1|^2 - |p0|^2)/(2g)). So all answers at p0 give -T, and each that
    moves to p1 adds 2.

    Reference:
        XL.
    """

    name: ClassVar[str] = "distance_gap"
    access: ClassVar[Access] = "white_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        """(draws,) gaps; where no answer speaks for a non-member, to the nearest other one."""
        if outputs.noisy is None or outputs.points is None:
            raise UsageError(
                "distance_gap needs a noisy mean and public points of the answers; use "
                "predicted_member."
            )
        member = outputs.points[answers.index(rendered.member)]
        others = answers if rendered.nonmember is None else (rendered.nonmember,)
        points = [outputs.points[answers.index(o)] for o in others if o != rendered.member]
        gaps = [_gap(outputs.noisy, member, other, outputs.scale) for other in points]
        return np.asarray(np.min(gaps, 0))

    def chances(
        self, law: OutputDistribution, outputs: Outputs, rendered: RenderedQuery,
        answers: tuple[str, ...], levels: Floats,
    ) -> Floats | None:  # fmt: skip
        """(K,) chances of the gap to one other answer; of several, they are simulated."""
        if outputs.points is None or rendered.nonmember is None:
            return None
        one = outputs.points[answers.index(rendered.member)]
        other = outputs.points[answers.index(rendered.nonmember)]
        square = float((one - other) @ (one - other))
        if not isinstance(law, GaussianLaw) or square == 0:
            return None
        unit = 2 * outputs.scale / square
        offset = unit * float(one @ one - other @ other) / 2
        return law.linear_chances(unit * (one - other), offset, levels)


def _gap(z: Floats, one: Floats, other: Floats, votes: float) -> Floats:
    """(draws,); 0 everywhere where both answers have one point."""
    between = one - other
    square = float(between @ between)
    if square == 0:
        return np.zeros(len(z))
    return np.asarray(2 * votes / square * (z @ between - (one @ one - other @ other) / 2))


@dataclass(frozen=True, slots=True)
class ReferenceDirection(Score):
    """The noisy mean along the direction from non-members to members of pilot pairs.

    The unit is half of the pilot's distance, so members of the pilot lie at 1 and non-members at
    -1 on average. The pilot pairs enter no bound.

    Reference:
        CL; Choi et al.
    """

    name: ClassVar[str] = "reference_direction"
    access: ClassVar[Access] = "white_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)
    learns: ClassVar[bool] = True
    direction: tuple[float, ...] = field(default=(), init=False, repr=False)
    centre: float = field(default=0.0, init=False, repr=False)

    def levels(self, voters: int) -> Floats:
        """Around the middle of the pilot's means."""
        return np.linspace(-4.0, 4.0, 9)

    def fit(self, member: Floats, nonmember: Floats) -> Score:
        """The direction between the means of pilot pairs."""
        one, other = member.mean(0), nonmember.mean(0)
        between = one - other
        square = max(float(between @ between), 1e-30)  # both means may be the same
        found = replace(self)
        object.__setattr__(found, "direction", tuple((2 * between / square).tolist()))
        object.__setattr__(found, "centre", float((one + other) @ between / square))
        return found

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        """(draws,) projections of the noisy means."""
        if not self.direction:
            raise UsageError(
                "reference_direction has no pilot pairs to learn from; call its fit(member, "
                "nonmember) first."
            )
        if outputs.noisy is None:
            raise UsageError("reference_direction needs a noisy mean; use predicted_member.")
        return np.asarray(outputs.noisy @ np.asarray(self.direction) - self.centre)

    def chances(
        self, law: OutputDistribution, outputs: Outputs, rendered: RenderedQuery,
        answers: tuple[str, ...], levels: Floats,
    ) -> Floats | None:  # fmt: skip
        if not self.direction or not isinstance(law, GaussianLaw):
            return None
        return law.linear_chances(np.asarray(self.direction), self.centre, levels)


@dataclass(frozen=True, slots=True)
class ContainsCanary(_Indicator):
    """1 where a free answer holds the canary's text, whatever its case and spacing, else 0.

    Reference:
        CL.
    """

    name: ClassVar[str] = "contains_canary"
    free: ClassVar[bool] = True
    reads_text: ClassVar[bool] = True
    quotes: ClassVar[bool] = True

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        target = _normal(rendered.target)
        return np.array([float(target in _normal(text)) for text in output_texts(outputs)])


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


@dataclass(frozen=True, slots=True)
class Overlap(_Indicator):
    """Share of the target's words that a free answer repeats in their order (ROUGE-L recall).

    Of its characters within one word of the answer, if the target is one word.

    Reference:
        Wen et al. (CCS 2024); Lin, "ROUGE" (2004).
    """

    name: ClassVar[str] = "overlap"
    free: ClassVar[bool] = True
    reads_text: ClassVar[bool] = True

    def levels(self, voters: int) -> Floats:
        return np.array([0.25, 0.5, 0.75])

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        target = rendered.target.casefold()
        return np.array([_recall(target, text.casefold()) for text in output_texts(outputs)])


def _recall(target: str, text: str) -> float:
    target = target.strip()  # within one word, as a long answer has all characters somewhere
    if " " in target:
        return share_in_order(target.split(), text.split())
    return max((share_in_order(target, word) for word in text.split()), default=0.0)


@dataclass(frozen=True, slots=True)
class DocumentScore(Score):
    """The number from -1 to 1 that an attack on a document makes of all replies about it.

    Its threshold is chosen on other documents than those of the bound: on the control canaries of a
    one_run design, on the first pairs of others. With `--threshold rank` there is none.
    """

    name: ClassVar[str] = "document"
    access: ClassVar[Access] = "black_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)
    free: ClassVar[bool] = True

    def levels(self, voters: int) -> Floats:
        """Tenths from -0.95 to 0.95, between most scores."""
        return np.arange(-9.5, 10.0) / 10

    def score(self, outputs: Outputs, rendered: RenderedQuery, answers: tuple[str, ...]) -> Floats:
        found = [rendered.evaluate(text) for text in output_texts(outputs)]
        if None in found:
            raise UsageError(
                "the score document is that of queries about documents, such as mba; use --score "
                "contains_canary."
            )
        return np.array(found, float)


SCORES: Catalogue[Score] = Catalogue(
    "the score",
    "leakbound.scores",
    (
        PredictedMember, LabelMargin, ScoreMargin, ProbabilityMargin, DistanceGap,
        ReferenceDirection, ContainsCanary, Overlap, Unanswered, DocumentScore,
    ),
)  # fmt: skip
