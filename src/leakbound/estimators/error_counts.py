"""Estimators that count errors of single outputs at one threshold, and differ in their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from leakbound import stats
from leakbound.errors import UsageError
from leakbound.estimators.base import (
    ACCURACIES,
    AccuracyPower,
    Bounds,
    Estimator,
    FixedSize,
    Observations,
    Observer,
    PairedScores,
    Reads,
    TrialDesign,
    require_fixed_size,
    say_two_sided,
)
from leakbound.estimators.witness import WitnessEvidence
from leakbound.stats import BestOnSameData, Bonferroni, Estimate, Fixed, Kind, Power
from leakbound.stats.counts.unconditional import (
    unconditional,
    unconditional_mu,
    unconditional_power,
)
from leakbound.stats.curves.curves import FromCounts, error_cells
from leakbound.stats.e_values.anytime import MixedEProcess
from leakbound.stats.power import least_number

# above this epsilon, a rejection needs more than 100,000 pairs, which no plan asks for
PRACTICAL = 12.0


class _Statistic(NamedTuple):
    """Formulas for epsilon and for mu, if there is one, and the power of that for epsilon."""

    epsilon: FromCounts
    mu: FromCounts | None = None
    power: Callable[..., float] | None = None

    @property
    def formulas(self) -> tuple[FromCounts, ...]:
        """That for epsilon, and that for mu if there is one."""
        return (self.epsilon,) if self.mu is None else (self.epsilon, self.mu)


def by_accuracy(
    tp: int, fn: int, fp: int, tn: int, delta: float, confidence: float, threshold: str
) -> Estimate:
    return stats.accuracy_bound(tp + tn, tp + fn + fp + tn, delta, confidence, threshold)


def by_log_odds(
    tp: int, fn: int, fp: int, tn: int, delta: float, confidence: float, threshold: str
) -> Estimate:
    return stats.accuracy_log_odds(tp + tn, tp + fn + fp + tn, delta, threshold)


@dataclass(frozen=True)
class CountEstimator(Estimator):
    """Estimates from error counts of one output per context, by the formulas of a statistic."""

    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials"})
    statistic: ClassVar[_Statistic]

    def check(self, design: TrialDesign) -> None:
        """Refuse early stopping, and rules under which the counts give no valid bound."""
        if self.kind != "point_estimate":
            require_fixed_size(self, design)
        if self.statistic.mu is None and isinstance(design.rule, Bonferroni):
            raise UsageError(
                f"{self.name} needs a single threshold, but the rule tries several; use "
                "--threshold split, or --estimator clopper_pearson."
            )
        if self.kind != "point_estimate" and isinstance(design.rule, BestOnSameData):
            raise UsageError(
                "a threshold chosen on the tested trials gives no valid bound; use --threshold "
                "split or bonferroni."
            )

    def begin(self, design: TrialDesign) -> TrialLog:
        return TrialLog(design, self.statistic)

    def two_sided(self) -> TwoSidedCounts | None:
        return None if self.statistic.mu is None else TwoSidedCounts(self)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """Number of pairs that are counted: those that train no score and choose no threshold."""
        best = isinstance(design.rule, BestOnSameData)
        return pairs if best else max(0, pairs - design.untested_pairs(pairs))

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The estimates if every guess is right."""
        n, mu = self.tested_pairs(design, pairs), self.statistic.mu
        if not n:
            return Bounds(0.0, None if mu is None else 0.0)
        given = (n, 0, 0, n, design.claim.delta, limit_confidence(design), "")
        epsilon = self.statistic.epsilon(*given).epsilon or 0.0
        return Bounds(epsilon, None if mu is None else mu(*given).mu or 0.0)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """Probability of a rejection if single answers leak like randomised response."""
        if self.statistic.power is None or not design.one_answer:
            return None
        claim, tested = design.claim, self.tested_pairs(design, pairs)
        true, each = leak * claim.epsilon, limit_confidence(design)
        given = (tested, true, claim.epsilon, claim.delta, each, design.assumption)
        return Power(self.statistic.power(*given))

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Smallest number of tested pairs whose bound exceeds the claim if every guess is right."""
        claim, each = design.claim, limit_confidence(design)

        def enough(pairs: int) -> bool:
            best = self.statistic.epsilon(pairs, 0, 0, pairs, claim.delta, each, "")
            return (best.epsilon or 0.0) > claim.epsilon

        return None if claim.epsilon > PRACTICAL else least_number(enough)


class ClopperPearson(CountEstimator):
    """Bounds on epsilon and mu from error counts of one output per context.

    Guarantee: both bounds hold together with the stated confidence, for any mechanism, for
    a number of pairs fixed beforehand and a threshold not chosen on the tested trials.
    Reference: Jagielski et al. 2020; Nasr et al. 2023 (mu).
    """

    name: ClassVar[str] = "clopper_pearson"
    simultaneous = CountEstimator.simultaneous
    statistic: ClassVar[_Statistic] = _Statistic(
        stats.clopper_pearson, stats.gdp, stats.clopper_pearson_power
    )


class Unconditional(CountEstimator):
    """Bounds on epsilon and mu from error counts, with both error rates tested together.

    The bounds are tighter than those of `clopper_pearson`, which covers the two rates separately.

    Guarantee: each bound holds by itself with the stated confidence, under the same conditions.
    Reference: Barnard 1947; Buehler 1957; Berger and Boos 1994.
    """

    name: ClassVar[str] = "unconditional"
    simultaneous: ClassVar[bool] = False
    statistic: ClassVar[_Statistic] = _Statistic(
        unconditional, unconditional_mu, unconditional_power
    )


# Formulas of the estimators that may decide, by name.
STATISTICS = {one.name: one.statistic for one in (ClopperPearson, Unconditional)}


# Those below are reported beside the estimator that decides.
class AccuracyBound(CountEstimator):
    """A bound from the accuracy of the guesses."""

    name: ClassVar[str] = "accuracy_bound"
    simultaneous = CountEstimator.simultaneous
    statistic: ClassVar[_Statistic] = _Statistic(by_accuracy)


class JointBeta(CountEstimator):
    """A credible bound, which holds under a prior and not at a confidence."""

    name: ClassVar[str] = "joint_beta"
    kind: ClassVar[Kind] = "credible"
    statistic: ClassVar[_Statistic] = _Statistic(stats.joint_beta)


class AccuracyLogOdds(CountEstimator):
    """A point estimate from the accuracy of the guesses; a perfect attack gives infinity."""

    name: ClassVar[str] = "accuracy_log_odds"
    kind: ClassVar[Kind] = "point_estimate"
    statistic: ClassVar[_Statistic] = _Statistic(by_log_odds)


def limit_confidence(design: TrialDesign) -> float:
    """Confidence of the limits at one threshold; higher than the bound's if several are tried."""
    if not isinstance(design.rule, Bonferroni):
        return design.confidence
    return 1 - (1 - design.confidence) / len(design.rule.values or design.levels)


