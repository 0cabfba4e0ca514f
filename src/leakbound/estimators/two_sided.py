"""Two-sided test of random guessing: attacks that are reliably right, and reliably wrong.

A bound on epsilon tests one side, that members score higher. Neighbouring contexts are symmetric,
so the same pairs with their contexts exchanged also bound epsilon. Each side has half of the error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from leakbound.errors import UsageError
from leakbound.estimators.base import (
    Bounds,
    Estimator,
    Observations,
    Observer,
    PairedScores,
    Reads,
    TrialDesign,
)
from leakbound.estimators.e_process import (
    WITNESS,
    EProcess,
    EValues,
    PairedEValues,
    Replayed,
    SequentialTest,
)
from leakbound.estimators.error_counts import ClopperPearson, CountEstimator, Unconditional
from leakbound.estimators.random_guessing import guessing_power, of_one_side
from leakbound.stats import BoundReading, Estimate, Kind, Power
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.mixture import MixedEProcess
from leakbound.stats.noise.votes import KnownScores

BOTH = "two-sided: that members score higher, and that they score lower, each with half the error"


@dataclass(frozen=True, slots=True)
class TwoSidedEProcess(SequentialTest):
    """Tests each side with an e-process, and decides by the mean of their e-values.

    Guarantee: each bound holds with the stated confidence at any stopping time.
    Reference: Vovk and Wang, "E-values: calibration, combination and applications" (Annals of
        Statistics 2021).
    """

    name: ClassVar[str] = "two_sided"

    def begin(self, design: TrialDesign) -> TwoSidedEValues:
        """E-processes before the first pair."""
        return TwoSidedEValues(design)

    def single(self, design: TrialDesign) -> TrialDesign:
        """Design of the trials of one side."""
        return _one_side(design)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """None: a claim of epsilon 0 has no multiples. See `accuracy_power`."""
        return None


@dataclass(frozen=True, slots=True)
class TwoSidedCounts(Estimator):
    """Bounds from error counts at one threshold, for the side with the higher bound."""

    inner: CountEstimator
    name: ClassVar[str] = "two_sided"
    kind: ClassVar[Kind] = CountEstimator.kind
    anytime: ClassVar[bool] = CountEstimator.anytime
    simultaneous: ClassVar[bool] = False
    reads: ClassVar[frozenset[Reads]] = CountEstimator.reads

    def check(self, design: TrialDesign) -> None:
        """Refuse designs that `inner` cannot read."""
        self.inner.check(design)

    def begin(self, design: TrialDesign) -> Observer:
        """An observer that counts errors on both sides."""
        one = _one_side(design)
        return _BothCounts(design, (self.inner.begin(one), self.inner.begin(one)))

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """Number of pairs that are counted."""
        return self.inner.tested_pairs(design, pairs)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds if every guess is right, or every guess is wrong."""
        return self.inner.largest_certifiable(_one_side(design), pairs)


def two_sided(estimator: Estimator) -> Estimator:
    """The two-sided form of an estimator: neighbouring contexts are symmetric."""
    if isinstance(estimator, EProcess):
        return TwoSidedEProcess()
    if isinstance(estimator, ClopperPearson | Unconditional):
        return TwoSidedCounts(estimator)
    raise UsageError(
        f"random guessing is tested on both sides, and {estimator.name} reads one; use --estimator "
        "e_process, clopper_pearson or unconditional."
    )


def accuracy_power(
    estimator: Estimator, design: TrialDesign, pairs: int
) -> tuple[tuple[float, Power], ...]:
    """Probability that attacks with given accuracies reject random guessing; see
    `guessing_power`."""
    if not isinstance(estimator, TwoSidedEProcess | TwoSidedCounts) or not design.one_answer:
        return ()
    tested = estimator.tested_pairs(design, pairs)
    if isinstance(estimator, TwoSidedCounts):
        return guessing_power(estimator.inner.name, tested, design.confidence)
    scored = 1 - WITNESS if design.replies else 1.0
    return guessing_power("e_process", tested, design.confidence, scored, design.early_stop)


