"""Clopper-Pearson limits on both error rates: bounds for a number of pairs fixed beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from leakbound.estimators.base import Bounds, Estimator, Reads, TrialDesign, require_fixed_size
from leakbound.estimators.error_counts import TrialLog, counted_pairs, require_separate_threshold
from leakbound.stats import (
    Bonferroni,
    Estimate,
    Kind,
    Power,
    bonferroni,
    clopper_pearson,
    clopper_pearson_power,
    gdp,
    largest_certifiable_epsilon,
    pairs_to_reject,
)

PRACTICAL = (
    12.0  # above this epsilon, a rejection needs more than 600,000 pairs, which no plan asks for
)


@dataclass(frozen=True, slots=True)
class ClopperPearson(Estimator):
    """Bounds on epsilon and mu from error counts of one output per context.

    Guarantee: both bounds hold together with the stated confidence, for any mechanism, for
    a number of pairs fixed beforehand and a threshold not chosen on the tested trials.
    Reference: Jagielski et al. 2020; Nasr et al. 2023 (mu).
    """

    name: ClassVar[str] = "clopper_pearson"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials"})

    def check(self, design: TrialDesign) -> None:
        """Refuse early stopping, and a threshold chosen on the tested trials.

        Args:
            design: Design of the trials.

        Raises:
            UsageError: If the audit may stop early, or the threshold is chosen on the tested
                trials.
        """
        require_fixed_size(self, design)
        require_separate_threshold(design)

    def begin(self, design: TrialDesign) -> _Limits:
        """An observer that counts errors.

        Args:
            design: Design of the trials.

        Returns:
            An observer with bounds on epsilon and on mu.
        """
        return _Limits(design)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """Number of pairs that are counted.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            Number of pairs that neither train the score nor choose its threshold.
        """
        return counted_pairs(design, pairs)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds if every guess is right.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            Bounds, which grow without limit with the number of pairs.
        """
        tested, delta = self.tested_pairs(design, pairs), design.claim.delta
        if tested < 1:
            return Bounds(0.0, 0.0)
        each = limit_confidence(design)
        mu = gdp(tested, 0, 0, tested, delta, each).mu
        return Bounds(largest_certifiable_epsilon(tested, delta, each), mu or 0.0)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> Power | None:
        """Power if the system leaks like randomised response.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.
            leak: True epsilon in units of the claimed one.

        Returns:
            Probability that the bound on epsilon exceeds the claim, under the design's assumption
            of how often the model notices canaries. None if an output is not a single answer of a
            system.
        """
        if not design.one_answer:
            return None
        claim, tested = design.claim, self.tested_pairs(design, pairs)
        true, each = leak * claim.epsilon, limit_confidence(design)
        given = (tested, true, claim.epsilon, claim.delta, each, design.assumption)
        return Power(clopper_pearson_power(*given))

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Smallest number of tested pairs whose bound exceeds the claim if every guess is right.

        Args:
            design: Design of the trials.

        Returns:
            The number of pairs; None for claims that no practical number of pairs rejects.
        """
        if design.claim.epsilon > PRACTICAL:
            return None
        return pairs_to_reject(design.claim.epsilon, design.claim.delta, limit_confidence(design))


def limit_confidence(design: TrialDesign) -> float:
    """Confidence of the limits at one threshold; higher than the bound's if several are tried."""
    if not isinstance(design.rule, Bonferroni):
        return design.confidence
    return 1 - (1 - design.confidence) / len(_thresholds(design))


def _thresholds(design: TrialDesign) -> Sequence[float]:
    """Thresholds that the rule names, or else the score's own."""
    return (isinstance(design.rule, Bonferroni) and design.rule.values) or design.levels


class _Limits(TrialLog):
    """Error counts, read as Clopper-Pearson limits."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Bounds on epsilon and on mu; none if no threshold could be chosen."""
        claim, confidence = self.design.claim, self.design.confidence
        if isinstance(self.design.rule, Bonferroni):
            scores, tried = self.tested, _thresholds(self.design)
            found = (scores.member, scores.nonmember, tried, claim.delta, confidence)
            return bonferroni(clopper_pearson, *found), bonferroni(gdp, *found)
        counts = self.counts()
        if counts is None:
            return ()
        given = (*counts.cells, claim.delta, confidence, counts.threshold)
        return clopper_pearson(*given), gdp(*given)