class TrialLog(FixedSize):
    """The scores of all trials, and the simulated scores of the pairs that choose a threshold."""

    def __init__(self, design: TrialDesign, statistic: _Statistic) -> None:
        self.design, self.statistic = design, statistic
        self._choosing = design.threshold_pairs(design.pairs)
        self._trials: list[PairedScores] = []
        self._simulated: list[PairedScores] = []

    def observe(self, observations: Observations) -> None:
        self._trials.append(observations.trials)
        left = self._choosing - observations.first
        if left > 0:
            self._simulated.append(observations.simulated.part(slice(left)))

    @property
    def trials(self) -> PairedScores:
        return _join(self._trials)

    def bounds(self) -> tuple[Estimate, ...]:
        """The estimates; none if no threshold could be chosen."""
        trials, rule, claim = self.trials, self.design.rule, self.design.claim
        tested = trials.part(slice(self.design.untested_pairs(len(trials)), None))
        formulas, stated = self.statistic.formulas, (claim.delta, self.design.confidence)
        if isinstance(rule, Bonferroni):
            given = (tested.member, tested.nonmember, rule.values or self.design.levels, *stated)
            return tuple(stats.bonferroni(formula, *given) for formula in formulas)
        if isinstance(rule, Fixed):
            tau, threshold = rule.value, str(rule)
        else:
            best = isinstance(rule, BestOnSameData)
            tested = trials if best else tested
            chosen = slice(self.design.threshold_pairs(len(trials)))
            choosing = trials if best else _join(self._simulated).part(chosen)
            if not len(choosing):
                return ()
            tau = stats.best_threshold(choosing.member, choosing.nonmember)
            threshold = f"{rule} (tau = {tau:g})"
        cells = error_cells(tested.member, tested.nonmember, tau)
        return tuple(f(*cells, *stated, threshold) for f in formulas) if len(tested) else ()


