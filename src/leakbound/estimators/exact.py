"""Exact privacy losses and profiles of pairs with known output distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Generic

import numpy as np

from leakbound.errors import UsageError
from leakbound.estimators.base import (
    Bounds,
    DistributionPair,
    Estimator,
    FixedSize,
    Observations,
    Reads,
    T,
    TrialDesign,
)
from leakbound.stats import (
    BoundReading,
    CategoricalLaw,
    Estimate,
    GaussianLaw,
    Kind,
    OutputDistribution,
    exact_privacy_loss,
    privacy_profile,
)
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw

KNOWN = 1024  # number of values of different pairs in the cache
WIDEST = 20.0  # larger claims are plotted up to twice this epsilon; delta is 0 there in doubles
POINTS = 41  # points of a curve: 20 steps from 0 to the claim, so the claim is one of them
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
        """Refuse several outputs per trial, because a distribution is for one output."""
        if design.answers > 1:
            raise UsageError("exact needs one output per trial; use --answers 1.")

    def begin(self, design: TrialDesign) -> _Losses:
        return _Losses(design.claim.delta)

    def tested_pairs(self, design: TrialDesign, pairs: int) -> int:
        """All pairs, because a loss needs no threshold."""
        return pairs

    def largest_certifiable(self, design: TrialDesign, pairs: int) -> Bounds:
        """Infinity, with at least one pair: nothing limits its loss."""
        most = math.inf if pairs else 0.0
        return Bounds(most, most)

    def pairs_needed(self, design: TrialDesign) -> int:
        return 1


class _Losses(FixedSize):
    def __init__(self, delta: float) -> None:
        self._found = _PairValues(lambda one, other: exact_privacy_loss(one, other, delta))
        self._losses: list[Estimate | None] = []

    def observe(self, observations: Observations) -> None:
        self._losses += map(self._found.of, observations.distributions)

    def bounds(self) -> tuple[Estimate, ...]:
        known = [one for one in self._losses if one is not None]
        if not known or len(known) < len(self._losses):
            return ()
        losses = np.array([one.epsilon or 0.0 for one in known])
        worst = known[int(losses.argmax())]
        details = {
            "mean_epsilon": float(np.mean(losses)),
            "pairs_without_loss": float(np.sum(losses == 0)),
        }
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


@dataclass(frozen=True, slots=True)
class Profile:
    """delta(epsilon) of the pairs."""

    epsilon: tuple[float, ...]
    mean: tuple[float, ...]
    worst: tuple[float, ...]


class ProfileSum:
    """The profile of the pairs so far, from epsilon 0 to twice the claim."""

    def __init__(self, claimed: float) -> None:
        self._grid = np.linspace(0.0, 2 * min(claimed, WIDEST), POINTS)
        self._total, self._worst = np.zeros(POINTS), np.zeros(POINTS)
        self._pairs, self._complete = 0, True
        self._found = _PairValues(
            lambda one, other: np.array([privacy_profile(one, other, float(e)) for e in self._grid])
        )

    def observe(self, observations: Observations) -> None:
        for pair in observations.distributions:
            curve = self._found.of(pair)
            if curve is None:
                self._complete = False
                return
            self._total, self._worst = self._total + curve, np.maximum(self._worst, curve)
            self._pairs += 1

    def profile(self) -> Profile | None:
        """The profile of all pairs so far, with twelve decimal places, rounded up."""
        if not self._pairs or not self._complete:
            return None
        curves = (self._grid, self._total / self._pairs, self._worst)
        return Profile(*(tuple(math.ceil(float(v) * 1e12) / 1e12 for v in c) for c in curves))


class _PairValues(Generic[T]):
    """A value of each pair of distributions, computed once for equal pairs."""

    def __init__(self, compute: Callable[[OutputDistribution, OutputDistribution], T]) -> None:
        self._compute, self._known = compute, dict[tuple[bytes, bytes], T]()

    def of(self, pair: DistributionPair) -> T | None:
        """The value of a pair; None if a distribution is not known."""
        one, other = pair
        if one is None or other is None:
            return None
        key = _key(one), _key(other)
        if key not in self._known:
            if len(self._known) >= KNOWN:
                self._known.clear()
            self._known[key] = self._compute(one, other)
        return self._known[key]


def _key(distribution: OutputDistribution) -> bytes:
    if isinstance(distribution, GaussianLaw | DiscreteGaussianLaw):
        sigma = np.float64(distribution.sigma).tobytes()
        return sigma + np.asarray(distribution.mean, float).tobytes()
    if not isinstance(distribution, CategoricalLaw):
        raise UsageError(
            f"output_distribution gives {type(distribution).__name__}; it must be one of the laws "
            "of leakbound.stats, or None where the distribution is not known."
        )
    return np.asarray(distribution.probabilities, float).tobytes()
