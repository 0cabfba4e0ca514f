"""Does the noise that a mechanism really adds follow the declared distribution?

A test of the implementation, apart from leakage. Noise on a grid, such as a discrete Gaussian or
outputs that are rounded, is made continuous first: a value with the probability mass p above the
mass F below it becomes the normal quantile of F + V p, V uniform, which is standard normal exactly
if the values follow the declared noise on the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, chdtr, chdtrc, ndtr, ndtri

from leakbound._check import positive, within
from leakbound.errors import UsageError

__all__ = ["NoiseFit", "noise_goodness_of_fit"]

Floats = npt.NDArray[np.float64]
TESTS = 5  # shape, scale, centre, independence, repeats: the Bonferroni factor
FEWEST = 8  # draws: below it no test of five at 1 % could reject
ROUNDING = 1000  # one equal value in so many is put down to rounding of the outputs
ON_GRID = 1e-9  # share of a value by which it may miss the grid
TAILS = 10.0  # noise scales beyond which a grid has no mass: 1e-23 of the noise lies there
MOST_STEPS = 100_000  # values of a finer grid do not repeat


@dataclass(frozen=True, slots=True)
class NoiseFit:
    """p-values of five tests of one declared Gaussian noise, each valid at any sample size.

    Attributes:
        shape: p-value of Kolmogorov-Smirnov, by the bound that holds for every n.
        scale: p-value of the sum of squares (chi-square).
        centre: p-value of the mean (z).
        independence: p-value of the signs of neighbouring draws.
        repeats: 0 where more than one value in 1,000 repeats another off a grid, else 1.
        sigma_ratio: Measured over declared standard deviation.
        draws: Number of draws.
        level: Error probability of `fits` over all five tests (Bonferroni).
        step: Distance of neighbouring values, in the units of sigma, where they lie on a grid.
    """

    shape: float
    scale: float
    centre: float
    independence: float
    repeats: float
    sigma_ratio: float
    draws: int
    level: float
    step: float | None = None

    @property
    def p_value(self) -> float:
        """Of all tests together."""
        return min(
            1.0, TESTS * min(self.shape, self.scale, self.centre, self.independence, self.repeats)
        )

    @property
    def fits(self) -> bool:
        """False rejects the declared noise; wrongly with probability at most `level`."""
        return self.p_value > self.level

    def __str__(self) -> str:
        verb = "follows" if self.fits else "does NOT follow"
        return (
            f"noise {verb} the declared distribution ({self.draws} draws, measured scale "
            f"{self.sigma_ratio:.3f} of the declared, "
            f"p = {self.p_value:.2g}, level {self.level:g}{self._grid})"
        )

    @property
    def _grid(self) -> str:
        return "" if self.step is None else f", on a grid of steps of {self.step:.3g}"


def noise_goodness_of_fit(residuals: npt.ArrayLike, sigma: float, level: float = 0.01) -> NoiseFit:
    """Test that residuals are independent draws of N(0, sigma^2), or of its like on a grid.

    Values on a grid are held against the rounded and the discrete Gaussian; they fit if one does.

    Args:
        residuals: (R,) or (R, d) noisy outputs less their aggregate, in the units of sigma; R >= 8
            draws in order through the mechanism's own release code.
        sigma: Declared standard deviation, above 0.
        level: Error probability of the test, in [0, 1].

    Returns:
        The p-values and whether the noise fits.

    Raises:
        UsageError: If there are fewer than 8 draws, or a residual is NaN or infinite.

    Guarantee:
        Noise as declared, or rounded to a grid, is rejected with probability at most `level`, for
        every R. Residuals that are all 0 are taken for no noise, not for a grid coarser than it.

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
    z = _columns(np.asarray(residuals, float) / sigma)
    step = _step(z)
    if step is None:
        return _tested(z, z, level, None)
    found = [_tested(z, _smoothed(z, step, kind), level, step * sigma) for kind in (True, False)]
    return max(found, key=lambda fit: fit.p_value)