class TwoSidedEValues(PairedEValues):
    """The e-processes of both sides of one audit."""

    def __init__(self, design: TrialDesign) -> None:
        self.design, one = design, _one_side(design)
        known = None if design.known is None else _Exchanged(design.known)
        self._higher, self._lower = EValues(one), EValues(replace(one, known=known))

    @property
    def process(self) -> MixedEProcess:
        """The mean of the e-values of both sides."""
        parts = {"higher": (0.5, self._higher.process), "lower": (0.5, self._lower.process)}
        return MixedEProcess(self.design.tested, parts, self.design.confidence)

    def observe(self, observations: Observations) -> None:
        """Update both e-values with the next pairs."""
        self._higher.observe(observations)
        self._lower.observe(_exchange(observations))

    def bounds(self) -> tuple[Estimate, ...]:
        """Lower bounds, which say that they are two-sided."""
        return tuple(map(_note, super().bounds()))

    def reading(self, replay: Replayed) -> BoundReading:
        """What carries the evidence against one claim, on the side that carries most of it."""
        if self.process.leading(replay) == "higher":
            return self._higher.reading(replay)
        return replace(self._lower.reading(replay), leads="")  # which is of exchanged contexts


class _BothCounts:
    """Error counts of the pairs, and of the pairs with their contexts exchanged."""

    process = None

    rejected = False

    def __init__(self, design: TrialDesign, sides: tuple[Observer, Observer]) -> None:
        self.design, self._sides = design, sides

    def observe(self, observations: Observations) -> None:
        """Count on both sides."""
        for side, seen in zip(self._sides, (observations, _exchange(observations)), strict=True):
            side.observe(seen)

    def bounds(self) -> tuple[Estimate, ...]:
        """Bounds on epsilon and on mu, each for the side with the higher bound."""
        both = zip(*(side.bounds() for side in self._sides), strict=True)
        stronger = (
            max(pair, key=lambda one: (one.mu if one.epsilon is None else one.epsilon) or 0.0)
            for pair in both
        )
        return tuple(_note(replace(one, confidence=self.design.confidence)) for one in stronger)


@dataclass(frozen=True, slots=True)
class _Exchanged:
    """Known scores of pairs with their contexts exchanged."""

    scores: KnownScores

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds of the score."""
        return self.scores.thresholds

    def support(self) -> tuple[Floats, Floats] | None:
        """The same as for the scores, with contexts exchanged."""
        found = self.scores.support()
        return None if found is None else found[::-1]

    def expected(self) -> tuple[Floats, Floats]:
        """The same as for the scores, with contexts exchanged."""
        x, y = self.scores.expected()
        return y, x


def _one_side(design: TrialDesign) -> TrialDesign:
    return replace(design, confidence=of_one_side(design.confidence))


def _exchange(seen: Observations) -> Observations:
    """The observations of the same pairs with their contexts exchanged."""
    replies, distributions, texts = seen.reply_pairs, seen.distribution_pairs, seen.text_pairs
    return replace(
        seen,
        trial_scores=_turned(seen.trial_scores),
        simulated_scores=_turned(seen.simulated_scores),
        vote_margins=_turned(seen.vote_margins),
        distribution_pairs=distributions and tuple((b, a) for a, b in distributions),
        text_pairs=texts and tuple((b, a) for a, b in texts),
        level_chances=_turned(seen.level_chances),
        corrected_scores=_turned(seen.corrected_scores),
        reply_pairs=replies and tuple(((b, a), canary) for (a, b), canary in replies),
    )


def _turned(scores: PairedScores | None) -> PairedScores | None:
    return None if scores is None else PairedScores(scores.nonmember, scores.member)


def _note(bound: Estimate) -> Estimate:
    return replace(bound, assumptions=(*bound.assumptions, BOTH))
