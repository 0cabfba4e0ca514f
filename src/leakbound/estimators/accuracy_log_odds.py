"""The log-odds of the accuracy: a widely quoted point estimate, which decides nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from leakbound.errors import UsageError
from leakbound.estimators.base import Bounds, Estimator, Reads, TrialDesign
from leakbound.estimators.error_counts import TrialLog, counted_pairs
from leakbound.stats import BestOnSameData, Bonferroni, Estimate, Kind, accuracy_log_odds


@dataclass(frozen=True, slots=True)
class AccuracyLogOdds(Estimator):
    """Point estimate ln((a - delta)/(1 - a)) of the accuracy a.

    Guarantee: none. A perfect attack on two trials gives infinity.
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
            design: Design of the trials.

        Raises:
            UsageError: If the rule tries several thresholds.
        """
        if isinstance(design.rule, Bonferroni):
            raise UsageError(
                "accuracy_log_odds needs a single threshold, but the rule tries several; use "
                "--threshold split or best."
            )

    def begin(self, design: TrialDesign) -> _LogOdds:
        """An observer that counts right guesses.

        Args:
            design: Design of the trials.

        Returns:
            An observer with one point estimate.
        """
        return _LogOdds(design)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """Number of pairs that are counted.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            All pairs if the threshold is chosen on them, else those after the pilot pairs.
        """
        best = isinstance(design.rule, BestOnSameData)
        return pairs if best else counted_pairs(design, pairs)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The estimate if every guess is right.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            Infinity, from one pair on.
        """
        return Bounds(math.inf if self.tested_pairs(design, pairs) else 0.0)


class _LogOdds(TrialLog):
    """Error counts, read as a point estimate."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Point estimate of epsilon; none if no threshold could be chosen."""
        counts = self.counts()
        if counts is None:
            return ()
        delta = self.design.claim.delta
        return (accuracy_log_odds(*counts.guesses, delta, counts.threshold),)
