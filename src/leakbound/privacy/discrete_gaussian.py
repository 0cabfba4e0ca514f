"""Discrete Gaussian noise on counts: distribution, exact privacy loss and calibration."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from leakbound._check import count as whole_number
from leakbound._check import delta_value, positive
from leakbound.errors import UsageError
from leakbound.privacy.concentrated import zcdp_epsilon, zcdp_rho
from leakbound.privacy.relation import Relation
from leakbound.privacy.rounding import bisect

Floats = npt.NDArray[np.float64]
REACH = 13.0  # half the support, in standard deviations: less than 2 exp(-84) = 7e-37 lies beyond
TAIL = 1e-30  # bound on the probability that a million sums cut off
MARGIN = 1e-9  # relative margin added to each delta and epsilon: far above the rounding error
HALVINGS = 100
# Largest support of a sum of noise for which the exact loss is computed; that takes a tenth of a
# second. Above it, the bound of zCDP is used, which is up to a tenth larger.
LARGEST = 1 << 14


def discrete_gaussian_pmf(sigma: float) -> Floats:
    """Probabilities of the discrete Gaussian: P(x) proportional to exp(-x^2/(2 sigma^2)).

    (2 m + 1,) probabilities of -m to m; less than 1e-30 lies beyond.

    Args:
        sigma: Parameter of the noise, above 0. Small values are slightly above the standard
            deviation.

    Reference:
        Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
        2020), Definition 1.

    Examples:
        >>> p = discrete_gaussian_pmf(1.0)
        >>> p.size, round(float(p[13]), 4), round(float(p[14] / p[13]), 4)  # exp(-1/2)
        (27, 0.3989, 0.6065)
    """
    positive("sigma", sigma)
    m = max(1, math.ceil(REACH * sigma))
    weights = np.exp(-((np.arange(-m, m + 1) / sigma) ** 2) / 2)
    return np.asarray(weights / weights.sum())


def discrete_gaussian_delta(epsilon: float, sigma: float, shift: Sequence[int]) -> float:
    """Exact delta(epsilon) of integer counts with independent discrete Gaussian noise, rounded up.

    Args:
        epsilon: Privacy parameter, at least 0.
        sigma: Parameter of the noise on each count, above 0.
        shift: Difference of each count between the neighbours.

    Reference:
        Canonne, Kamath and Steinke (2020), Theorem 7 for one count. The loss of several counts is
        a sum of independent losses.

    Examples:
        >>> round(discrete_gaussian_delta(1.0, 3.0, (1, -1)), 6)
        0.004489
    """
    loss, mass = _losses(sigma, _move(shift))
    return _delta(epsilon, loss, mass)


def discrete_gaussian_epsilon(sigma: float, shift: Sequence[int], delta: float) -> float:
    """Exact epsilon(delta) of integer counts with independent discrete Gaussian noise, rounded up.

    Infinity at delta = 0. If the sum of the noise has a large support, it is the bound of zCDP.

    Args:
        sigma: Parameter of the noise on each count, above 0.
        shift: Difference of each count between the neighbours.

    Examples:
        >>> round(discrete_gaussian_epsilon(3.0, (1, -1), 1e-5), 4)
        1.8675
    """
    delta_value(delta)
    moved = _move(shift)
    if not moved:
        return 0.0
    if delta == 0:
        return math.inf
    rho = sum(step**2 for step in moved) / (2 * sigma**2)
    return min(_exact_epsilon(sigma, moved, delta), zcdp_epsilon(rho, delta))


def _move(shift: Sequence[int]) -> tuple[int, ...]:
    """Sizes of the steps. Their signs and their order do not affect the loss."""
    return tuple(sorted(abs(int(step)) for step in shift if step))


Sum = tuple[Floats, int]  # probabilities of the sum of step times noise; sum of squared steps


@lru_cache(maxsize=64)  # a bisection over epsilon reads the same entry many times
def _losses(sigma: float, moved: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Privacy losses in ascending order, and their probabilities."""
    found: Sum = np.ones(1), 0
    for step, times in Counter(moved).items():
        found = _add(sigma, found, _repeat(sigma, (_spread(sigma, step), step**2), times))
    mass, square = found
    total = np.arange(mass.size) - mass.size // 2
    return (2 * total + square) / (2 * sigma**2), mass