def _tested(z: Floats, smooth: Floats, level: float, step: float | None) -> NoiseFit:
    """All tests of values that are standard normal if the noise fits."""
    square = float((smooth**2).sum())
    return NoiseFit(
        _shape(smooth), _two_sided(chdtr(z.size, square), chdtrc(z.size, square)),
        math.erfc(abs(float(smooth.sum())) / math.sqrt(2 * z.size)), _independence(smooth),
        _repeats(z) if step is None else 1.0, math.sqrt(float((z**2).sum()) / z.size),
        z.shape[0], level, step,
    )  # fmt: skip


def _step(z: Floats) -> float | None:
    """The step of the grid that all values lie on, one of them being 0; None without a grid."""
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
    """The largest number that both are multiples of, but for rounding (Euclid)."""
    tolerance = ON_GRID * max(one, other)
    while other > tolerance:
        one, other = other, math.fmod(one, other)
        other = 0.0 if one - other < tolerance else other
    return one


def _smoothed(z: Floats, step: float, rounded: bool) -> Floats:
    """Standard normal values if z follows the rounded, or else the discrete, Gaussian."""
    half = int(TAILS / step) + 1
    at = np.arange(-half, half + 1)
    mass = _rounded(at, step) if rounded else np.exp(-((at * step) ** 2) / 2)
    mass /= mass.sum()
    below = np.concatenate([[0.0], mass.cumsum()])
    index = np.clip(np.round(z / step).astype(int) + half, 0, 2 * half)
    uniform = np.random.default_rng(0).random(z.shape)  # of the test, independent of the values
    quantile = below[index] + uniform * mass[index]
    return np.asarray(ndtri(np.clip(quantile, 1e-16, 1 - 1e-16)))


def _rounded(at: npt.NDArray[np.int64], step: float) -> Floats:
    """P(the nearest multiple of the step is `at`), without loss in the upper tail."""
    low, high = (-np.abs(at) - 0.5) * step, (-np.abs(at) + 0.5) * step
    return np.asarray(ndtr(high) - ndtr(low))


def _columns(residuals: Floats) -> Floats:
    """(draws, d), checked."""
    z = residuals[:, None] if residuals.ndim == 1 else residuals
    if z.ndim != 2 or z.shape[0] < FEWEST or z.shape[1] < 1:
        raise UsageError(
            f"residuals have shape {np.shape(residuals)}; they must be (draws,) or (draws, d) "
            f"with at least {FEWEST} draws."
        )
    if not np.isfinite(z).all():
        raise UsageError(
            "residuals hold NaN or infinite values; an output of the mechanism is broken, or its "
            "aggregate before noise."
        )
    return z


def _two_sided(low: float, high: float) -> float:
    return min(1.0, 2 * float(min(low, high)))


def _shape(z: Floats) -> float:
    flat = np.sort(z, axis=None)
    n, cdf = flat.size, ndtr(flat)
    at = np.arange(n)
    distance = float(np.maximum((at + 1) / n - cdf, cdf - at / n).max())
    return min(1.0, 2 * math.exp(-2 * n * distance**2))


def _independence(z: Floats) -> float:
    """Signs of products of neighbours, along draws and along coordinates: fair coins."""
    signs = [np.sign(z[1:] * z[:-1]), np.sign(z[:, 1:] * z[:, :-1])]
    p = [_coins(int((s > 0).sum()), s.size) for s in signs if s.size]
    return min(1.0, len(p) * min(p))


def _coins(heads: int, n: int) -> float:
    """Exact two-sided p-value of `heads` in n fair tosses."""
    low = 1.0 if heads >= n else float(betainc(n - heads, heads + 1, 0.5))
    high = 1.0 if heads <= 0 else float(betainc(heads, n - heads + 1, 0.5))
    return _two_sided(low, high)


def _repeats(z: Floats) -> float:
    """0 where there are more equal values than rounding explains."""
    return 1.0 if z.size - np.unique(z).size <= z.size // ROUNDING else 0.0
