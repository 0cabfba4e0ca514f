"""Exact unconditional bounds on epsilon and mu, for a number of pairs fixed beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakbound.estimators.base import Bounds, Estimator, Reads, TrialDesign, require_fixed_size
from leakbound.estimators.clopper_pearson import limit_confidence
from leakbound.estimators.error_counts import TrialLog, counted_pairs, require_separate_threshold
from leakbound.stats import Bonferroni, Estimate, Kind, Power, bonferroni
from leakbound.stats.counts.unconditional import (
    unconditional,
    unconditional_mu,
    unconditional_power,
)

PRACTICAL = 12.0  # above this epsilon, a rejection needs over 100,000 pairs, which no plan asks for


@dataclass(frozen=True, slots=True)
class Unconditional(Estimator):
    """Bounds on epsilon and mu from error counts, with both error rates tested together.

    The bounds are tighter than those of `clopper_pearson`, which covers the two rates separately.

    Guarantee: each bound holds with the stated confidence, for any mechanism, for a number
    of pairs fixed beforehand and a threshold not chosen on the tested trials.
    Reference: Barnard 1947; Buehler 1957; Berger and Boos 1994.
    """

    name: ClassVar[str] = "unconditional"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = False
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

    def begin(self, design: TrialDesign) -> _Counts:
        """An observer that counts errors.

        Args:
            design: Design of the trials.

        Returns:
            An observer with bounds on epsilon and on mu.
        """
        return _Counts(design)

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
        tested = self.tested_pairs(design, pairs)
        if tested < 1:
            return Bounds(0.0, 0.0)
        given = (tested, 0, 0, tested, design.claim.delta, limit_confidence(design))
        return Bounds(unconditional(*given).epsilon or 0.0, unconditional_mu(*given).mu or 0.0)

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
        return Power(unconditional_power(*given))

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Smallest number of tested pairs whose bound exceeds the claim if every guess is right.

        Args:
            design: Design of the trials.

        Returns:
            The number of pairs; None for claims that no practical number of pairs rejects.
        """
        claim, each = design.claim, limit_confidence(design)
        if claim.epsilon > PRACTICAL:
            return None

        def enough(pairs: int) -> bool:
            best = unconditional(pairs, 0, 0, pairs, claim.delta, each).epsilon or 0.0
            return best > claim.epsilon

        low, high = 0, 1
        while not enough(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high


class _Counts(TrialLog):
    """Error counts, read by exact unconditional tests."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Bounds on epsilon and on mu; none if no threshold could be chosen."""
        claim, confidence, rule = self.design.claim, self.design.confidence, self.design.rule
        if isinstance(rule, Bonferroni):
            scores, tried = self.tested, rule.values or self.design.levels
            found = (scores.member, scores.nonmember, tried, claim.delta, confidence)
            return bonferroni(unconditional, *found), bonferroni(unconditional_mu, *found)
        counts = self.counts()
        if counts is None:
            return ()
        given = (*counts.cells, claim.delta, confidence, counts.threshold)
        return unconditional(*given), unconditional_mu(*given)
