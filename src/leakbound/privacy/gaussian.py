"""The Gaussian mechanism: its exact privacy profile, both inverses, and calibration (Balle and Wang
2018; Dong et al. 2022).

Notation: a mechanism that adds N(0, sigma^2 I) to a statistic of L2 sensitivity D is mu-GDP with mu
= D / sigma.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from leakbound._check import at_least, delta_value, epsilon_value, positive
from leakbound.errors import UsageError

__all__ = ["calibrate_gaussian", "gaussian_epsilon", "gdp_delta", "gdp_epsilon", "gdp_trade_off"]

Floats = npt.NDArray[np.float64]


def gdp_delta(epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> float | Floats:
    """Smallest delta at which mu-GDP gives (epsilon, delta)-DP.

    Formula: Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2), computed in logarithms so
    that it neither
    overflows nor cancels; 0 where mu = 0. Shapes broadcast. Source: Balle and Wang (2018), Theorem
    8.
    Raises UsageError for epsilon < 0 or mu < 0.
    """
    eps, m = np.broadcast_arrays(
        np.asarray(epsilon_value(epsilon), float), np.asarray(at_least("mu", mu, 0.0), float)
    )
    out = np.zeros(eps.shape)
    live = (m > 0) & np.isfinite(eps)
    e, s = eps[live], np.minimum(m[live], 1e8)
    first, second = log_ndtr(s / 2 - e / s), e + log_ndtr(-s / 2 - e / s)
    out[live] = np.exp(first) * -np.expm1(np.minimum(second - first, 0.0))
    return float(out) if out.ndim == 0 else out


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which mu-GDP gives (epsilon, delta)-DP; rounded up (towards less claimed
    privacy).

    0 where mu = 0 or gdp_delta(0, mu) <= delta; infinity where delta = 0 < mu. Bracketed bisection
    on `gdp_delta`,
    to one part in 1e12; the upper end of the bracket is returned.
    """
    at_least("mu", mu, 0.0)
    delta_value(delta)
    if mu == 0 or gdp_delta(0.0, mu) <= delta:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    return _smallest(lambda e: float(gdp_delta(e, mu)) <= delta)


def gaussian_epsilon(sigma: float, sensitivity: float, delta: float) -> float:
    """Exact epsilon(delta) of noise N(0, sigma^2) on a statistic of L2 sensitivity `sensitivity`;
    sigma = 0 is infinity.
    """
    at_least("sigma", sigma, 0.0)
    at_least("sensitivity", sensitivity, 0.0)
    if sensitivity == 0:
        return 0.0
    return gdp_epsilon(sensitivity / sigma if sigma > 0 else math.inf, delta)


def calibrate_gaussian(
    epsilon: float,
    delta: float,
    sensitivity: float = 1.0,
    method: Literal["analytic", "classical"] = "analytic",
) -> float:
    """Noise scale sigma for (epsilon, delta)-DP at L2 sensitivity `sensitivity`.

    "analytic": the smallest sigma with gdp_delta(epsilon, sensitivity/sigma) <= delta, rounded up,
    so the promise holds
    exactly (Balle and Wang 2018). "classical": sensitivity * sqrt(2 ln(1.25/delta)) / epsilon, as
    XL and CL use it; it is
    kept for reproduction and does not give (epsilon, delta) for every epsilon > 1 (at (10, 1e-5)
    the exact epsilon is
    10.39): derive the guarantee from the sigma. Raises UsageError for epsilon <= 0, delta outside
    (0, 1), sensitivity <= 0.
    """
    positive("epsilon", epsilon)
    positive("sensitivity", sensitivity)
    if not 0 < delta < 1:
        raise UsageError(
            f"delta is {delta!r}; Gaussian noise needs a delta above 0 and below 1, such as 1e-5."
        )
    if method == "classical":
        return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    if method != "analytic":
        raise UsageError(f"method is {method!r}; it must be 'analytic' or 'classical'.")
    return sensitivity * _smallest(lambda s: float(gdp_delta(epsilon, 1 / s)) <= delta)


def gdp_trade_off(fpr: npt.ArrayLike, mu: float) -> Floats:
    """Largest true-positive rate of any test at false-positive rate `fpr` against a mu-GDP
    mechanism.

    Formula: 1 - Phi(Phi^-1(1 - fpr) - mu) (Dong, Roth and Su 2022). fpr: any shape in [0, 1].
    """
    return np.asarray(ndtr(ndtri(np.asarray(fpr, float)) + mu), float)


def _smallest(holds: Callable[[float], bool]) -> float:
    """Smallest positive x with holds(x), for a property that is false below and true above; rounded
    up.
    """
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
        if high > 1e12:
            return math.inf
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
        if high - low <= 1e-12 * high:
            break
    return high
