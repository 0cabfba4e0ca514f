"""What a number of pairs can show, before any is spent:

the ceiling of a bound, and the power against a true leakage.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, xlogy

from leakbound._check import confidence_level, count, delta_value, epsilon_value
from leakbound.errors import UsageError
from leakbound.stats.bounds import clopper_pearson
from leakbound.stats.curves import Floats
from leakbound.stats.intervals import binomial_upper

__all__ = ["largest_certifiable_epsilon", "clopper_pearson_power", "pairs_to_reject"]


def largest_certifiable_epsilon(pairs: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Largest epsilon at `delta` that a flawless attack certifies with so many pairs."""
    if count("pairs", pairs) == 0:
        return 0.0
    return clopper_pearson(pairs, 0, 0, pairs, delta, confidence).epsilon or 0.0


def pairs_to_reject(epsilon: float, delta: float = 0.0, confidence: float = 0.95) -> int:
    """Fewest pairs with which a flawless attack refutes the claim:

    the smallest n whose ceiling exceeds epsilon.
    """
    epsilon_value(epsilon)
    if math.isinf(epsilon) or epsilon > 30:
        raise UsageError(
            f"epsilon is {epsilon!r}; no practical number of pairs refutes a claim above 30."
        )
    high = 1
    while largest_certifiable_epsilon(high, delta, confidence) <= epsilon:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if largest_certifiable_epsilon(middle, delta, confidence) > epsilon
            else (middle, high)
        )
    return high


def clopper_pearson_power(
    pairs: int, true_epsilon: float, epsilon: float, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Probability that `pairs` pairs refute the claim (epsilon, delta) when the system leaks
    `true_epsilon`.

    The system is taken to leak as randomised response does, the attack to be the best one: error
    rates 1/(1 + e^true).
    Exact: a sum over all pairs of error counts (grouped; at most 2,000 counts a world).
    """
    n = count("pairs", pairs)
    epsilon_value(true_epsilon)
    delta_value(delta)
    alpha = (1 - confidence_level(confidence)) / 2
    k = np.arange(min(n, 2000) + 1, dtype=float)
    mass = _binomial(k, n, 1 / (1 + math.exp(min(true_epsilon, 700.0))))
    upper = binomial_upper(k, n, alpha)
    slope = math.exp(min(epsilon, 700.0))
    refutes = (1 - upper[:, None] - delta > slope * upper) | (
        1 - upper - delta > slope * upper[:, None]
    )
    return min(1.0, float(mass @ refutes @ mass))


def _binomial(k: Floats, n: int, p: float) -> Floats:
    """P[Bin(n, p) = k]."""
    if n == 0:
        return np.ones(1)
    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(np.exp(choose + xlogy(k, p) + xlogy(n - k, 1 - p)))
