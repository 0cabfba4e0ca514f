"""Sums, shares, binomial tails and bisections, rounded so that they never overstate the privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlogy

from leakbound._check import at_least, numbers
from leakbound._check import count as whole_number

Floats = npt.NDArray[np.float64]
MANY = 10**20  # most parts of a composition: cells of a binomial distribution end at exact floats
# Allowance for the rounding error of a logarithm of Phi or of a sum of a few floats, relative to
# the largest term. It is 16 units in the last place, several times the largest error that was seen
# against 50-digit arithmetic.
ROUNDING = 16 * 2.0**-53


def bisect(
    holds: Callable[[float], bool], low: float, high: float, halvings: int, tolerance: float = 0.0
) -> tuple[float, float]:
    """The ends of an interval, halved around where a property that is false at `low` and true at
    `high` changes: until they are neighbours, or as close as a relative tolerance."""
    for _ in range(halvings):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
        if high - low <= tolerance * high:
            break
    return low, high


def sum_up(values: Iterable[float]) -> float:
    """The smallest float that is at least the exact sum of numbers of at least 0, or infinity.

    Guarantee:
        If the result fits a budget, so does the exact sum.

    Examples:
        >>> sum([0.1] * 10), sum_up([0.1] * 10)
        (0.9999999999999999, 1.0000000000000002)
    """
    parts = at_least("values", numbers("values", list(values)).tolist(), 0.0)
    try:
        total = math.fsum(parts)
    except OverflowError:
        return math.inf
    if math.isinf(total):
        return total
    return math.nextafter(total, math.inf) if math.fsum([*parts, -total]) > 0 else total


def times_up(value: float, number: int) -> float:
    """The smallest float that is at least the exact product of a number of at least 0 and a count,
    or infinity."""
    product = value * number
    if math.isinf(product) or Fraction(product) >= Fraction(value) * number:
        return product
    return math.nextafter(product, math.inf)


def share_down(total: float, count: int) -> float:
    """The largest float that does not exceed a total when it is multiplied by `count`.

    Args:
        total: Number to divide, at least 0.
        count: Number of shares, from 1 to 1e20.

    Guarantee:
        `sum_up([share] * count)` never exceeds the total.

    Examples:
        >>> sum_up([share_down(0.1, 7)] * 7) <= 0.1
        True
    """
    at_least("total", total, 0.0)
    shares = whole_number("count", count, 1, MANY)
    share = total / shares
    if math.isinf(share):
        return share
    while Fraction(share) * shares > Fraction(total):
        share = math.nextafter(share, 0.0)
    return share


def binomial_masses(first: Floats, last: Floats, n: int, log_q: float) -> Floats:
    """P(first <= B <= last) of B ~ Bin(n, q), q at most 1/2, rounded up; exact for single counts.

    A cell has at most its size times its largest probability, by the exponent n KL(k/n, q) and
    Stirling's formula, which keep their precision at any n.
    """
    mean = n * math.exp(log_q)
    most = np.clip(float(math.floor((n + 1) * math.exp(log_q))), first, last)
    x, rest = most - mean, float(n) - most
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log1p(x / mean) if mean > 1 else np.log(most) - math.log(n) - log_q
        one, other = most * ratio, rest * np.log1p(-x / (n - mean))
    exponent = np.where(most > 0, one, 0.0) + np.where(rest > 0, other, 0.0)
    ways = _stirling(np.asarray(float(n))) - _stirling(most) - _stirling(rest)
    lost = ROUNDING * (100 + 10 * np.abs(x))
    return np.asarray((last - first + 1) * np.exp(ways - exponent) * (1 + lost))


def _stirling(x: Floats) -> Floats:
    """ln x! - x ln x + x, whose terms would cancel if x is large."""
    far = np.maximum(x, 100.0)
    series = 1 / (12 * far) - 1 / (360 * far**3) + 1 / (1260 * far**5)
    near = gammaln(x + 1) - xlogy(x, x) + x
    return np.where(x < far, near, np.log(2 * math.pi * far) / 2 + series)
