"""True-positive rates at low false-positive rates, with intervals over paired trials."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound._check import within
from leakbound.stats.arrays import Floats


@dataclass(frozen=True, slots=True)
class RateAtFpr:
    """The largest true-positive rate at a false-positive rate of at most `fpr`."""

    fpr: float
    tpr: float
    low: float
    high: float


BLOCKS = 400  # largest number of blocks of pairs that are resampled
RESAMPLES = 1000  # gives the ends of a 95 % interval to about a tenth of its width
RATES = np.geomspace(1e-4, 1.0, 200)  # shares of canary-out scores above the thresholds tried


def rate_at_fpr(
    member: npt.ArrayLike, nonmember: npt.ArrayLike, fpr: float, confidence: float = 0.95
) -> RateAtFpr:
    """The true-positive rate at a low false-positive rate, from scores of paired trials.

    The ends of the interval are percentiles of bootstrap resamples of the paired trials, each at
    the threshold that is best for it, which makes the rate optimistic. It cannot account for
    canary-out scores rarer than one in the number of pairs: at an `fpr` below 1 / pairs it reflects
    only the noise of the outputs at hand, and is [0, 1] if each pair has one output.

    Reference: Carlini et al., "Membership inference attacks from first principles" (IEEE S&P 2022).
    """
    within("fpr", fpr, 0.0, 1.0)
    within("confidence", confidence, 0.0, 1.0)
    above, over = _shares(np.asarray(member, float), np.asarray(nonmember, float))
    tail, blocks = (1 - confidence) / 2, len(above)
    drawn = np.random.default_rng(0).multinomial(blocks, np.full(blocks, 1 / blocks), RESAMPLES)
    found = _best(drawn / blocks @ above, drawn / blocks @ over, fpr)
    (tpr,) = _best(above.mean(0)[None], over.mean(0)[None], fpr)
    low, high = np.quantile(found, [tail, 1 - tail])
    others = np.asarray(nonmember)
    if others.size == len(others) and fpr * others.size < 1:  # too few outputs for such a rate
        low, high = 0.0, 1.0
    return RateAtFpr(fpr, *(round(float(one), 6) for one in (tpr, min(low, tpr), max(high, tpr))))


def _shares(member: Floats, nonmember: Floats) -> tuple[Floats, Floats]:
    """(blocks, thresholds) shares of scores above each threshold, for both contexts."""
    every = np.sort(nonmember.ravel())
    at = np.clip(np.ceil(every.size * (1 - RATES)) - 1, 0, every.size - 1).astype(int)
    levels = np.r_[-math.inf, np.unique(np.r_[every[at], every[-1]])]
    return tuple(
        np.stack(
            [
                1 - np.searchsorted(np.sort(block, axis=None), levels, "right") / block.size
                for block in np.array_split(scores, min(len(scores), BLOCKS))
            ]
        )
        for scores in (member, nonmember)
    )  # type: ignore[return-value]


def _best(above: Floats, over: Floats, fpr: float) -> Floats:
    """(rows,) largest share of members where that of non-members is at most `fpr`."""
    return np.asarray(np.where(over <= fpr + 1e-12, above, 0.0).max(1))
