"""Columns that an e-process reads of scores that were served one by one."""

from __future__ import annotations

import numpy as np

from leakbound.estimators.base import PairedScores
from leakbound.stats.arrays import Floats

DIGITS = 9  # outputs that agree to this many decimals count as the same output
MOST_CORRECTED = 12  # number of thresholds for a score minus the last noise


class ServedColumns:
    """Columns of served scores: thresholds show noise of a wrong scale, those without the last
    noise and recurring scores show noise that is reused, or depends on the data."""

    def __init__(self, thresholds: Floats, levels: Floats) -> None:
        self._thresholds = thresholds
        middle = (levels[1:] + levels[:-1]) / 2
        at = np.linspace(0, max(len(middle) - 1, 0), MOST_CORRECTED).round().astype(int)
        self._corrected = middle[np.unique(at)] if middle.size else middle
        self._plain, self._less = _Recalled(), _Recalled()

    def of(self, scores: PairedScores, corrected: PairedScores | None) -> tuple[Floats, Floats]:
        found = [scores.map(lambda one: _above(one, self._thresholds))]
        if self._corrected.size:
            less = corrected or scores.map(lambda one: np.full(len(one), np.nan))
            found.append(less.map(lambda one: _above(one, self._corrected)))
            found += [self._plain.of(scores), self._less.of(less)]
        return np.hstack([one.member for one in found]), np.hstack([one.nonmember for one in found])


class _Recalled:
    """Whether a score was seen before, and in which context more often."""

    def __init__(self) -> None:
        self._seen: dict[float, int] = {}

    def of(self, scores: PairedScores) -> PairedScores:
        """(x, y), each (pairs, 2): 1 if seen more often in the canary-in context, 0 if less."""
        member, nonmember = np.round(scores.member, DIGITS), np.round(scores.nonmember, DIGITS)
        known = np.zeros((2, len(scores)))
        for at, keys in enumerate(zip(member.tolist(), nonmember.tolist(), strict=True)):
            known[:, at] = [self._seen.get(key, 0) for key in keys]
            for key, more in zip(keys, (1, -1), strict=True):
                self._seen[key] = self._seen.get(key, 0) + more
        return PairedScores(*(np.stack([one > 0, one >= 0], 1).astype(float) for one in known))


def _above(scores: Floats, thresholds: Floats) -> Floats:
    """(pairs, thresholds) 0 or 1 for each threshold; one half if the score is not known."""
    known = np.asarray(scores[:, None] >= thresholds, float)
    return np.where(np.isnan(scores)[:, None], 0.5, known)
