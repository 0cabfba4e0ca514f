"""The exact privacy loss of pairs with known output distributions. Nothing is sampled."""

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
from leakbound.stats import BoundReading, Estimate, GaussianLaw, Kind, exact_privacy_loss
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw

KNOWN = 1024  # number of losses of different pairs in the cache
GREEDY = "the model always gives the same answer to the same prompt"


@dataclass(frozen=True, slots=True)
class Exact(Estimator):
    """The largest privacy loss of a pair, from the output distributions of both contexts.

    Guarantee: holds with certainty for these pairs, if outputs are distributed as declared.
    Reference: Balle and Wang 2018 for Gaussian outputs.
    """

    name: ClassVar[str] = "exact"
    kind: ClassVar[Kind] = "lower_bound"
    anytime: ClassVar[bool] = True
    simultaneous: ClassVar[bool] = True
    reads: ClassVar[frozenset[Reads]] = frozenset({"distribution"})

    def check(self, design: TrialDesign) -> None:
        """Refuse several outputs per trial, because a distribution is for one output.

        Args:
            design: Design of the trials.

        Raises:
            UsageError: If a trial has several outputs.
        """
        if design.answers > 1:
            raise UsageError("exact needs one output per trial; use --answers 1.")

    def begin(self, design: TrialDesign) -> _Losses:
        """An observer that keeps the losses.

        Args:
            design: Design of the trials.

        Returns:
            An observer with one estimate, or none if a distribution is not known.
        """
        return _Losses(design.claim.delta)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """All pairs, because a loss needs no threshold.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            The same number.
        """
        return pairs

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """Nothing limits the loss of a pair.

        Args:
            design: Design of the trials.
            pairs: Number of collected pairs.

        Returns:
            Infinity, with at least one pair.
        """
        most = math.inf if pairs else 0.0
        return Bounds(most, most)

    def pairs_needed(self, design: TrialDesign) -> int:
        """One pair is enough.

        Args:
            design: Design of the trials.

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
                reading=BoundReading("distribution"),
                counts={"pairs": len(losses)},
                assumptions=(*worst.assumptions, GREEDY),
                details=details,
                threshold="none: both output distributions are known; the worst pair",
            ),
        )


def distribution_key(distribution: Distribution) -> bytes:
    """Key that identifies a distribution, so that each pair of distributions is computed once."""
    if distribution is None:
        return b""
    if isinstance(distribution, GaussianLaw | DiscreteGaussianLaw):
        sigma = np.float64(distribution.sigma).tobytes()
        return sigma + np.asarray(distribution.mean, float).tobytes()
    return np.asarray(distribution.probabilities, float).tobytes()
