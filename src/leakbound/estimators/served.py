"""Outputs as they are served: what one output shows, given all that were served before.

A correct mechanism draws fresh noise for every output, so nothing served before a pair says
anything about it. Each column below is a function of one output, chosen from earlier pairs only,
so a claim bounds how far its means in the two contexts may lie apart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leakbound.estimators.base import PairedScores

__all__ = ["ServedColumns"]

Floats = npt.NDArray[np.float64]
DIGITS = 9  # outputs that agree in so many decimals are the same output
MOST_CORRECTED = 24  # thresholds of a score less the last noise: between votes of up to 24 voters


class ServedColumns:
    """Turns served scores into the columns that an e-process reads.

    Plain thresholds see noise of a wrong scale, and noise that is the same for every output. The
    same after the last noise was taken off see noise that is used again. The last column sees
    outputs that come back: noise that depends on the data, or has few values.

    Args:
        thresholds: (K,) thresholds of the score.
        levels: (L,) whole values of the score; one for a score of single answers, which gets the
            plain thresholds alone.
    """

    def __init__(self, thresholds: Floats, levels: Floats) -> None:
        self._thresholds = thresholds
        middle = (levels[1:] + levels[:-1]) / 2
        at = np.linspace(0, max(len(middle) - 1, 0), MOST_CORRECTED).round().astype(int)
        self._corrected = middle[np.unique(at)] if middle.size else middle
        self._seen: dict[float, int] = {}

    @property
    def count(self) -> int:
        """Number of columns."""
        more = self._corrected.size
        return self._thresholds.size + (more + 1 if more else 0)

    def of(self, scores: PairedScores, corrected: PairedScores | None) -> tuple[Floats, Floats]:
        """The columns of the next pairs, in their order.

        Args:
            scores: (pairs,) scores of one output a context.
            corrected: The same, less the noise of the output that was served before the pair.

        Returns:
            (x, y), each (pairs, count) in [0, 1].
        """
        one = [_above(scores.member, self._thresholds), _above(scores.nonmember, self._thresholds)]
        if not self._corrected.size:
            return one[0], one[1]
        less = corrected or PairedScores(scores.member + np.nan, scores.nonmember + np.nan)
        other = [_above(values, self._corrected) for values in (less.member, less.nonmember)]
        again = self._again(scores)
        x, y = (np.hstack([one[i], other[i], again[i][:, None]]) for i in (0, 1))
        return x, y

    def _again(self, scores: PairedScores) -> tuple[Floats, Floats]:
        """1 where earlier canary-in outputs had this score more often, 0 where others had."""
        found = np.full((2, len(scores)), 0.5)
        for at, (member, nonmember) in enumerate(
            zip(scores.member.round(DIGITS), scores.nonmember.round(DIGITS), strict=True)
        ):
            keys = float(member), float(nonmember)
            found[:, at] = [(1 + np.sign(self._seen.get(key, 0))) / 2 for key in keys]
            self._seen[keys[0]] = self._seen.get(keys[0], 0) + 1
            self._seen[keys[1]] = self._seen.get(keys[1], 0) - 1
        return found[0], found[1]


def _above(scores: Floats, thresholds: Floats) -> Floats:
    """(pairs, thresholds); a half where the score is not known."""
    known = np.asarray(scores[:, None] >= thresholds, float)
    return np.where(np.isnan(scores)[:, None], 0.5, known)
