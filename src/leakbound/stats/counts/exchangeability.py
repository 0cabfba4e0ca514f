"""Are two samples exchangeable? A test against an excess at the top, and p-values of single values.

Both hold whatever the values depend on, as long as which of them belong to the first sample was
drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from leakbound._check import whole, within
from leakbound.stats.arrays import Bools, Floats, Ints
from leakbound.stats.power import first_number

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
