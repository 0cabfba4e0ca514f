"""A bound from the number of right guesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakbound.estimators.base import Bounds, Estimator, Reads, TrialDesign, require_fixed_size
from leakbound.estimators.error_counts import TrialLog, counted_pairs, require_one_threshold
from leakbound.stats import Estimate, Kind, accuracy_bound


@dataclass(frozen=True, slots=True)
class AccuracyBound(Estimator):
    """Bound on epsilon from the accuracy of the guesses. Reported with the deciding estimator.

    Guarantee: holds with the stated confidence for a number of pairs fixed beforehand.
    Reference: Steinke, Nasr and Jagielski 2023, for independent guesses.
    """

    name: ClassVar[str] = "accuracy_bound"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = False
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials"})

    def check(self, design: TrialDesign) -> None:
        """Refuse early stopping, and any rule except a single threshold from other trials.

        Args:
            design: Design of the trials.

        Raises:
            UsageError: If the audit may stop early, or the rule allows no bound.
        """
        require_fixed_size(self, design)
        require_one_threshold(self.name, design)

    def begin(self, design: TrialDesign) -> _Accuracy:
        """An observer that counts right guesses.

        Args:
            design: Design of the trials.

        Returns:
            An observer with one bound.
        """
        return _Accuracy(design)

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
        """The bound if every guess is right.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            A bound on epsilon; none on mu.
        """
        guesses = 2 * self.tested_pairs(design, pairs)
        if not guesses:
            return Bounds(0.0)
        found = accuracy_bound(guesses, guesses, design.claim.delta, design.confidence)
        return Bounds(found.epsilon or 0.0)


class _Accuracy(TrialLog):
    """Error counts, read as an accuracy."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Bound on epsilon; none if no threshold could be chosen."""
        counts, design = self.counts(), self.design
        if counts is None:
            return ()
        right, guesses = counts.guesses
        delta, confidence = design.claim.delta, design.confidence
        return (accuracy_bound(right, guesses, delta, confidence, counts.threshold),)
