"""The exact privacy profile delta(epsilon) of pairs with known output distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.estimators.base import DistributionPair, Observations
from leakbound.estimators.exact import distribution_key
from leakbound.stats import privacy_profile

Floats = npt.NDArray[np.float64]
KNOWN = 1024  # number of curves of different pairs in the cache
WIDEST = 20.0  # larger claims are plotted up to twice this epsilon; delta is 0 there in doubles
POINTS = 41  # points of a curve: 20 steps from 0 to the claim, so the claim is one of them


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
        self._known: dict[tuple[bytes, bytes], Floats] = {}

    def observe(self, observations: Observations) -> None:
        """Add the profiles of the next pairs."""
        for pair in observations.distributions:
            curve = self._curve(pair)
            if curve is None:
                self._complete = False
                return
            self._total, self._worst = self._total + curve, np.maximum(self._worst, curve)
            self._pairs += 1

    def _curve(self, pair: DistributionPair) -> Floats | None:
        """The curve of a pair; pairs of equal distributions share one."""
        one, other = pair
        if one is None or other is None:
            return None
        key = distribution_key(one), distribution_key(other)
        if key not in self._known:
            if len(self._known) >= KNOWN:
                self._known.clear()
            curve = [privacy_profile(one, other, float(e)) for e in self._grid]
            self._known[key] = np.array(curve)
        return self._known[key]

    def profile(self) -> Profile | None:
        """The profile of all pairs so far."""
        if not self._pairs or not self._complete:
            return None
        curves = (self._grid, self._total / self._pairs, self._worst)
        return Profile(*map(_rounded, curves))


def _rounded(values: Floats) -> tuple[float, ...]:
    """Values with twelve decimal places, rounded up."""
    return tuple(math.ceil(float(v) * 1e12) / 1e12 for v in values)
