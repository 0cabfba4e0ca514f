"""Are two samples exchangeable? Rank tests, a test against an excess, p-values of single values.

All hold whatever the values depend on, as long as which of them belong to the first sample was
drawn at random. A test that rejects nothing bounds no epsilon, as a leak of any epsilon can change
a rate by as little as one likes; `detectable_change` bounds the change that it would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from leakbound._check import numbers, whole, within
from leakbound.privacy.rounding import bisect
from leakbound.stats.arrays import Bools, Floats, Ints
from leakbound.stats.power import first_number, least_number

EXACT = 40  # most values for which the rank sum is enumerated, which takes milliseconds
COUNTED = 2000  # most values of two kinds for which all choices are counted in integers
CLOSE = 1e-9  # tolerance; sums of ranks are multiples of a half


def rank_test(high: Sequence[float], low: Sequence[float], two_sided: bool = False) -> float:
    """p-value against the hypothesis that two samples come from one distribution.

    The statistic is the sum of mid-ranks (Wilcoxon, Mann and Whitney), conditional on all values,
    so ties are taken into account. If there are only two distinct values, this is Fisher's exact
    test. It is exact for up to 40 values, or 2,000 of two kinds; otherwise it uses the normal
    approximation, corrected for ties. 1 if a sample is empty.

    Args:
        high: (n,) values that should be larger under the alternative.
        low: (m,) values of the other sample.
        two_sided: Whether `high` may be larger or smaller under the alternative.

    Guarantee:
        If the p-value is exact and all values are exchangeable, it is at most p with probability
        at most p.

    Reference:
        Lehmann, "Nonparametrics" (1975); Fisher (1935).

    Examples:
        >>> round(rank_test([1, 1, 1, 1], [0, 0, 0, 0]), 4)
        0.0143
        >>> rank_test([1, 0], [])
        1.0
    """
    values = np.concatenate([numbers("high", high, nan=True), numbers("low", low, nan=True)])
    if not len(high) or not len(low):
        return 1.0
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[place]  # from 1; equal values share their mean
    above = _upper_tail(ranks, len(high), ranks[: len(high)].sum())
    if not two_sided:
        return above
    below = _upper_tail(ranks[::-1], len(low), ranks[len(high) :].sum())
    return min(1.0, 2 * min(above, below))


def sign_test(differences: Sequence[float]) -> float:
    """Two-sided p-value against the hypothesis that differences are as often above 0 as below.

    Exact for exchangeable values; zeros and NaN are ignored.

    Reference:
        Lehmann, "Nonparametrics" (1975).

    Examples:
        >>> sign_test([1, 1, 1, 1, 1, 1, 0])
        0.03125
    """
    found = numbers("differences", differences, nan=True)
    up, down = int((found > 0).sum()), int((found < 0).sum())
    return (
        min(1.0, 2 * float(scipy.special.bdtr(min(up, down), up + down, 0.5))) if up + down else 1.0
    )


def _upper_tail(ranks: Floats, chosen: int, found: float) -> float:
    """Probability that `chosen` ranks, drawn at random, sum to at least `found`."""
    kinds, counts = np.unique(ranks, return_counts=True)
    if len(kinds) == 1:
        return 1.0
    if len(kinds) == 2 and len(ranks) <= COUNTED:
        return _fisher(kinds, counts, chosen, found)
    if len(ranks) <= EXACT:
        return _enumerate_all(ranks, chosen, found)
    step = float(np.diff(kinds).min())
    return _normal(counts, chosen, found - step / 2)


def _fisher(kinds: Floats, counts: Ints, chosen: int, found: float) -> float:
    """Two distinct values: the number of larger ones among the chosen is hypergeometric."""
    low, high = map(int, counts)
    larger = round((found - chosen * kinds[0]) / (kinds[1] - kinds[0]))
    ways = sum(
        math.comb(high, k) * math.comb(low, chosen - k)
        for k in range(larger, min(high, chosen) + 1)
        if chosen - k <= low
    )
    return ways / math.comb(low + high, chosen)


def _enumerate_all(ranks: Floats, chosen: int, found: float) -> float:
    """Share of all choices with at least this sum, from doubled ranks, which are integers."""
    doubled = np.rint(2 * ranks).astype(int)
    ways = np.zeros((chosen + 1, int(doubled.sum()) + 1))
    ways[0, 0] = 1
    for rank in doubled:
        ways[1:, rank:] = ways[1:, rank:] + ways[:-1, : ways.shape[1] - rank]
    least = math.ceil(2 * found - CLOSE)
    return float(ways[chosen, least:].sum() / ways[chosen].sum())


def _normal(counts: Ints, chosen: int, found: float) -> float:
    """The normal approximation with its correction for ties."""
    total = int(counts.sum())
    ties = float((counts**3 - counts).sum())
    spread = chosen * (total - chosen) / 12 * (total + 1 - ties / (total * (total - 1)))
    z = (found - chosen * (total + 1) / 2) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))


DRAWS = 9999


class Excess(NamedTuple):
    """How far the first sample exceeds the second."""

    p_value: float
    threshold: float
    statistic: float
    draws: int


def excess_test(
    high: Sequence[float], low: Sequence[float], seed: int = 0, draws: int = DRAWS
) -> Excess:
    """Test whether more values of one sample than of another lie above some threshold.

    The statistic is the largest standardised excess over all thresholds, so a few very large values
    count as well as many slightly larger ones. It is compared with random divisions of the values.

    Guarantee: if all n + m values are exchangeable, the p-value is at most p with probability at
    most p.
    Reference: Phipson and Smyth 2010 (permutation p-values are never zero); Donoho and Jin 2004
    (higher criticism).
    """
    whole("draws", draws)
    values = np.concatenate([np.asarray(high, float), np.asarray(low, float)])
    levels = np.unique(values)[::-1]
    if not len(high) or not len(low) or len(levels) < 2:
        return Excess(1.0, 0.0, 0.0, draws)
    sizes = np.array([(values == level).sum() for level in levels])
    mine = np.array([(np.asarray(high, float) == level).sum() for level in levels])
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(sizes, len(high), size=draws)
    # of how many of the first sample lie at or above each level but the lowest
    above, total = np.cumsum(sizes)[:-1].astype(float), float(sizes.sum())
    share = len(high) / total
    spread = np.sqrt(above * share * (1 - share) * (total - above) / (total - 1))

    def excess(counts: Ints) -> Floats:
        """(..., levels - 1) standardised excess at or above each level but the lowest."""
        found: Floats = (np.cumsum(counts, axis=-1)[..., :-1] - above * share) / spread
        return found

    seen, null = excess(mine), excess(drawn).max(1)
    at = int(seen.argmax())
    beaten = int((null >= seen[at] - 1e-9).sum())
    return Excess((1 + beaten) / (draws + 1), float(levels[at]), float(seen[at]), draws)


def smallest_excess(
    high: Sequence[float], low: Sequence[float], level: float, seed: int = 0, draws: int = DRAWS
) -> int | None:
    """How many values would have to exceed all others for `excess_test` to reject."""
    within("level", level, 0, 1)
    ordered = sorted(map(float, high))
    top = max([*ordered, *map(float, low)], default=0.0) + 1

    def rejects(raised: int) -> bool:
        changed = [*[top] * raised, *ordered[raised:]]
        return excess_test(changed, low, seed, draws).p_value <= level

    if not ordered or not rejects(len(ordered)):
        return None
    return first_number(rejects, 0, len(ordered))


def conformal_p_values(scores: Sequence[float], reference: Sequence[float]) -> Floats:
    """Compare each score with those of a reference sample.

    Guarantee: a p-value of a record that is exchangeable with the reference records is at most p
    with probability at most p.
    Reference: Bates, Candes, Lei, Romano and Sesia 2023.
    """
    known = np.sort(np.asarray(reference, float))
    below = np.searchsorted(known, np.asarray(scores, float), side="left")
    found: Floats = (1 + len(known) - below) / (len(known) + 1)
    return found


def benjamini_hochberg(p_values: Sequence[float] | Floats, rate: float) -> Bools:
    """Which hypotheses are rejected so that few of the rejections are false.

    Guarantee: the expected share of false rejections is at most `rate` for independent p-values and
    for conformal ones of one reference sample.
    Reference: Benjamini and Hochberg 1995; Bates et al. 2023 (conformal p-values).
    """
    within("rate", rate, 0, 1)
    found = np.asarray(p_values, float)
    if not len(found):
        return np.zeros(0, bool)
    ordered = np.sort(found)
    passed = np.flatnonzero(ordered <= rate * np.arange(1, len(found) + 1) / len(found))
    limit = ordered[passed[-1]] if len(passed) else -1.0
    kept: Bools = found <= limit
    return kept


POWER = 0.9  # chance with which a change has to be seen
MOST = 400  # trials of each sample that are calculated with; more of them only see more
STEPS = 20  # bisections of a rate, to 1e-6


def change_power(trials: int, rate: float, other: float, level: float) -> float:
    """Power of Fisher's exact two-sided test (`rank_test`); more than 400 trials count as 400."""
    whole("trials", trials, 0)
    trials = min(trials, MOST)
    counts = np.arange(trials + 1.0)
    first, second = (
        np.diff(scipy.special.bdtr(counts, trials, within(name, one, 0.0, 1.0)), prepend=0.0)
        for name, one in (("rate", rate), ("other", other))
    )
    return float(first @ _rejected(trials, within("level", level, 0.0, 1.0)) @ second)


