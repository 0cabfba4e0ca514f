"""Test whether the noise that a mechanism adds follows the declared distribution.

This tests the implementation and is separate from leakage. Noise on a grid, such as a discrete
Gaussian or rounded outputs, is made continuous first. A value with probability p, and probability F
of all smaller values, becomes the normal quantile of F + V p with V uniform. The result is standard
normal exactly if the values follow the declared noise on the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import floats, positive, within
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats


@dataclass(frozen=True, slots=True)
class NoiseFit:
    """p-values of five tests of declared Gaussian noise, each valid at any sample size.

    Attributes:
        shape: p-value of the Kolmogorov-Smirnov test, by a bound that holds for every n.
        draws: Number of draws.
        scale: p-value of the sum of squares (chi-square).
        centre: p-value of the mean (z).
        independence: p-value of the signs of neighbouring draws.
        repeats: 0 if the values are not on a grid and more than one in 1,000 repeats another;
            else 1.
        sigma_ratio: Ratio of measured to declared standard deviation.
        level: Error probability of `fits` over all five tests (Bonferroni).
        step: Step of the grid in the units of sigma; None if the values are not on a grid.
    """

    shape: float
    draws: int
    scale: float
    centre: float
    independence: float
    repeats: float
    sigma_ratio: float
    level: float
    step: float | None = None

    @property
    def p_value(self) -> float:
        return min(
            1.0, TESTS * min(self.shape, self.scale, self.centre, self.independence, self.repeats)
        )

    @property
    def fits(self) -> bool:
        """False if the declared noise is rejected, wrongly with probability at most `level`."""
        return self.p_value > self.level

    def __str__(self) -> str:
        grid = "" if self.step is None else f", on a grid of steps of {self.step:.3g}"
        verb = "follows" if self.fits else "does NOT follow"
        return (
            f"noise {verb} the declared distribution ({self.draws} draws, measured scale "
            f"{self.sigma_ratio:.3f} of the declared, "
            f"p = {self.p_value:.2g}, level {self.level:g}{grid})"
        )


TESTS = 5  # shape, scale, centre, independence, repeats: the Bonferroni factor
FEWEST = 8  # smallest number of draws with which one of five tests can reject at 1 %
LARGEST = 1e150  # noise scales; a residual that far away can still be squared
ROUNDING = 1000  # one equal value in this many is attributed to rounding of the outputs


def noise_goodness_of_fit(residuals: npt.ArrayLike, sigma: float, level: float = 0.01) -> NoiseFit:
    """Test that residuals are independent draws of N(0, sigma^2), or of its analogue on a grid.

    Values on a grid are compared with the rounded and with the discrete Gaussian. They fit if they
    fit either.

    Args:
        residuals: (R,) or (R, d) noisy outputs minus their aggregate, in the units of sigma. These
            are R >= 8 draws, in order, from the mechanism's own `release`.
        sigma: Declared standard deviation, above 0.
        level: Error probability of the test, in [0, 1].

    Raises:
        UsageError: If there are fewer than 8 draws, or a residual is NaN or infinite.

    Guarantee:
        Noise as declared, or rounded to a grid, is rejected with probability at most `level`, for
        every R. Residuals that are all 0 count as no noise, not as a grid coarser than the noise.

    Reference:
        Massart, "The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality" (Annals of
        Probability 1990): P(D > d) <= 2 exp(-2 n d^2).

    Examples:
        >>> noise = np.random.default_rng(0).normal(0.0, 2.0, 1000)
        >>> noise_goodness_of_fit(noise, 2.0).fits, noise_goodness_of_fit(noise, 3.0).fits
        (True, False)
    """
    positive("sigma", sigma)
    within("level", level, 0.0, 1.0)
    with np.errstate(over="ignore"):
        z = np.clip(_columns(floats("residuals", residuals) / sigma), -LARGEST, LARGEST)
    step = _step(z)
    if step is None:
        return _test(z, z, level, None)
    found = [_test(z, _smooth(z, step, kind), level, step * sigma) for kind in (True, False)]
    return max(found, key=lambda fit: fit.p_value)


def _test(z: Floats, smooth: Floats, level: float, step: float | None) -> NoiseFit:
    """All tests of values that are standard normal if the noise fits."""
    square, repeats = float((smooth**2).sum()), z.size - np.unique(z).size
    tails = scipy.special.chdtr(z.size, square), scipy.special.chdtrc(z.size, square)
    return NoiseFit(
        _shape(smooth), z.shape[0], _two_sided(*tails),
        math.erfc(abs(float(smooth.sum())) / math.sqrt(2 * z.size)), _independence(smooth),
        0.0 if step is None and repeats > z.size // ROUNDING else 1.0,
        math.sqrt(float((z**2).sum()) / z.size), level, step,
    )  # fmt: skip


ON_GRID = 1e-9  # relative distance from the grid that still counts as on the grid
TAILS = 10.0  # noise scales at which a grid is cut off; 1e-23 of the noise lies beyond
MOST_STEPS = 100_000  # largest number of grid steps; values on a finer grid do not repeat


def _step(z: Floats) -> float | None:
    """The step of the grid, which contains 0, that all values lie on; None without a grid."""
    values = np.unique(np.abs(z).round(12))
    if z.size - np.unique(z).size <= z.size // ROUNDING:
        return None
    step = 0.0
    for value in values[values > 0].tolist():
        step = _divisor(value, step)
        if step * MOST_STEPS < 2 * TAILS:
            return None
    return step or None


def _divisor(one: float, other: float) -> float:
    """The greatest common divisor, up to rounding (Euclid's algorithm)."""
    tolerance = ON_GRID * max(one, other)
    while other > tolerance:
        one, other = other, math.fmod(one, other)
        other = 0.0 if one - other < tolerance else other
    return one


def _smooth(z: Floats, step: float, rounded: bool) -> Floats:
    """Values that are standard normal if z follows the rounded or the discrete Gaussian."""
    half = int(TAILS / step) + 1
    at = np.arange(-half, half + 1)
    if rounded:  # P(the nearest multiple of the step is `at`), from the lower tail of both
        mass = scipy.special.ndtr((-np.abs(at) + 0.5) * step) - scipy.special.ndtr(
            (-np.abs(at) - 0.5) * step
        )
    else:
        mass = np.exp(-((at * step) ** 2) / 2)
    mass /= mass.sum()
    below = np.concatenate([[0.0], mass.cumsum()])
    index = np.clip(np.round(z / step), -half, half).astype(int) + half
    uniform = np.random.default_rng(0).random(z.shape)  # drawn by the test, not from the values
    quantile = below[index] + uniform * mass[index]
    return np.asarray(scipy.special.ndtri(np.clip(quantile, 1e-16, 1 - 1e-16)))


def _columns(residuals: Floats) -> Floats:
    z = residuals[:, None] if residuals.ndim == 1 else residuals
    if z.ndim != 2 or z.shape[0] < FEWEST or z.shape[1] < 1:
        raise UsageError(
            f"residuals have shape {np.shape(residuals)}; they must be (draws,) or (draws, d) "
            f"with at least {FEWEST} draws."
        )
    if not np.isfinite(z).all():
        raise UsageError(
            "residuals contain NaN or infinite values; an output of the mechanism, or its "
            "aggregate before noise, is broken."
        )
    return z


def _two_sided(low: float, high: float) -> float:
    return min(1.0, 2 * float(min(low, high)))


def _shape(z: Floats) -> float:
    flat = np.sort(z, axis=None)
    n, cdf = flat.size, scipy.special.ndtr(flat)
    at = np.arange(n)
    distance = float(np.maximum((at + 1) / n - cdf, cdf - at / n).max())
    return min(1.0, 2 * math.exp(-2 * n * distance**2))


def _independence(z: Floats) -> float:
    """Signs of products of neighbouring values, by draw and by coordinate, as fair coins."""
    signs = [np.sign(z[1:] * z[:-1]), np.sign(z[:, 1:] * z[:, :-1])]
    p = [_coins(int((s > 0).sum()), s.size) for s in signs if s.size]
    return min(1.0, len(p) * min(p))


def _coins(heads: int, n: int) -> float:
    """Exact two-sided p-value of `heads` in n fair tosses."""
    low = 1.0 if heads >= n else float(scipy.special.betainc(n - heads, heads + 1, 0.5))
    high = 1.0 if heads <= 0 else float(scipy.special.betainc(heads, n - heads + 1, 0.5))
    return _two_sided(low, high)