def _spread(sigma: float, step: int) -> Floats:
    """Probabilities of `step` times the noise."""
    p = discrete_gaussian_pmf(sigma)
    wide = np.zeros(step * (p.size - 1) + 1)
    wide[::step] = p
    return wide


def _add(sigma: float, one: Sum, other: Sum) -> Sum:
    """The sum of two independent sums, cut off at `REACH` standard deviations."""
    mass, square = np.convolve(one[0], other[0]), one[1] + other[1]
    beyond = mass.size // 2 - max(1, math.ceil(REACH * sigma * math.sqrt(square)))
    return (mass[beyond:-beyond] if beyond > 0 else mass), square


def _repeat(sigma: float, base: Sum, times: int) -> Sum:
    """The sum of `times` independent copies of a sum."""
    found: Sum = np.ones(1), 0
    while times:
        if times % 2:
            found = _add(sigma, found, base)
        times //= 2
        base = _add(sigma, base, base) if times else base
    return found


def _delta(epsilon: float, loss: Floats, mass: Floats) -> float:
    above = loss > epsilon
    kept = float((mass[above] * -np.expm1(epsilon - loss[above])).sum())
    return min(1.0, kept * (1 + MARGIN) + TAIL)


def _exact_epsilon(sigma: float, moved: tuple[int, ...], delta: float) -> float:
    """Exact epsilon, or infinity if it would take too long to compute."""
    spread = math.sqrt(sum(step**2 for step in moved))
    if 2 * REACH * sigma * spread > LARGEST or delta <= TAIL:
        return math.inf
    loss, mass = _losses(sigma, moved)
    if _delta(0.0, loss, mass) <= delta:
        return 0.0
    most = max(0.0, float(loss[-1]))
    _, found = bisect(lambda e: _delta(e, loss, mass) <= delta, 0.0, most, HALVINGS)
    return found * (1 + MARGIN)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Guarantee of discrete Gaussian noise on counts, some of which change by one.

    Attributes:
        sigma: Parameter of the noise on each count, above 0.
        moves: Number of counts that one example changes by one; 2 if it moves a vote.

    Reference:
        Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
        2020), Theorems 4 and 7.

    Examples:
        >>> guarantee = DiscreteGaussian(sigma=3.0, moves=2)
        >>> round(guarantee.rho, 4), round(guarantee.epsilon(1e-5), 4)
        (0.1111, 1.8675)
    """

    sigma: float
    moves: int = 2
    relation: Relation = "replace_one"

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        if whole_number("moves", self.moves) < 1:
            raise UsageError(f"moves is {self.moves}; it must be at least 1.")

    @property
    def sensitivity(self) -> float:
        return math.sqrt(self.moves)

    @property
    def rho(self) -> float:
        """The parameter of zero-concentrated DP: sensitivity^2/(2 sigma^2)."""
        return self.moves / (2 * self.sigma**2)

    def epsilon(self, delta: float) -> float:
        """Exact epsilon, see `discrete_gaussian_epsilon`."""
        return discrete_gaussian_epsilon(self.sigma, (1,) * self.moves, delta)

    def describe(self) -> str:
        return (
            f"{self.rho:.4g}-zCDP (discrete Gaussian noise {self.sigma:.4g} on {self.moves} "
            f"counts, {self.relation})"
        )


def calibrate_discrete_gaussian(epsilon: float, delta: float, moves: int = 2) -> float:
    """The smallest sigma of noise on counts that is enough for a claim, rounded towards privacy.

    Args:
        epsilon: epsilon of the claim, above 0.
        delta: delta of the claim in (0, 1).
        moves: Number of counts that one example changes by one.

    Raises:
        UsageError: If an argument lies outside its range. At delta = 0 no such noise is enough.

    Guarantee:
        `DiscreteGaussian(sigma, moves).epsilon(delta)` is at most epsilon.

    Reference:
        Canonne, Kamath and Steinke (2020).

    Examples:
        >>> round(calibrate_discrete_gaussian(2.0, 1e-5), 4)
        2.8174
    """
    positive("epsilon", epsilon)
    delta_value(delta)
    if delta == 0:
        raise UsageError(
            "delta is 0; Gaussian noise on counts needs a delta above 0, such as 1e-5."
        )
    high = math.sqrt(moves / (2 * zcdp_rho(epsilon, delta)))  # enough, by zCDP

    def enough(sigma: float) -> bool:
        return DiscreteGaussian(sigma, moves).epsilon(delta) <= epsilon

    return bisect(enough, high / 2, high, HALVINGS)[1]