def detectable_change(trials: int, level: float) -> float:
    """The least D, rounded up, for which 1/2 + D/2 and 1/2 - D/2 are told apart at 0.9."""
    return _least(lambda d: change_power(trials, (1 + d) / 2, (1 - d) / 2, level))


def detectable_share(trials: int, level: float) -> float:
    """The least rate that is told from a rate of 0 with probability 0.9."""
    return _least(lambda share: change_power(trials, share, 0.0, level))


@lru_cache(maxsize=64)
def trials_for_change(change: float, level: float) -> int:
    """The least size of both samples, up to 400, that shows a change with probability 0.9."""
    rates = (1 + within("change", change, 0.0, 1.0)) / 2, (1 - change) / 2
    found = least_number(lambda n: change_power(n, *rates, level) >= POWER, MOST)
    return MOST if found is None else min(found, MOST)


def _least(power: Callable[[float], float]) -> float:
    if power(1.0) < POWER:
        return np.inf
    return bisect(lambda rate: power(rate) >= POWER, 0.0, 1.0, STEPS)[1]


@lru_cache(maxsize=64)
def _rejected(trials: int, level: float) -> Floats:
    """(trials + 1, trials + 1) 1 where the test rejects, by the counts of both samples."""
    found = np.zeros((trials + 1, trials + 1))
    counts = np.arange(trials + 1)
    ways = (
        scipy.special.gammaln(trials + 1)
        - scipy.special.gammaln(counts + 1)
        - scipy.special.gammaln(trials - counts + 1)
    )
    for total in range(2 * trials + 1):
        first = np.arange(max(0, total - trials), min(total, trials) + 1)
        weights = ways[first] + ways[total - first]
        chances = np.exp(weights - weights.max())
        below = chances.cumsum()
        above = chances[::-1].cumsum()[::-1]
        found[first, total - first] = 2 * np.minimum(above, below) <= level * below[-1]
    return found
