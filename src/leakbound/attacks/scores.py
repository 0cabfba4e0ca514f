"""Scores: one number per release, higher for members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from leakbound._catalogue import Catalogue
from leakbound.attacks.queries import Asked
from leakbound.errors import UsageError
from leakbound.stats import Fixed, Split, ThresholdRule
from leakbound.tasks import Access, Outputs

__all__ = [
    "SCORES", "ContainsCanary", "DistanceGap", "LabelMargin", "Overlap", "ReferenceDirection", "PredictedMember", "Score", "ScoreMargin",
    "released_texts",
]  # fmt: skip

Floats = npt.NDArray[np.float64]


class Score(Protocol):
    """Scores releases; `answers` are the query's answers in class order, `threshold` the rule it is
    used with by default.
    """

    name: ClassVar[str]
    access: ClassVar[Access]
    threshold: ClassVar[ThresholdRule]
    free: ClassVar[bool]  # reads a free text, not a choice

    def levels(self, partitions: int) -> Floats:
        """Thresholds that a mixture bets on, chosen before any release."""

    def score(self, outputs: Outputs, asked: Asked, answers: tuple[str, ...]) -> Floats: ...


@dataclass(frozen=True, slots=True)
class PredictedMember:
    """1 where the released answer is the member answer, else 0."""

    name: ClassVar[str] = "predicted_member"
    free: ClassVar[bool] = False
    access: ClassVar[Access] = "black_box"
    threshold: ClassVar[ThresholdRule] = Fixed(0.5)

    def levels(self, partitions: int) -> Floats:
        """The one threshold there is."""
        return np.array([0.5])

    def score(self, outputs: Outputs, asked: Asked, answers: tuple[str, ...]) -> Floats:
        """(draws,) zeros and ones."""
        return np.asarray(outputs.answers == answers.index(asked.member), float)


def _margins(partitions: int) -> Floats:
    return np.arange(-partitions - 4.0, partitions + 5.0)


@dataclass(frozen=True, slots=True)
class LabelMargin:
    """Noisy votes for the member answer less those for the non-member answer (or the best other
    one), in votes.
    """

    name: ClassVar[str] = "label_margin"
    free: ClassVar[bool] = False
    access: ClassVar[Access] = "white_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)

    def levels(self, partitions: int) -> Floats:
        """Every whole margin, and some beyond the ends, where rare releases tell most."""
        return _margins(partitions)

    def score(self, outputs: Outputs, asked: Asked, answers: tuple[str, ...]) -> Floats:
        """(draws,) differences."""
        if outputs.noisy is None:
            raise UsageError(
                "label_margin needs the noisy votes of a release; use predicted_member for a "
                "black box."
            )
        noisy, member = outputs.scale * outputs.noisy, answers.index(asked.member)
        if asked.nonmember is not None:
            return np.asarray(noisy[:, member] - noisy[:, answers.index(asked.nonmember)])
        others = np.delete(noisy, member, axis=1)
        return np.asarray(noisy[:, member] - others.max(1))


@dataclass(frozen=True, slots=True)
class ScoreMargin(LabelMargin):
    """The same for scores of any unit that a system gives to its answers:

    votes, probabilities, log-probabilities.
    """

    name: ClassVar[str] = "score_margin"

    def levels(self, partitions: int) -> Floats:
        """Zero, and both signs of 1, 2 and 5 from hundredths to hundreds."""
        sizes = np.outer(10.0 ** np.arange(-2, 3), [1, 2, 5]).ravel()
        return np.concatenate([-sizes[::-1], [0.0], sizes])


@dataclass(frozen=True, slots=True)
class DistanceGap:
    """How much nearer a noisy mean lies to the member answer's public point than to the other's
    (XL), in votes.

    With the points p1, p0 of both answers, g = |p1 - p0|, and z the mean of T answers:
    2T/g (z . (p1 - p0)/g - (|p1|^2 - |p0|^2)/(2g)), so all answers at p0 give -T, and each that
    moves to p1 adds 2.
    """

    name: ClassVar[str] = "distance_gap"
    free: ClassVar[bool] = False
    access: ClassVar[Access] = "white_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)

    def levels(self, partitions: int) -> Floats:
        """Every whole margin, and some beyond the ends."""
        return _margins(partitions)

    def score(self, outputs: Outputs, asked: Asked, answers: tuple[str, ...]) -> Floats:
        """(draws,) gaps, to the nearest other answer where none speaks for a non-member."""
        if outputs.noisy is None or outputs.points is None:
            raise UsageError(
                "distance_gap needs a noisy mean and public points of the answers; use "
                "predicted_member."
            )
        member = outputs.points[answers.index(asked.member)]
        others = answers if asked.nonmember is None else (asked.nonmember,)
        gaps = [
            _gap(outputs.noisy, member, outputs.points[answers.index(o)], outputs.scale)
            for o in others if o != asked.member
        ]  # fmt: skip
        return np.asarray(np.min(gaps, 0))


def _gap(z: Floats, one: Floats, other: Floats, votes: float) -> Floats:
    """(draws,); 0 everywhere where both answers have one point."""
    between = one - other
    square = float(between @ between)
    if square == 0:
        return np.zeros(len(z))
    return np.asarray(2 * votes / square * (z @ between - (one @ one - other @ other) / 2))


@dataclass(frozen=True, slots=True)
class ReferenceDirection:
    """The noisy mean along a direction that was learnt on pilot pairs: from non-members to members
    (CL, Choi et al.).

    `direction` and `centre` are set by `fitted`; the unit is half of the pilot's distance, so
    members of the pilot lie at 1
    and non-members at -1 on average. The pilot pairs enter no bound.
    """

    name: ClassVar[str] = "reference_direction"
    access: ClassVar[Access] = "white_box"
    threshold: ClassVar[ThresholdRule] = Split(0.2)
    free: ClassVar[bool] = False
    direction: tuple[float, ...] = ()
    centre: float = 0.0

    def levels(self, partitions: int) -> Floats:
        """Around the middle of the pilot's means."""
        return np.linspace(-4.0, 4.0, 9)

    def fitted(self, member: Floats, nonmember: Floats) -> ReferenceDirection:
        """From noisy means (releases, dim) of pilot pairs."""
        one, other = member.mean(0), nonmember.mean(0)
        between = one - other
        square = max(float(between @ between), 1e-30)
        return ReferenceDirection(
            tuple((2 * between / square).tolist()), float((one + other) @ between / square)
        )

    def score(self, outputs: Outputs, asked: Asked, answers: tuple[str, ...]) -> Floats:
        """(draws,) projections."""
        if outputs.noisy is None or not self.direction:
            raise UsageError(
                "reference_direction needs a noisy mean and pilot pairs to learn from; use "
                "predicted_member."
            )
        return np.asarray(outputs.noisy @ np.asarray(self.direction) - self.centre)


