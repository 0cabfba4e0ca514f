"""Zero-concentrated differential privacy: its conversion to (epsilon, delta), and the inverse."""

from __future__ import annotations

import math

from leakbound._check import at_least, delta_value, positive
from leakbound.privacy.rounding import ROUNDING, bisect

LARGEST = 1e300  # square of an order
HALVINGS = 200  # enough to reach the last bit of a float from any bracket used here


def zcdp_epsilon(rho: float, delta: float) -> float:
    """epsilon(delta) of rho-zCDP, by the tight conversion, rounded up; infinity if delta = 0 < rho.

    The smallest value over orders a > 1 of a rho + ln(1 - 1/a) + (ln(1/delta) - ln a)/(a - 1). The
    best order solves rho (a - 1)^2 + ln a = ln(1/delta). Any other order is also valid.

    Args:
        rho: Parameter of zero-concentrated DP, at least 0.

    Guarantee:
        A rho-zCDP mechanism is (epsilon, delta)-DP under the same relation.

    Reference:
        Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (NeurIPS
        2020), Proposition 12. At typical budgets the result is 10 to 23 % below
        rho + 2 sqrt(rho ln(1/delta)), the conversion of Bun and Steinke (TCC 2016).

    Examples:
        >>> round(zcdp_epsilon(0.1, 1e-5), 3)
        1.914
    """
    at_least("rho", rho, 0.0)
    delta_value(delta)
    if rho == 0:
        return 0.0
    if delta == 0 or math.isinf(rho):
        return math.inf
    log = -math.log(delta)
    first = math.sqrt(min(log / rho, LARGEST))  # the best order less 1 is at most this
    _, above = bisect(lambda a: rho * a**2 + math.log1p(a) >= log, 0.0, first, HALVINGS)
    terms = (rho, above * rho, -math.log1p(1 / above), log / above, -math.log1p(above) / above)
    return max(0.0, math.fsum(terms) + ROUNDING * max(map(abs, terms)))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho for which rho-zCDP implies (epsilon, delta)-DP; inverts `zcdp_epsilon`.

    It is rounded down; 0 if delta = 0.

    Args:
        epsilon: Privacy parameter, above 0.

    Guarantee:
        A mechanism that satisfies rho-zCDP is (epsilon, delta)-DP under the same relation.

    Reference:
        Canonne, Kamath and Steinke (NeurIPS 2020), Proposition 12.

    Examples:
        >>> rho = zcdp_rho(2.0, 1e-5)
        >>> round(rho, 4), zcdp_epsilon(rho, 1e-5) <= 2.0
        (0.1083, True)
    """
    positive("epsilon", epsilon)
    delta_value(delta)
    if delta == 0:
        return 0.0
    low, high = 0.0, epsilon
    while zcdp_epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    return bisect(lambda rho: zcdp_epsilon(rho, delta) > epsilon, low, high, HALVINGS)[0]