def _join(parts: list[PairedScores]) -> PairedScores:
    if len(parts) > 1:
        member = np.concatenate([part.member for part in parts])
        nonmember = np.concatenate([part.nonmember for part in parts])
        parts[:] = [PairedScores(member, nonmember)]
    return parts[0] if parts else PairedScores(np.zeros(0), np.zeros(0))


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
        self.inner.check(design)

    def begin(self, design: TrialDesign) -> Observer:
        one = design.one_side
        return _BothCounts(design, (self.inner.begin(one), self.inner.begin(one)))

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        return self.inner.tested_pairs(design, pairs)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        return self.inner.largest_certifiable(design.one_side, pairs)

    def accuracy_power(self, design: TrialDesign, pairs: int) -> AccuracyPower:
        if not design.one_answer:
            return ()
        tested = self.tested_pairs(design, pairs)
        return count_accuracy_power(self.inner.statistic, tested, design.one_side.confidence)


def count_accuracy_power(statistic: _Statistic, pairs: int, confidence: float) -> AccuracyPower:
    """Power of one of two sides against random guessing, by the accuracy of the attack."""
    chance = statistic.power
    if chance is None or not pairs:
        return ()
    epsilons = {right: math.log(right / (1 - right)) for right in ACCURACIES}
    return tuple((a, Power(chance(pairs, e, 0.0, 0.0, confidence))) for a, e in epsilons.items())


class _BothCounts(FixedSize):
    """Error counts of the pairs, and of the pairs with their contexts exchanged."""

    def __init__(self, design: TrialDesign, sides: tuple[Observer, Observer]) -> None:
        self.design, self._sides = design, sides

    def observe(self, observations: Observations) -> None:
        for side, seen in zip(self._sides, (observations, observations.exchange()), strict=True):
            side.observe(seen)

    def bounds(self) -> tuple[Estimate, ...]:
        stated = self.design.confidence
        both = zip(*(side.bounds() for side in self._sides), strict=True)
        stronger = (
            max(pair, key=lambda one: (one.mu if one.epsilon is None else one.epsilon) or 0.0)
            for pair in both
        )
        return tuple(say_two_sided(replace(one, confidence=stated)) for one in stronger)


SCORE = 0.8  # share of the error that counts of the score have where replies are read too
EQUAL = "all pairs have the same two rates, and their number was fixed before the first call"


@dataclass(frozen=True)
class FixedPairs(Unconditional):
    """Bounds for a number of pairs that is fixed beforehand, from error counts and whole replies.

    Four fifths of the error are spent on the counts of the score (`unconditional`), and a fifth on
    the learned witness; all of it on the counts where replies say no more than their answer. At
    high rates the bounds are larger than those of `e_process`, which hold at any time; no pair may
    be added later.

    Guarantee: the bound on epsilon holds with the stated confidence, for a number of pairs fixed
    beforehand and equal rates of all pairs.
    Reference: Barnard 1947; Buehler 1957; Ville 1939.
    """

    name: ClassVar[str] = "fixed_pairs"
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials", "replies"})

    def begin(self, design: TrialDesign) -> Observer:  # type: ignore[override]
        counts = super().begin(_of_score(design))
        return _ScoreAndReplies(design, counts) if design.replies else counts

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        return super().largest_certifiable(_of_score(design), pairs)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        return super().power(_of_score(design), pairs, leak)

    def pairs_needed(self, design: TrialDesign) -> int | None:
        return super().pairs_needed(_of_score(design))


def _of_score(design: TrialDesign) -> TrialDesign:
    """The design with the share of the error that the score has."""
    error = (1 - design.confidence) * (SCORE if design.replies else 1.0)
    return replace(design, confidence=1 - error)


class _ScoreAndReplies(FixedSize):
    """Counts of the score, and the witness beside them."""

    def __init__(self, design: TrialDesign, counts: Observer) -> None:
        self.design, self._counts = design, counts
        self._witness = WitnessEvidence(design, design.tested, 1.0)
        error = (1 - SCORE) * (1 - design.confidence)
        self._replies = MixedEProcess(design.tested, {"witness": (1.0, self._witness)}, 1 - error)

    def observe(self, observations: Observations) -> None:
        self._counts.observe(observations)
        for replies, canary in (observations.reply_pairs or ())[
            observations.after(self.design.pilot)
        ]:
            self._witness.observe(replies, canary)

    def bounds(self) -> tuple[Estimate, ...]:
        """Those of what shows more."""
        found = self._counts.bounds()
        if not found:
            return ()
        epsilon, *others = found
        replies = self._replies.epsilon_lower_bound(self.design.claim.delta)
        if (replies.epsilon or 0.0) > (epsilon.epsilon or 0.0):
            epsilon = replace(replies, reading=self._witness.reading())
        epsilon = replace(epsilon, assumptions=(EQUAL, *epsilon.assumptions))
        return tuple(replace(one, confidence=self.design.confidence) for one in (epsilon, *others))
