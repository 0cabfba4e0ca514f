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
from leakbound._check import delta_value, epsilon_value, positive, within
from leakbound._members import Final
from leakbound.errors import UsageError
from leakbound.privacy.compose import Relation
from leakbound.privacy.concentrated import zcdp_epsilon, zcdp_rho
from leakbound.privacy.rounding import bisect

Floats = npt.NDArray[np.float64]
REACH = 13.0  # half the support, in standard deviations: less than 2 exp(-84) = 7e-37 lies beyond
TAIL = 1e-30  # bound on the probability that a million sums cut off
MARGIN = 1e-9  # relative margin added to each delta and epsilon: far above the rounding error
HALVINGS = 100
# Largest support of a sum of noise for which the exact loss is computed; that takes a tenth of a
# second. Above it, the bound of zCDP is used, which is up to a tenth larger.
LARGEST = 1 << 14
LARGEST_SIGMA = 500_000.0  # of a table of the noise, which takes half a second
Moves = tuple[tuple[int, int], ...]  # sizes of steps, and how many counts move by each


def discrete_gaussian_pmf(sigma: float) -> Floats:
    """Probabilities of the discrete Gaussian: P(x) proportional to exp(-x^2/(2 sigma^2)).

    (2 m + 1,) probabilities of -m to m; less than 1e-30 lies beyond.

    Args:
        sigma: Parameter of the noise, above 0 and at most 500,000. Small values are slightly above
            the standard deviation.

    Reference:
        Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
        2020), Definition 1.

    Examples:
        >>> p = discrete_gaussian_pmf(1.0)
        >>> p.size, round(float(p[13]), 4), round(float(p[14] / p[13]), 4)  # exp(-1/2)
        (27, 0.3989, 0.6065)
    """
    within("sigma", positive("sigma", sigma), 0.0, LARGEST_SIGMA)
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
        a sum of independent losses. With a large support, it is bounded by zCDP.

    Examples:
        >>> round(discrete_gaussian_delta(1.0, 3.0, (1, -1)), 6)
        0.004489
    """
    positive("sigma", sigma)
    epsilon_value(epsilon)
    moved = _move(shift)
    if exact := _losses(sigma, moved):
        return _delta(epsilon, *exact)
    rho = _rho(sigma, moved)
    return bisect(lambda delta: zcdp_epsilon(rho, delta) <= epsilon, 0.0, 1.0, HALVINGS)[1]


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
    return _epsilon(positive("sigma", sigma), _move(shift), delta_value(delta))


def _epsilon(sigma: float, moved: Moves, delta: float) -> float:
    """Exact epsilon, or the bound of zCDP if that is smaller or the exact one takes too long."""
    if not moved:
        return 0.0
    loose = zcdp_epsilon(_rho(sigma, moved), delta)
    exact = _losses(sigma, moved) if delta > TAIL else None
    if exact is None:
        return loose
    if _delta(0.0, *exact) <= delta:
        return 0.0
    most = max(0.0, float(exact[0][-1]))
    _, found = bisect(lambda e: _delta(e, *exact) <= delta, 0.0, most, HALVINGS)
    return min(found * (1 + MARGIN), loose)


def _move(shift: Sequence[int]) -> Moves:
    """Signs and order of the steps do not affect the loss."""
    sizes = Counter(whole_number("a step of shift", abs(step)) for step in shift)
    return tuple(sorted((step, times) for step, times in sizes.items() if step))


def _rho(sigma: float, moved: Moves) -> float:
    return sum(times * step**2 for step, times in moved) / (2 * sigma**2)


Sum = tuple[Floats, int]  # probabilities of the sum of step times noise; sum of squared steps


@lru_cache(maxsize=64)  # a bisection over epsilon reads the same entry many times
def _losses(sigma: float, moved: Moves) -> tuple[Floats, Floats] | None:
    """Privacy losses in ascending order, and their probabilities; None if that takes too long."""
    spread = math.sqrt(sum(times * step**2 for step, times in moved))
    if 2 * REACH * max(1.0, sigma) * spread > LARGEST:
        return None
    found: Sum = np.ones(1), 0
    for step, times in moved:
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


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Final):
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
        return _rho(self.sigma, ((1, self.moves),))

    def epsilon(self, delta: float) -> float:
        """Exact epsilon, see `discrete_gaussian_epsilon`."""
        return _epsilon(self.sigma, ((1, int(self.moves)),), delta_value(delta))

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
    whole_number("moves", moves)
    high = math.sqrt(moves / (2 * zcdp_rho(epsilon, delta)))  # enough, by zCDP

    def enough(sigma: float) -> bool:
        return DiscreteGaussian(sigma, moves).epsilon(delta) <= epsilon

    return bisect(enough, high / 2, high, HALVINGS)[1]
