"""Tests of a single inequality. They assume no normal distribution."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from leakbound.stats.arrays import Floats
from leakbound.stats.counts.two_samples import rank_test
from leakbound_lab.reproduce.values import Sample

EXACT = "exact comparison"
ENUMERATED = 14  # up to this many units, every choice of signs is enumerated
EXCHANGES = 13_000  # up to this many, every exchange of units is enumerated (8 and 8 units)
DRAWS = 9_999  # for more units, random choices: the smallest p-value is 0.0001
CLOSE = 1e-9  # sums that differ by less are equal


class PValues(NamedTuple):
    """One-sided p-values of an inequality and of its negation."""

    claimed: float
    opposite: float
    test: str
    units: str
    difference: float
    equal: bool = False


def compare(larger: Sample, smaller: Sample, by: float) -> PValues:
    """Test whether the mean of one sample exceeds that of another by more than a margin.

    Samples over the same units are compared unit by unit, with random signs. Other samples are
    compared by exchanging units, or contexts where several units ask one; for ones and zeros, this
    is Fisher's exact test.

    Examples:
        >>> one, other = (Sample((v,) * 6, "pair", "seed 0") for v in (2.0, 1.0))
        >>> compare(one, other, 0.0).claimed
        0.015625
    """
    common = _common(larger, smaller)
    if common:
        first, second = (_by_id(sample) for sample in (larger, smaller))
        differences = np.array([first[i] - second[i] for i in common])
        return _signs(differences - by, larger.unit, not differences.any())
    larger, smaller = larger.by_context(), smaller.by_context()
    a, b = np.array(larger.values) - by, np.array(smaller.values)
    units, gap = f"{len(a)} and {len(b)} {_plural(larger.unit)}", float(a.mean() - b.mean())
    if by == 0 and len({*larger.values, *smaller.values}) <= 2:
        up, down = rank_test(list(a), list(b)), rank_test(list(b), list(a))
        return PValues(up, down, "Fisher's exact test", units, gap, np.ptp([*a, *b]) == 0)
    up, down = _exchange(a, b), _exchange(b, a)
    return PValues(up, down, "permutation test", units, gap)


def compare_with_number(sample: Sample, number: float) -> PValues:
    """Test whether the mean of a sample exceeds a number."""
    sample = sample.by_context()
    kinds, scale = set(sample.values), max(sample.values, default=0.0)
    if scale in (1.0, 100.0) and kinds <= {0.0, scale} and 0 < number < scale:
        hits, rate = round(sum(sample.values) / scale), number / scale
        up = 1.0 if hits == 0 else float(scipy.special.bdtrc(hits - 1, sample.n, rate))
        units = f"{sample.n} {_plural(sample.unit)}"
        gap = sample.mean - number
        return PValues(
            up, float(scipy.special.bdtr(hits, sample.n, rate)), "binomial test", units, gap
        )
    return _signs(np.array(sample.values) - number, sample.unit)


def _common(one: Sample, other: Sample) -> list[int]:
    """Units of both samples, if they are at least half of the larger sample."""
    if one.drawn != other.drawn or one.unit != other.unit:
        return []
    common = sorted(_by_id(one).keys() & _by_id(other).keys())
    return common if 2 * len(common) >= max(one.n, other.n) else []


def _by_id(sample: Sample) -> dict[int, float]:
    return dict(zip(sample.ids or range(sample.n), sample.values, strict=True))


def _signs(differences: Floats, unit: str, equal: bool = False) -> PValues:
    """Compare the sum of differences with its distribution under random signs."""
    n = len(differences)
    if n <= ENUMERATED:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
        sums = (2 * bits - 1) @ differences
        up, down = (float(np.mean(s * sums >= s * differences.sum() - CLOSE)) for s in (1, -1))
    else:
        rng, most = np.random.default_rng(0), max(1, 4_000_000 // n)  # signs at once
        sums = np.concatenate([
            (2 * rng.integers(0, 2, (min(most, DRAWS - at), n), dtype=np.int8) - 1) @ differences
            for at in range(0, DRAWS, most)
        ])  # fmt: skip
        up, down = (_share(s * sums, s * float(differences.sum())) for s in (1, -1))
    mean, units = float(differences.mean()), f"{n} {_plural(unit)}, compared one by one"
    return PValues(up, down, "sign-flip test", units, mean, equal)


def _exchange(high: Floats, low: Floats) -> float:
    """Share of exchanges that give a difference of means at least as large; of all, if few."""
    every, rng, n = np.concatenate([high, low]), np.random.default_rng(0), len(high)
    if math.comb(len(every), n) <= EXCHANGES:
        sums = np.array([sum(chosen) for chosen in itertools.combinations(every.tolist(), n)])
        return float(np.mean(sums >= high.sum() - CLOSE))
    found = [float(rng.permutation(every)[:n].sum()) for _ in range(DRAWS // 5)]
    return _share(np.array(found), float(high.sum()))


def _share(sums: Floats | Sequence[float], found: float) -> float:
    """A p-value from random draws, which counts the observed value as one of them."""
    values = np.asarray(sums)
    return float((1 + np.count_nonzero(values >= found - CLOSE)) / (1 + values.size))


def _plural(unit: str) -> str:
    return f"{unit[:-1]}ies" if unit.endswith("y") else f"{unit}s"
