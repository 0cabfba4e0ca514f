"""Sums, shares and bisections, rounded so that they never overstate the privacy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from leakbound._check import at_least, numbers
from leakbound._check import count as whole_number

# Allowance for the rounding error of a logarithm of Phi or of a sum of a few floats, relative to
# the largest term. It is 16 units in the last place, several times the largest error that was seen
# against 50-digit arithmetic.
ROUNDING = 16 * 2.0**-53


def bisect(
    holds: Callable[[float], bool], low: float, high: float, halvings: int, tolerance: float = 0.0
) -> tuple[float, float]:
    """The ends of an interval, halved around where a property that holds above `low` begins."""
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
    total = math.fsum(parts)
    if math.isinf(total):
        return total
    return math.nextafter(total, math.inf) if math.fsum([*parts, -total]) > 0 else total


def times_up(value: float, count: int) -> float:
    """What `sum_up` gives of so many equal values."""
    product = value * count
    if math.isinf(product) or Fraction(product) >= Fraction(value) * count:
        return product
    return math.nextafter(product, math.inf)


def share_down(total: float, count: int) -> float:
    """The largest float that does not exceed a total when it is multiplied by `count`.

    Args:
        total: Number to divide, at least 0.
        count: Number of shares, from 1 to 1e15.

    Guarantee:
        `sum_up([share] * count)` never exceeds the total.

    Examples:
        >>> sum_up([share_down(0.1, 7)] * 7) <= 0.1
        True
    """
    at_least("total", total, 0.0)
    shares = whole_number("count", count, 1)
    share = total / shares
    if math.isinf(share):
        return share
    while Fraction(share) * shares > Fraction(total):
        share = math.nextafter(share, 0.0)
    return share
