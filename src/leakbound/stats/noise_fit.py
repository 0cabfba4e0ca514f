"""Does the noise that a release really adds follow the declared law? A test of the implementation,
apart from leakage.
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
TESTS = 5


@dataclass(frozen=True, slots=True)
class NoiseFit:
    """p-values of five tests of one declared Gaussian noise, each valid at any sample size (never
    too small by chance alone).

    shape: Kolmogorov-Smirnov; scale: chi-square of the sum of squares; centre: z of the mean;
    independence: signs of
    neighbouring draws; repeats: 0 where more than one value in 1,000 repeats another, else 1.
    `fits` is at `level` over all five (Bonferroni).
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
        """False: the noise is not as declared, an error of this verdict has probability at most
        `level`.
        """
        return self.p_value > self.level

    def __str__(self) -> str:
        said = "follows" if self.fits else "does NOT follow"
        return (
            f"noise {said} the declared law ({self.draws} draws, measured scale "
            f"{self.sigma_ratio:.3f} of the declared, "
            f"p = {self.p_value:.2g}, level {self.level:g})"
        )


def noise_goodness_of_fit(residuals: npt.ArrayLike, sigma: float, level: float = 0.01) -> NoiseFit:
    """Test that residuals (releases less their aggregate) are independent draws of N(0, sigma^2).

    residuals: (R,) or (R, d), R draws in order through the real release code. The shape test uses
    the bound
    2 exp(-2 n D^2) (Dvoretzky, Kiefer, Wolfowitz; Massart 1990), which holds for every n. Raises
    UsageError for fewer
    than 8 draws or NaN.
    """
    positive("sigma", sigma)
    within("level", level, 0.0, 1.0)
    z = np.asarray(residuals, float) / sigma
    z = z[:, None] if z.ndim == 1 else z
    if z.ndim != 2 or z.shape[0] < 8 or z.shape[1] < 1:
        raise UsageError(
            f"residuals have shape {np.shape(residuals)}; they must be (draws,) or (draws, d) "
            "with at least 8 draws."
        )
    if not np.isfinite(z).all():
        raise UsageError(
            "residuals hold NaN or infinite values; a release of the mechanism is broken, or its "
            "clean value."
        )
    square = float((z**2).sum())
    return NoiseFit(
        _shape(z), _two_sided(chdtr(z.size, square), chdtrc(z.size, square)),
        math.erfc(abs(float(z.sum())) / math.sqrt(2 * z.size)), _independence(z), _repeats(z),
        math.sqrt(square / z.size), z.shape[0], level,
    )  # fmt: skip


def _two_sided(low: float, high: float) -> float:
    return min(1.0, 2 * float(min(low, high)))


def _shape(z: Floats) -> float:
    flat = np.sort(z, axis=None)
    n, chance = flat.size, ndtr(flat)
    at = np.arange(n)
    distance = float(np.maximum((at + 1) / n - chance, chance - at / n).max())
    return min(1.0, 2 * math.exp(-2 * n * distance**2))


def _independence(z: Floats) -> float:
    """Signs of products of neighbours, along draws and along coordinates:

    fair coins if all is independent.
    """
    signs = [np.sign(z[1:] * z[:-1]), np.sign(z[:, 1:] * z[:, :-1])]
    p = [_coins(int((s > 0).sum()), s.size) for s in signs if s.size]
    return min(1.0, len(p) * min(p))


def _coins(heads: int, n: int) -> float:
    """Exact two-sided p-value of `heads` in n fair tosses."""
    low = 1.0 if heads >= n else float(betainc(n - heads, heads + 1, 0.5))
    high = 1.0 if heads <= 0 else float(betainc(heads, n - heads + 1, 0.5))
    return _two_sided(low, high)


def _repeats(z: Floats) -> float:
    """More equal values than rounding explains: 1 in 1,000."""
    return 1.0 if z.size - np.unique(z).size <= z.size // 1000 else 0.0
