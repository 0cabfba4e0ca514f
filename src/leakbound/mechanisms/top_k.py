"""The ordered top k of counts, drawn by one exponential mechanism over sequences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def joint_range(k: int) -> float:
    """Range of the change in utilities when one answer is replaced.

    Guarantee:
        Under replace_one, one count may increase by 1 and another decrease by 1. For k = 1 the
        utility of a word is its own count minus that of the best, so the range is 2. For larger k,
        the rank that decides the maximum may change with the sequence, so the range is at most 4.

    Examples:
        >>> joint_range(1), joint_range(3)
        (2.0, 4.0)
    """
    return 2.0 if k == 1 else 4.0


def joint_top_k(
    counts: Floats, k: int, scale: float, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """k distinct indices, drawn with probability proportional to exp(scale u).

    u = -max_i (c_(i) - c_(s_i)), where c_(i) is the i-th largest count. Sequences are grouped by
    their utility -v, where v is one of the k d differences. With n_i(v) words within v of rank i,
    there are prod (n_i(v) - i) sequences of utility -v or better. A Gumbel draw therefore chooses
    v, and a uniform draw chooses a sequence with that utility. Exact, in O(k d log(k d)).

    Guarantee:
        Bounded range of scale * range, where the utilities of neighbours differ by `range`
        (`joint_range` in the units of the counts).

    Reference:
        Gillenwater, Joseph, Munoz and Diaz (ICML 2022), Algorithm 2.
    """
    order = np.argsort(-counts, kind="stable")
    ranked = counts[order]
    # (k, d), each row ascending; values below 0 gain nothing
    gaps = np.maximum(ranked[:k, None] - ranked[None, :], 0.0)
    levels = np.unique(gaps)
    # counted among the same differences
    within = np.array([[np.searchsorted(row, v, side="right") for row in gaps] for v in levels])
    free = np.maximum(within - np.arange(k), 0).astype(float)
    with np.errstate(divide="ignore"):
        better = np.log(free).sum(1)
    fresh = _log_differences(better)
    chosen = int(np.argmax(-scale * levels + fresh + rng.gumbel(size=levels.size)))
    return order[_sequence(within[chosen], within[chosen - 1] if chosen else np.zeros(k, int), rng)]


def _log_differences(better: Floats) -> Floats:
    """ln(n_j - n_{j-1}) from ln n_j in ascending order."""
    below = np.concatenate([[-np.inf], better[:-1]])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(better > below, better + np.log1p(-np.exp(below - better)), -np.inf)


def _sequence(
    within: npt.ArrayLike, before: npt.ArrayLike, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """A uniform sequence of distinct ranks s_i < within_i that does not also fit `before`."""
    top, lower = np.asarray(within, int), np.asarray(before, int)
    while True:
        taken: list[int] = []
        for size in top:
            free = [rank for rank in range(size) if rank not in taken]
            taken.append(int(rng.choice(free)))
        found = np.array(taken, np.int64)
        if np.any(found >= lower):
            return found
