"""The e-process: anytime-valid bounds from e-values, one pair after the other; the default."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from leakbound import stats
from leakbound.estimators.base import (
    MOST_PAIRS,
    Bounds,
    Estimator,
    Observations,
    Reads,
    TrialDesign,
)
from leakbound.estimators.response import response_power
from leakbound.stats import Estimate, Kind

__all__ = ["EProcess", "EValues"]

Floats = npt.NDArray[np.float64]
SPREAD = 1.5  # thresholds of a power calculation lie within so many noise scales of the middle


@dataclass(frozen=True, slots=True)
class EProcess(Estimator):
    """Tests a Gaussian guarantee that implies the claim, else the claim, by e-values over levels.

    The score of a pair at a level is the share of its simulated outputs at or above it.

    Guarantee: each bound holds with the stated confidence at any stopping time.
    Reference: Waudby-Smith and Ramdas 2023; Ville's inequality.
    """

    name: ClassVar[str] = "e_process"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = True
    simultaneous: ClassVar[bool] = False
    reads: ClassVar[frozenset[Reads]] = frozenset({"trials"})

    def check(self, design: TrialDesign) -> None:
        """Refuse a claim that no trial could reject.

        Args:
            design: What is known beforehand.

        Raises:
            UsageError: If the claim is too large to be tested.
        """
        self.begin(design)

    def begin(self, design: TrialDesign) -> EValues:
        """An e-process before the first pair.

        Args:
            design: What is known beforehand.

        Returns:
            An observer; its bounds are those on epsilon and on mu.
        """
        return EValues(design)

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """The bounds where every output tells the contexts apart.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            Bounds of an e-process whose canary-in scores are all 1 and others all 0.
        """
        perfect = self.begin(design)
        perfect.extend(*_constant(design, 1.0, 0.0, self.tested_pairs(design, pairs)))
        epsilon, mu = perfect.bounds()
        return Bounds(epsilon.epsilon or 0.0, mu.mu or 0.0)

    def power(self, design: TrialDesign, pairs: int, leak: float) -> float:
        """Power against noise that is too small by `leak`, or against randomised response.

        Where a Gaussian guarantee is tested, one vote moves in every pair, and scores are exact
        chances, so the answer is 0 or 1. Else the system answers as randomised response at `leak`
        times the claimed epsilon does, in 100 simulated audits.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.
            leak: True mu in units of the guaranteed one, or epsilon in units of the claimed one.

        Returns:
            Probability that the guarantee or the claim is rejected.
        """
        tested = self.tested_pairs(design, pairs)
        if design.hypotheses[0] == "guarantee":
            noisy = self.begin(design)
            at = np.linspace(-SPREAD, SPREAD, len(design.levels))
            half = leak * (design.guarantee_mu or 0.0) / 2
            return float(noisy.rejected_within(tested, ndtr(half + at), ndtr(-half + at)))
        true = min(leak * design.claim.epsilon, 700.0)  # exp overflows above 709
        return response_power(self.begin(design).process, tested, 1 / (1 + math.exp(true)))

    def pairs_needed(self, design: TrialDesign) -> int | None:
        """Fewest tested pairs with which a perfect attack rejects what is tested.

        Args:
            design: What is known beforehand.

        Returns:
            A number of pairs; None beyond a few thousand.
        """
        perfect = self.begin(replace(design, early_stop=True))
        perfect.extend(*_constant(design, 1.0, 0.0, MOST_PAIRS))
        return perfect.process.rejected_at


def _constant(design: TrialDesign, member: float, nonmember: float, pairs: int) -> list[Floats]:
    shape = (pairs, len(design.levels))
    return [np.full(shape, member), np.full(shape, nonmember)]


class EValues:
    """The e-process of one audit.

    Args:
        design: What is known beforehand. Where the audit uses all planned pairs, stakes aim at the
            tightest bound there.
    """

    def __init__(self, design: TrialDesign) -> None:
        self.design, self._levels = design, np.asarray(design.levels, float)
        horizon = None if design.early_stop else design.pairs
        deltas = (design.claim.delta,)
        self.process = stats.EProcess(
            design.tested, design.confidence, deltas=deltas, horizon=horizon
        )

    def observe(self, observations: Observations) -> None:
        """Update the e-value with the next pairs; pilot pairs take no part.

        Args:
            observations: Pairs in their order.
        """
        scores = observations.simulated.part(observations.after(self.design.pilot))
        if len(scores):
            self.extend(self._shares(scores.member), self._shares(scores.nonmember))

    def extend(self, member: Floats, nonmember: Floats) -> None:
        """Update the e-value with pairs whose scores at each level are known.

        Args:
            member: (pairs, levels) chances in [0, 1] of the canary-in context.
            nonmember: The same of the canary-out context.
        """
        if len(member):
            self.process.extend(member, nonmember)

    def _shares(self, scores: Floats) -> Floats:
        """(pairs, levels) from (pairs, draws)."""
        return np.stack([(scores >= level).mean(1) for level in self._levels], 1)

    @property
    def rejected(self) -> bool:
        """Has the e-value ever reached 1/alpha?"""
        return self.process.rejected

    def bounds(self) -> tuple[Estimate, Estimate]:
        """Lower bounds on epsilon(delta) and on mu.

        Returns:
            Two bounds, each valid at any stopping time at the stated confidence.
        """
        delta = self.design.claim.delta
        least = 1e-12  # mu implies no finite epsilon at delta 0; mu itself does not depend on delta
        return (
            self.process.epsilon_lower_bound(delta),
            self.process.mu_lower_bound(max(delta, least)),
        )

    def rejected_within(self, pairs: int, member: Floats, nonmember: Floats) -> bool:
        """Do so many equal pairs reject?

        Args:
            pairs: Number of pairs.
            member: (levels,) chances of the canary-in context.
            nonmember: The same of the canary-out context.

        Returns:
            Whether the e-value reaches 1/alpha.
        """
        left = pairs
        while left and not self.rejected:
            some = min(left, 512)  # few enough that a rejection ends the calculation early
            self.extend(np.tile(member, (some, 1)), np.tile(nonmember, (some, 1)))
            left -= some
        return self.rejected