def released_texts(outputs: Outputs) -> list[str]:
    """What each draw says in words:

    the chosen text, or the keywords that were released together.
    """
    if outputs.picked is not None and outputs.points is None:
        return [" ".join(outputs.choices[i] for i in row) for row in outputs.picked]
    return [outputs.choices[i] if i < len(outputs.choices) else "" for i in outputs.answers]


@dataclass(frozen=True, slots=True)
class ContainsCanary:
    """1 where a free answer holds the canary's text, whatever its case and spacing, else 0."""

    name: ClassVar[str] = "contains_canary"
    access: ClassVar[Access] = "black_box"
    threshold: ClassVar[ThresholdRule] = Fixed(0.5)
    free: ClassVar[bool] = True

    def levels(self, partitions: int) -> Floats:
        """The one threshold there is."""
        return np.array([0.5])

    def score(self, outputs: Outputs, asked: Asked, answers: tuple[str, ...]) -> Floats:
        """(draws,) zeros and ones."""
        target = " ".join(asked.target.casefold().split())
        return np.array(
            [float(target in " ".join(t.casefold().split())) for t in released_texts(outputs)]
        )


@dataclass(frozen=True, slots=True)
class Overlap:
    """Share of the target's words (characters, if it is one word) that a free answer repeats in
    their order (ROUGE-L recall).
    """

    name: ClassVar[str] = "overlap"
    access: ClassVar[Access] = "black_box"
    threshold: ClassVar[ThresholdRule] = Fixed(0.5)
    free: ClassVar[bool] = True

    def levels(self, partitions: int) -> Floats:
        """Quarters."""
        return np.array([0.25, 0.5, 0.75])

    def score(self, outputs: Outputs, asked: Asked, answers: tuple[str, ...]) -> Floats:
        """(draws,) shares."""
        return np.array(
            [_recall(asked.target.casefold(), text.casefold()) for text in released_texts(outputs)]
        )


def _recall(target: str, text: str) -> float:
    """Longest common subsequence over the length of the target."""
    a, b = (
        (target.split(), text.split())
        if " " in target.strip()
        else (list(target.strip()), list(text))
    )
    row = [0] * (len(b) + 1)
    for x in a:
        last = row
        row = [0]
        for j, y in enumerate(b):
            row.append(last[j] + 1 if x == y else max(last[j + 1], row[j]))
    return row[-1] / max(1, len(a))


SCORES: Catalogue[Score] = Catalogue(
    "the score",
    "leakbound.scores",
    (
        PredictedMember, LabelMargin, ScoreMargin, DistanceGap, ReferenceDirection, ContainsCanary,
        Overlap,
    ),
)  # fmt: skip
