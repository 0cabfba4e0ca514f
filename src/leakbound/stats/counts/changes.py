"""What change of a rate Fisher's exact test of two samples of one size sees, nearly always.

A test that rejects nothing says nothing of any epsilon: a leak of any epsilon can change a rate by
as little as one likes. It bounds the change of a rate that it would have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import bdtr, gammaln

from leakbound._check import whole, within
from leakbound.stats.arrays import Floats
from leakbound.stats.power import least_number

POWER = 0.9  # chance with which a change has to be seen
MOST = 400  # trials of each sample that are calculated with; more of them only see more
STEPS = 20  # bisections of a rate, to 1e-6


def change_power(trials: int, rate: float, other: float, level: float) -> float:
    """Probability that the two-sided exact test of two samples rejects equal rates.

    More than 400 trials of each sample count as 400.

    Reference:
        Fisher (1935); `rank_test` for two distinct values.

    Examples:
        >>> round(change_power(24, 0.73, 0.27, 0.05), 2)
        0.87
    """
    whole("trials", trials, 0)
    trials = min(trials, MOST)
    counts = np.arange(trials + 1.0)
    first, second = (
        np.diff(bdtr(counts, trials, within(name, one, 0.0, 1.0)), prepend=0.0)
        for name, one in (("rate", rate), ("other", other))
    )
    return float(first @ _rejected(trials, within("level", level, 0.0, 1.0)) @ second)


def detectable_change(trials: int, level: float) -> float:
    """The least D for which rates of 1/2 + D/2 and 1/2 - D/2 are told apart with probability 0.9.

    Rounded up; infinity where even rates of 1 and 0 are not told apart.

    Examples:
        >>> round(detectable_change(24, 0.05), 2)
        0.48
    """
    return _least(lambda d: change_power(trials, (1 + d) / 2, (1 - d) / 2, level))


def detectable_share(trials: int, level: float) -> float:
    """The least rate R that is told from a rate of 0 with probability 0.9: how often a reply must
    show what no reply shows without the canary.

    Examples:
        >>> round(detectable_share(24, 0.05), 2)
        0.31
    """
    return _least(lambda share: change_power(trials, share, 0.0, level))


def trials_for_change(change: float, level: float) -> int:
    """The least size of both samples that tells rates of 1/2 + change/2 and 1/2 - change/2 apart
    with probability 0.9; 400 where it would be more.

    Examples:
        >>> trials_for_change(0.46, 0.05)
        28
    """
    rates = (1 + within("change", change, 0.0, 1.0)) / 2, (1 - change) / 2
    found = least_number(lambda n: change_power(n, *rates, level) >= POWER, MOST)
    return MOST if found is None else min(found, MOST)


def _least(power: Callable[[float], float]) -> float:
    if power(1.0) < POWER:
        return np.inf
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


@lru_cache(maxsize=64)
def _rejected(trials: int, level: float) -> Floats:
    """(trials + 1, trials + 1) 1 where the test rejects, by the counts of both samples."""
    found = np.zeros((trials + 1, trials + 1))
    counts = np.arange(trials + 1)
    ways = gammaln(trials + 1) - gammaln(counts + 1) - gammaln(trials - counts + 1)
    for total in range(2 * trials + 1):
        first = np.arange(max(0, total - trials), min(total, trials) + 1)
        weights = ways[first] + ways[total - first]
        chances = np.exp(weights - weights.max())
        below = chances.cumsum()
        above = chances[::-1].cumsum()[::-1]
        found[first, total - first] = 2 * np.minimum(above, below) <= level * below[-1]
    return found
