"""What a number of pairs can show before any is spent: largest certifiable epsilon and power."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr

from leakbound._check import confidence_level, count, delta_value, epsilon_value
from leakbound.errors import UsageError
from leakbound.stats.bounds import clopper_pearson
from leakbound.stats.intervals import binomial_upper

__all__ = ["clopper_pearson_power", "largest_certifiable_epsilon", "pairs_to_reject"]

Floats = npt.NDArray[np.float64]
LARGEST_CLAIM = 30.0  # a perfect attack needs about 4e13 pairs to reject it
LARGEST_EXPONENT = 700.0  # e^700 is about the largest float


def largest_certifiable_epsilon(pairs: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Largest epsilon that a perfect attack certifies by Clopper-Pearson limits.

    Args:
        pairs: Number of paired trials, at least 0.
        delta: Failure probability at which epsilon is stated, in [0, 1).
        confidence: Confidence of the bound, in (0, 1).

    Returns:
        epsilon, at least 0.

    Raises:
        UsageError: If an argument lies outside its range.

    Examples:
        >>> round(largest_certifiable_epsilon(100), 2)
        3.28
    """
    if count("pairs", pairs) == 0:
        return 0.0
    return clopper_pearson(pairs, 0, 0, pairs, delta, confidence).epsilon or 0.0


def pairs_to_reject(epsilon: float, delta: float = 0.0, confidence: float = 0.95) -> int:
    """Fewest pairs with which a perfect attack rejects a claim.

    Args:
        epsilon: Claimed epsilon, from 0 to 30.
        delta: Claimed delta, in [0, 1).
        confidence: Confidence of the bound, in (0, 1).

    Returns:
        The smallest n with largest_certifiable_epsilon(n) > epsilon.

    Raises:
        UsageError: If an argument lies outside its range; no practical number of pairs rejects a
            claim above 30.

    Examples:
        >>> pairs_to_reject(1.0), pairs_to_reject(8.0)
        (12, 10999)
    """
    epsilon_value(epsilon)
    if math.isinf(epsilon) or epsilon > LARGEST_CLAIM:
        raise UsageError(
            f"epsilon is {epsilon!r}; no practical number of pairs rejects a claim above "
            f"{LARGEST_CLAIM:g}."
        )
    low, high = 0, 1
    while largest_certifiable_epsilon(high, delta, confidence) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = largest_certifiable_epsilon(middle, delta, confidence) > epsilon
        low, high = (low, middle) if enough else (middle, high)
    return high


def clopper_pearson_power(
    pairs: int, true_epsilon: float, epsilon: float, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Probability that Clopper-Pearson limits reject a claim.

    The system is taken to leak as randomised response does, and the attack to be the best one:
    both error rates are 1/(1 + e^true_epsilon). The sum over both error counts is exact up to the
    1e-20 of their mass that lies outside of a window, at any number of pairs. Counts are whole
    numbers, so between neighbouring numbers of pairs the power can fall by a little.

    Args:
        pairs: Number of paired trials, at least 0.
        true_epsilon: epsilon that the system leaks, at least 0; infinity is allowed.
        epsilon: Claimed epsilon, at least 0.
        delta: Claimed delta, in [0, 1).
        confidence: Confidence of the bound, in (0, 1).

    Returns:
        The probability, in [0, 1].

    Raises:
        UsageError: If an argument lies outside its range.

    Examples:
        >>> round(clopper_pearson_power(pairs=100, true_epsilon=3.0, epsilon=1.0), 4)
        1.0
        >>> clopper_pearson_power(pairs=100_000, true_epsilon=1.1, epsilon=1.0) > 0.999
        True
    """
    n = count("pairs", pairs)
    epsilon_value(true_epsilon)
    delta_value(delta)
    alpha = (1 - confidence_level(confidence)) / 2
    error = 1 / (1 + math.exp(min(true_epsilon, LARGEST_EXPONENT)))
    k = _window(n, error)
    cdf = bdtr(k, n, error)
    upper = binomial_upper(k, n, alpha)
    slope = math.exp(min(epsilon, LARGEST_EXPONENT))
    # given one error count, the claim is rejected where the other's limit lies below `most`
    most = np.maximum((1 - upper - delta) / slope, 1 - delta - slope * upper)
    rejecting = np.concatenate([[0.0], cdf])[np.searchsorted(upper, most)]
    return min(1.0, float(np.diff(cdf, prepend=0.0) @ rejecting))


def _window(n: int, p: float) -> Floats:
    """The counts of Bin(n, p) around its mean, all but 1e-20 of the mass (Bernstein)."""
    margin = 40 + 10 * math.sqrt(n * p * (1 - p))
    return np.arange(max(0, math.floor(n * p - margin)), min(n, math.ceil(n * p + margin)) + 1.0)
