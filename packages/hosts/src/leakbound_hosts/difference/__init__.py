"""Is the difference of two runs of an evaluation real? `compare_scores` answers for one metric.

Scores lie in [0, 1]. Of a pair, the difference d lies in [-1, 1]; the hypothesis is that its mean
is 0, given the past. The e-value is the mean of products of 1 + s d over stakes s of both signs:
for scores of 0 and 1 a likelihood ratio of the discordant pairs, against a fair coin. Two runs over
different samples are paired in their order: the larger one is cut into blocks, and each score of
the smaller one is compared with the mean of a block.

References: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"
(JRSS B 2024); McNemar (1947); Fisher (1935).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import confidence_level
from leakbound.errors import DataError, UsageError
from leakbound.stats import sign_test
from leakbound.stats.arrays import Floats, Ints
from leakbound.stats.power import least_number
from leakbound_hosts.rates import LIMITS, SHARES, e_benjamini_hochberg, log_e_values, stakes

EXACT_PAIRED, EXACT_UNPAIRED = "McNemar's exact test", "Fisher's exact test"
ANYTIME = "an e-value, valid at every look"
CHUNK = 50  # limits that are tested at once: some 100 MB
MOST_STAKE = 0.97  # of a planned effect: no single pair ends the test
MOST_PAIRS = 1 << 18  # of a plan for one look; its simulation takes some seconds
SERIES, LONGEST = 400, 5  # simulated, and how many times the pairs of one look each may take
SPREAD, PAIRS = 0.25, 20  # mean square of differences before any, as if of so many pairs


@dataclass(frozen=True, slots=True)
class Difference:
    """How much the mean score of a second run exceeds that of a first."""

    metric: str
    paired: bool
    samples: tuple[int, int]
    means: tuple[float, float]
    interval: tuple[float, float]  # for the difference of the means; it holds at every look
    e_value: float  # where the test stopped
    p_value: float  # holds at every look
    shown_at: int | None  # pairs after which the e-value was first enough
    exact: float | None  # p-value of the test of a fixed number of samples, for scores of 0 and 1
    wins: tuple[int, int]  # pairs in which the first run scored higher, and the second
    spread: float  # mean square of the differences: of scores of 0 and 1, the discordant share
    decided_by: str
    real: bool


def compare_scores(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    paired: bool = True,
    look_often: bool = False,
    effect: float | None = None,
    confidence: float = 0.95,
    metric: str = "score",
    metrics: int = 1,
) -> Difference:
    """Test whether two runs have the same mean score: `real` is true with probability at most
    1 - confidence if they have, given earlier pairs; with `look_often`, at every look.

    `first` (n,) and `second` (m,) lie in [0, 1], m = n if paired. Stakes are planned for `effect`;
    `metrics` are tested. Scores out of range, constant or of unequal number raise a DataError.

    >>> found = compare_scores([1] * 12 + [0] * 8, [0] * 12 + [0] * 8)
    >>> found.real, found.decided_by, round(found.exact, 4)
    (True, "McNemar's exact test", 0.0005)
    """
    alpha = 1 - confidence_level(confidence)
    a, b = _numbers(metric, first), _numbers(metric, second)
    if paired and a.size != b.size:
        raise DataError(f"{a.size} and {b.size} scores make no pairs; give as many of both.")
    if len(np.unique(np.concatenate([a, b]))) < 2:
        raise DataError(
            f"{metric!r} is {a[0]:g} for every sample of both runs; a constant metric cannot "
            "differ. Name another with --metric, or give harder samples."
        )
    d = b - a if paired else _block_differences(b, a)
    path = _evidence(d, effect)
    over = np.flatnonzero(path >= math.log(metrics / alpha))
    at = int(over[0]) + 1 if over.size else d.size
    binary = bool(np.isin(a, (0.0, 1.0)).all() and np.isin(b, (0.0, 1.0)).all())
    exact, fixed = None, not look_often and metrics == 1 and binary
    if binary:
        exact = sign_test(d[d != 0]) if paired else _fisher(a, b)
    shown = exact is not None and exact <= alpha if fixed else bool(over.size)
    return Difference(
        metric, paired, (a.size, b.size), (float(a.mean()), float(b.mean())),
        _interval(d, (at, d.size), alpha), math.exp(min(float(path[at - 1]), 700.0)),
        math.exp(-max(0.0, float(path.max()))), at if over.size else None, exact,
        (int((d < 0).sum()), int((d > 0).sum())), float(np.mean(d * d)),
        (EXACT_PAIRED if paired else EXACT_UNPAIRED) if fixed else ANYTIME, shown,
    )  # fmt: skip


def decide_together(
    found: Sequence[Difference], metrics: int, confidence: float = 0.95
) -> list[Difference]:
    """Which of several metrics differ: of those called real, an expected share of at most
    1 - confidence does not (Wang and Ramdas, JRSS B 2022). `metrics` counts constant ones, too."""
    if metrics == 1:
        return list(found)
    values = [one.e_value for one in found] + [0.0] * (metrics - len(found))
    real = e_benjamini_hochberg(values, 1 - confidence)
    return [replace(one, real=shown) for one, shown in zip(found, real, strict=False)]


def _numbers(metric: str, scores: npt.ArrayLike) -> Floats:
    found = np.asarray(scores, float).reshape(-1)
    if found.size < 2:
        raise DataError(
            f"{metric!r} has {found.size} score{'s' * (found.size != 1)} in a run; give two or "
            "more, and --effect for how many are enough."
        )
    if not bool(((found >= 0) & (found <= 1)).all()):
        raise DataError(f"a score of {metric!r} is not from 0 to 1; NaN is none, either.")
    return found


def _block_differences(a: Floats, b: Floats) -> Floats:
    """(min(n, m),) each score of the smaller run against the mean of a block of the larger one."""
    if a.size > b.size:
        return -_block_differences(b, a)
    starts = np.arange(a.size) * b.size // a.size
    sizes = np.diff(starts, append=b.size)
    return np.asarray(a - np.add.reduceat(b, starts) / sizes).clip(-1, 1)


def _evidence(d: Floats, effect: float | None) -> Floats:
    """(..., pairs) logarithm of the e-value after each pair, with stakes on both sides."""
    if effect is None:
        half = (1 + d) / 2
        up, down = log_e_values(half, 0.5), log_e_values(1 - half, 0.5)
    else:
        before, pairs = np.cumsum(d * d, -1) - d * d, np.arange(d.shape[-1])
        spread = (SPREAD * PAIRS + before) / (PAIRS + pairs)
        stake = np.minimum(effect / spread, MOST_STAKE)
        up, down = np.log1p(stake * d).cumsum(-1), np.log1p(-stake * d).cumsum(-1)
    return np.asarray(np.logaddexp(up, down) - math.log(2))


def _interval(d: Floats, times: Sequence[int], alpha: float) -> tuple[float, float]:
    """Bounds on the mean of differences that hold at every look, from those at some."""
    low = _mean_above([(1 + d[:time]) / 2 for time in times], alpha / 2)
    high = _mean_above([(1 - d[:time]) / 2 for time in times], alpha / 2)
    return round(2 * low - 1, 3), round(1 - 2 * high, 3)


def _mean_above(looks: Sequence[Floats], alpha: float) -> float:
    """The last limit before the first that no look rejects. Scores are rounded down to steps of
    0.001, which only weakens the evidence and leaves few values."""
    counted = [np.unique(np.floor(one * LIMITS.size), return_counts=True) for one in looks]
    last = 0.0
    for start in range(1, LIMITS.size, CHUNK):
        limits = LIMITS[start : start + CHUNK]
        best = np.max([_log_e(v / LIMITS.size, n, limits) for v, n in counted], axis=0)
        stands = np.flatnonzero(best < -math.log(alpha))
        if stands.size:
            return float(limits[stands[0] - 1]) if stands[0] else last
        last = float(limits[-1])
    return last


def _log_e(values: Floats, counts: Ints, limits: Floats) -> Floats:
    """(limits,) logarithm of the e-value against each limit, from how often each value occurs."""
    total, limits = np.full(limits.size, -np.inf), limits[:, None]
    for stake in stakes(limits):
        total = np.logaddexp(total, (counts * np.log1p(stake * (values - limits))).sum(-1))
    return np.asarray(total - math.log(len(SHARES)))


def _fisher(a: Floats, b: Floats) -> float:
    """Twice the smaller tail of the hypergeometric distribution."""
    n, m, hits, found = a.size, b.size, int(a.sum() + b.sum()), int(a.sum())
    counts = np.arange(max(0, hits - m), min(n, hits) + 1)
    log = scipy.special.gammaln
    logs = sum(-log(one + 1) for one in (counts, n - counts, hits - counts, m - hits + counts))
    chances = np.exp(logs - scipy.special.logsumexp(logs))
    tails = chances[counts <= found].sum(), chances[counts >= found].sum()
    return float(min(1.0, 2 * min(tails)))


class DifferencePlan(NamedTuple):
    """About how many pairs show a difference: at one look; with a look after each, in the mean (of
    series that are given up at last, too) and at most."""

    fixed: int
    mean: int
    most: int


def plan_difference(
    effect: float, spread: float, power: float = 0.9, confidence: float = 0.95, seed: int = 0
) -> DifferencePlan:
    """Pairs that show a difference, for a share of discordant pairs, or mean square of differences.

    >>> plan_difference(0.1, 0.25)
    DifferencePlan(fixed=268, mean=185, most=392)
    """
    spread, alpha = max(spread, effect), 1 - confidence_level(confidence)
    rate = (1 + effect / spread) / 2
    discordant = least_number(lambda n: _sign_power(n, rate, alpha) >= power, MOST_PAIRS * spread)
    if discordant is None:
        raise UsageError(
            f"{MOST_PAIRS} pairs do not show a difference of {effect:g} where {spread:g} of them "
            "differ; name a larger one with --effect."
        )
    fixed = math.ceil(discordant / spread)
    series = max(50, min(SERIES, 5_000_000 // fixed))
    rng, times = np.random.default_rng(seed), np.full(series, np.inf)
    for at in range(series):
        drawn = rng.random(LONGEST * fixed)
        d = np.where(drawn < spread * rate, 1.0, np.where(drawn < spread, -1.0, 0.0))
        over = np.flatnonzero(_evidence(d, effect) >= -math.log(alpha))
        times[at] = over[0] + 1 if over.size else np.inf
    most = float(np.quantile(times, power, method="inverted_cdf"))
    return DifferencePlan(fixed, math.ceil(np.minimum(times, most).mean()), math.ceil(most))


def _sign_power(pairs: int, rate: float, alpha: float) -> float:
    """Power of McNemar's exact test on discordant pairs."""
    counts = np.arange(pairs // 2 + 1)
    few = int((2 * scipy.special.bdtr(counts, pairs, 0.5) <= alpha).sum()) - 1
    if few < 0:
        return 0.0
    return float(sum(scipy.special.bdtr(few, pairs, one) for one in (1 - rate, rate)))
