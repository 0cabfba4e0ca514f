"""The log-odds of the accuracy: a point estimate that is widely quoted, and decides nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from leakbound.errors import UsageError
from leakbound.estimators.base import Bounds, Estimator, Reads, TrialDesign
from leakbound.estimators.error_counts import TrialLog, counted_pairs
from leakbound.stats import BestOnSameData, Bonferroni, Estimate, Kind, accuracy_log_odds

__all__ = ["AccuracyLogOdds"]


@dataclass(frozen=True, slots=True)
class AccuracyLogOdds(Estimator):
    """Point estimate ln((a - delta)/(1 - a)) of the accuracy a.

    Guarantee: none; a perfect attack on two trials gives infinity.
    Reference: ContextLeak (CL).
    """

    name: ClassVar[str] = "accuracy_log_odds"
    kind: ClassVar[Kind] = "point_estimate"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials"})

    def check(self, design: TrialDesign) -> None:
        """Refuse a rule that tries several thresholds.

        Args:
            design: What is known beforehand.

        Raises:
            UsageError: If the rule tries several thresholds.
        """
        if isinstance(design.rule, Bonferroni):
            raise UsageError(
                "accuracy_log_odds reads the guesses at one threshold, and the rule tries several; "
                "use --threshold split or best."
            )

    def begin(self, design: TrialDesign) -> _LogOdds:
        """An observer that counts right guesses.

        Args:
            design: What is known beforehand.

        Returns:
            An observer with one point estimate.
        """
        return _LogOdds(design)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """How many of so many pairs are counted.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            All pairs where the threshold is chosen on them, else those after the pilots.
        """
        best = isinstance(design.rule, BestOnSameData)
        return pairs if best else counted_pairs(design, pairs)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The estimate where every guess is right.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            Infinity, from one pair on.
        """
        return Bounds(math.inf if self.tested_pairs(design, pairs) else 0.0)


class _LogOdds(TrialLog):
    """Error counts, read as a point estimate."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Of epsilon; none where no threshold could be chosen."""
        counts = self.counts()
        if counts is None:
            return ()
        delta = self.design.claim.delta
        return (accuracy_log_odds(*counts.guesses, delta, counts.threshold),)
