"""A credible bound from the joint posterior of both error rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leakbound.estimators.base import Bounds, Estimator, Reads, TrialDesign, require_fixed_size
from leakbound.estimators.error_counts import TrialLog, counted_pairs, require_one_threshold
from leakbound.stats import Estimate, Kind, joint_beta


@dataclass(frozen=True, slots=True)
class JointBeta(Estimator):
    """Credible bound on epsilon. It holds under a prior, not at a confidence, and decides nothing.

    Guarantee: no guarantee of coverage.
    Reference: Zanella-Béguelin et al. 2023.
    """

    name: ClassVar[str] = "joint_beta"
    kind: ClassVar[Kind] = "credible"
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

    def begin(self, design: TrialDesign) -> _Posterior:
        """An observer that counts errors.

        Args:
            design: Design of the trials.

        Returns:
            An observer with one credible bound.
        """
        return _Posterior(design)

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
            A credible bound on epsilon; none on mu.
        """
        n, delta = self.tested_pairs(design, pairs), design.claim.delta
        found = joint_beta(n, 0, 0, n, delta, design.confidence).epsilon if n else 0.0
        return Bounds(found or 0.0)


class _Posterior(TrialLog):
    """Error counts, read as a posterior."""

    def bounds(self) -> tuple[Estimate, ...]:
        """Bound on epsilon; none if no threshold could be chosen."""
        counts, design = self.counts(), self.design
        if counts is None:
            return ()
        given = (design.claim.delta, design.confidence, counts.threshold)
        return (joint_beta(*counts.cells, *given),)
