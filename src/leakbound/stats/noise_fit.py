"""Does the noise that a mechanism really adds follow the declared distribution?

A test of the implementation, apart from leakage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, chdtr, chdtrc, ndtr

from leakbound._check import positive, within
from leakbound.errors import UsageError

__all__ = ["NoiseFit", "noise_goodness_of_fit"]

Floats = npt.NDArray[np.float64]
TESTS = 5  # shape, scale, centre, independence, repeats: the Bonferroni factor
FEWEST = 8  # draws: below it no test of five at 1 % could reject
ROUNDING = 1000  # one equal value in so many is put down to rounding of the outputs


@dataclass(frozen=True, slots=True)
class NoiseFit:
    """p-values of five tests of one declared Gaussian noise, each valid at any sample size.

    Attributes:
        shape: p-value of Kolmogorov-Smirnov, by the bound that holds for every n.
        scale: p-value of the sum of squares (chi-square).
        centre: p-value of the mean (z).
        independence: p-value of the signs of neighbouring draws.
        repeats: 0 where more than one value in 1,000 repeats another, else 1.
        sigma_ratio: Measured over declared standard deviation.
        draws: Number of draws.
        level: Error probability of `fits` over all five tests (Bonferroni).
    """

    shape: float
    scale: float
    centre: float
    independence: float
    repeats: float
    sigma_ratio: float
    draws: int
    level: float

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
            f"p = {self.p_value:.2g}, level {self.level:g})"
        )


def noise_goodness_of_fit(residuals: npt.ArrayLike, sigma: float, level: float = 0.01) -> NoiseFit:
    """Test that residuals are independent draws of N(0, sigma^2).

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
        Noise as declared is rejected with probability at most `level`, for every R.

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
    square = float((z**2).sum())
    return NoiseFit(
        _shape(z), _two_sided(chdtr(z.size, square), chdtrc(z.size, square)),
        math.erfc(abs(float(z.sum())) / math.sqrt(2 * z.size)), _independence(z), _repeats(z),
        math.sqrt(square / z.size), z.shape[0], level,
    )  # fmt: skip


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
