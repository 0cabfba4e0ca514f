"""The exact privacy loss of pairs whose output distributions are known: nothing is sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from leakbound.errors import UsageError
from leakbound.estimators.base import (
    Bounds,
    Distribution,
    DistributionPair,
    Estimator,
    Observations,
    Reads,
    TrialDesign,
)
from leakbound.stats import Estimate, GaussianLaw, Kind, exact_privacy_loss
from leakbound.stats.output_distributions import DiscreteGaussianLaw

__all__ = ["Exact", "distribution_key"]

KNOWN = 1024  # losses of different pairs held at once
GREEDY = "the model answers a prompt in the same way every time"


@dataclass(frozen=True, slots=True)
class Exact(Estimator):
    """The largest privacy loss of a pair, from the output distributions of both contexts.

    Guarantee: certain for these pairs where outputs are distributed as declared.
    Reference: Balle and Wang 2018 for Gaussian outputs.
    """

    name: ClassVar[str] = "exact"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = True
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"distribution"})

    def check(self, design: TrialDesign) -> None:
        """Refuse several outputs a trial: a distribution is that of one output.

        Args:
            design: What is known beforehand.

        Raises:
            UsageError: If a trial sees several outputs.
        """
        if design.answers > 1:
            raise UsageError("exact speaks of one output; use --answers 1.")

    def begin(self, design: TrialDesign) -> _Losses:
        """An observer that keeps the losses.

        Args:
            design: What is known beforehand.

        Returns:
            An observer with one estimate, or none where a distribution is not known.
        """
        return _Losses(design.claim.delta)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """All pairs: a loss needs no threshold.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            The same number.
        """
        return pairs

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """Nothing limits the loss of a pair.

        Args:
            design: What is known beforehand.
            pairs: Collected pairs.

        Returns:
            Infinity, from one pair on.
        """
        most = math.inf if pairs else 0.0
        return Bounds(most, most)

    def pairs_needed(self, design: TrialDesign) -> int:
        """One pair is enough.

        Args:
            design: What is known beforehand.

        Returns:
            1.
        """
        return 1


class _Losses:
    """The exact losses of one audit."""

    rejected = False

    def __init__(self, delta: float) -> None:
        self._delta, self._known = delta, dict[tuple[bytes, bytes], Estimate]()
        self._worst: Estimate | None = None
        self._losses: list[float] = []
        self._complete = True

    def observe(self, observations: Observations) -> None:
        """Add the losses of the next pairs."""
        for pair in observations.distributions:
            self._add(pair)

    def _add(self, pair: DistributionPair) -> None:
        one, other = pair
        if one is None or other is None:
            self._complete = False
            return
        key = distribution_key(one), distribution_key(other)
        if key not in self._known:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[key] = exact_privacy_loss(one, other, self._delta)
        found = self._known[key]
        self._losses.append(found.epsilon or 0.0)
        if self._worst is None or self._losses[-1] > (self._worst.epsilon or 0.0):
            self._worst = found

    def bounds(self) -> tuple[Estimate, ...]:
        """The worst pair."""
        if self._worst is None or not self._complete:
            return ()
        losses = np.array(self._losses)
        details = {
            "mean_epsilon": float(np.mean(losses)),
            "pairs_without_loss": float(np.sum(losses == 0)),
        }
        worst = self._worst
        return (
            replace(
                worst,
                counts={"pairs": len(losses)},
                assumptions=(*worst.assumptions, GREEDY),
                details=details,
                threshold="none: both output distributions are known; the worst pair",
            ),
        )


def distribution_key(distribution: Distribution) -> bytes:
    """Bytes that tell distributions apart, so that pairs of equal ones are computed once.

    Args:
        distribution: An output distribution, or None.

    Returns:
        Its parameters.
    """
    if distribution is None:
        return b""
    if isinstance(distribution, GaussianLaw | DiscreteGaussianLaw):
        sigma = np.float64(distribution.sigma).tobytes()
        return sigma + np.asarray(distribution.mean, float).tobytes()
    return np.asarray(distribution.probabilities, float).tobytes()
