"""The Gaussian mechanism: its exact privacy profile, both inverses, and calibration.

Notation: a mechanism that adds N(0, sigma^2 I) to a statistic of L2 sensitivity D is mu-GDP
(Gaussian differentially private) with mu = D / sigma.

References: Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (ICML
2018); Dong, Roth and Su, "Gaussian differential privacy" (JRSS B 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import (
    at_least,
    delta_value,
    epsilon_value,
    floats,
    of_one_shape,
    positive,
    within,
)
from leakbound.errors import UsageError
from leakbound.privacy.rounding import ROUNDING, bisect

Floats = npt.NDArray[np.float64]
# Above it, the second term of delta is below 1e-4 of the first, and rounding could make it larger.
LARGEST_MU = 1e6
TOLERANCE = 1e-12  # relative width of a bisection: 10,000 times the rounding error of a float


def gdp_delta(epsilon: npt.ArrayLike, mu: npt.ArrayLike) -> float | Floats:
    """Smallest delta at which mu-GDP implies (epsilon, delta)-DP: the privacy profile.

    Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2), computed in logarithms to avoid
    overflow and cancellation; 0 where mu = 0. In the broadcast shape; a float if both arguments
    are scalars.

    Args:
        epsilon: Privacy parameter, at least 0; any shape.
        mu: Parameter of Gaussian DP, at least 0; any shape that broadcasts with `epsilon`.

    Guarantee:
        Exact, under the relation under which mu was derived.

    Reference:
        Balle and Wang (2018), Theorem 8.

    Examples:
        >>> round(gdp_delta(1.0, 1.0), 6)
        0.126937
        >>> gdp_delta([0.0, 5.0], 0.0).tolist()
        [0.0, 0.0]
    """
    eps, m = of_one_shape(True, epsilon=epsilon_value(epsilon), mu=at_least("mu", mu, 0.0))
    out = np.zeros(eps.shape)
    live = (m > 0) & np.isfinite(eps)
    e, s = eps[live], m[live]
    with np.errstate(over="ignore", invalid="ignore"):
        first, second = (
            scipy.special.log_ndtr(s / 2 - e / s),
            e + scipy.special.log_ndtr(-s / 2 - e / s),
        )
        rest = np.where(s > LARGEST_MU, 1.0, -np.expm1(np.minimum(second - first, 0.0)))
    out[live] = np.where(np.isneginf(first), 0.0, np.exp(first) * rest)
    return float(out) if out.ndim == 0 else out


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon at which mu-GDP implies (epsilon, delta)-DP.

    By bisection to one part in 1e12, rounded towards less privacy; 0 if mu = 0 or
    gdp_delta(0, mu) <= delta, infinity if delta = 0 < mu.

    Args:
        mu: Parameter of Gaussian DP, at least 0.

    Guarantee:
        A mu-GDP mechanism is (epsilon, delta)-DP under the same relation.

    Reference:
        Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13.

    Examples:
        >>> round(gdp_epsilon(1.0, 1e-5), 4)
        4.3772
    """
    at_least("mu", mu, 0.0)
    delta_value(delta)
    if mu == 0 or _delta_above(0.0, mu) <= delta:
        return 0.0
    if delta == 0 or math.isinf(mu):
        return math.inf
    return _smallest(lambda e: _delta_above(e, mu) <= delta)


def gaussian_epsilon(sigma: float, sensitivity: float, delta: float) -> float:
    """Exact epsilon(delta) of Gaussian noise, rounded up.

    Args:
        sigma: Standard deviation of the noise, in units of the statistic; 0 gives infinity.
        sensitivity: L2 sensitivity of the statistic, in the same units, at least 0.

    Guarantee:
        (epsilon, delta)-DP under the relation for which the sensitivity holds.

    Reference:
        Balle and Wang (2018), Theorem 8.

    Examples:
        >>> round(gaussian_epsilon(sigma=4.0, sensitivity=2.0, delta=1e-5), 4)
        1.9931
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
    """Standard deviation of Gaussian noise for (epsilon, delta)-DP, in units of the sensitivity.

    Args:
        epsilon: Privacy parameter, above 0.
        delta: Failure probability in (0, 1).
        sensitivity: L2 sensitivity of the statistic, above 0.
        method: "analytic" is the smallest sigma with gdp_delta(epsilon, sensitivity/sigma) <=
            delta, rounded up. "classical" is sensitivity * sqrt(2 ln(1.25/delta)) / epsilon. XL
            and CL use it, and it is kept to reproduce them.

    Guarantee:
        (epsilon, delta)-DP with "analytic", under the relation for which the sensitivity holds.
        "classical" does not give it for every epsilon > 1 (at (10, 1e-5) the exact epsilon is
        10.39). Derive the guarantee from the sigma that is used.

    Reference:
        Balle and Wang (2018), Algorithm 1; Dwork and Roth (2014), Theorem A.1.

    Examples:
        >>> sigma = calibrate_gaussian(1.0, 1e-5)
        >>> round(sigma, 4), round(gaussian_epsilon(sigma, 1.0, 1e-5), 9)
        (3.7306, 1.0)
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
    sigma = sensitivity * _smallest(lambda s: _delta_above(epsilon, 1 / s) <= delta)
    return math.nextafter(sigma, math.inf)


def _delta_above(epsilon: float, mu: float) -> float:
    """`gdp_delta` plus a bound on its rounding error, to keep bisections conservative."""
    first = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
    if math.isinf(first):
        return 0.0
    lost = ROUNDING * (1 + abs(first) + abs(second) + epsilon)
    return float(math.exp(first) * (lost - math.expm1(min(second - first, 0.0))))


def gdp_trade_off(fpr: npt.ArrayLike, mu: float) -> Floats:
    """Largest true-positive rate of any test against a mu-GDP mechanism.

    Phi(Phi^-1(fpr) + mu), the ROC curve of N(0, 1) against N(mu, 1), in the shape of `fpr`.

    Args:
        fpr: False-positive rates in [0, 1]; any shape.
        mu: Parameter of Gaussian DP, at least 0.

    Guarantee:
        No test between neighbours has a larger rate. For Gaussian noise, one test attains it.

    Reference:
        Dong, Roth and Su (2022), Definition 2.6.

    Examples:
        >>> gdp_trade_off([0.0, 0.5, 1.0], 1.0).round(4).tolist()
        [0.0, 0.8413, 1.0]
    """
    rates = within("fpr", floats("fpr", fpr), 0.0, 1.0)
    at_least("mu", mu, 0.0)
    return (
        np.ones_like(rates)
        if math.isinf(mu)
        else np.asarray(scipy.special.ndtr(scipy.special.ndtri(rates) + mu), float)
    )


def _smallest(holds: Callable[[float], bool]) -> float:
    """Smallest x > 0 with holds(x), for a property false below and true above; rounded up."""
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
        if high > 1e12:  # far above any practical budget or noise scale
            return math.inf
    return bisect(holds, low, high, 200, TOLERANCE)[1]  # 200 reach it from any bracket
