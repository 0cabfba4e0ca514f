"""What an e-process bets: lines of a claim, moments of the past, and from both the next bets. Many
claims at once.

Shapes: C claims, L lines a claim (both directions counted), B moments in time, K thresholds, n
pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt
from scipy.special import softmax

from leakbound.errors import UsageError

__all__ = ["Stakes", "StakeRule", "Lines", "Moments", "rounds"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CAP = 0.99  # never more than this share of the largest admissible bet
BLOCK = 4096  # pairs whose moments or gains are held at once
STRIDE = 16  # neighbouring claims that share a choice of line and threshold
CAUTION = 20.0  # pairs in which noise counts double
DOUBT = 2.0  # standard errors taken off the mean where a horizon is known


def rounds() -> Iterator[int]:
    """Numbers of pairs after which bets change: always at first, then every 8 % more pairs."""
    at = 0
    while True:
        yield at
        at += 1 + at // 12


@dataclass(frozen=True, slots=True)
class Lines:
    """Payoffs z = a + b x + c y that a claim makes non-positive in expectation; `coefficients` is
    (C, L, 3).
    """

    coefficients: Floats

    @staticmethod
    def of(epsilon: Floats, delta: Floats) -> Lines:
        """Both directions of TPR <= e^epsilon FPR + delta; arguments (C, lines)."""
        slope = np.exp(epsilon)
        one = np.stack([-delta, np.ones_like(slope), -slope], -1)
        other = np.stack([1 - slope - delta, slope, -np.ones_like(slope)], -1)
        return Lines(np.concatenate([one, other], 1))

    def squares(self) -> Floats:
        """(C, L, 6): coefficients of z^2 in 1, x, y, x^2, xy, y^2."""
        a, b, c = np.moveaxis(self.coefficients, -1, 0)
        return np.stack([a * a, 2 * a * b, 2 * a * c, b * b, 2 * b * c, c * c], -1)


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums of 1, x, y, x^2, xy, y^2 over pairs: (6, B, K)."""

    sums: Floats

    @staticmethod
    def of(x: Floats, y: Floats) -> Moments:
        """Of each pair alone; x, y: (n, K)."""
        return Moments(np.stack([np.ones_like(x), x, y, x * x, x * y, y * y]))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.sums + other.sums)

    def times(self, weight: float) -> Moments:
        """As if each pair had been seen `weight` times."""
        return Moments(self.sums * weight)

    def total(self) -> Moments:
        """Over all pairs: (6, 1, K)."""
        return Moments(self.sums.sum(1, keepdims=True))

    @staticmethod
    def before(x: Floats, y: Floats, starts: Ints) -> Moments:
        """Sums over the pairs (n, K) before each start:

        (6, len(starts), K). Pairs are added one by one, some blocks after others.
        """
        sums, total = np.empty((6, len(starts), x.shape[1])), np.zeros((6, 1, x.shape[1]))
        for first in range(0, len(x), BLOCK):
            block = slice(first, first + BLOCK)
            path = np.concatenate([total, Moments.of(x[block], y[block]).sums], 1).cumsum(1)
            inside = (starts >= first) & (starts < first + BLOCK)
            sums[:, inside], total = path[:, starts[inside] - first], path[:, -1:]
        return Moments(sums)


@dataclass(frozen=True, slots=True)
class Stakes:
    """Per claim and moment a line and threshold in each direction, its stake multiplied in:

    gain = sum of a + b x + c y.
    """

    stake: Floats  # (C, B, 2, 3)
    threshold: Ints  # (C, B, 2)

    def gains(self, x: Floats, y: Floats, moment: Ints) -> Floats:
        """(C, n) gains of every pair under the bet of its moment."""
        at, row = self.threshold[:, moment], np.arange(len(x))[:, None]
        a, b, c = np.moveaxis(self.stake[:, moment], -1, 0)
        return np.asarray((a + b * x[row, at] + c * y[row, at]).sum(-1))


class StakeRule:
    """The rule of betting: from the moments of the past to a `Stakes`, for C claims at once.

    states: (xs, ys), (S, K) each: what a pair can be. log_prior: (K,) of thresholds. level:
    ln(1/alpha).
    """

    def __init__(
        self,
        lines: Lines,
        states: tuple[Floats, Floats],
        log_prior: Floats,
        level: float,
        horizon: int | None,
    ) -> None:
        self.lines, self.log_prior, self.level, self.horizon = lines, log_prior, level, horizon
        corner = np.stack([np.ones_like(states[0]), *states])  # (3, S, K)
        self.squares = lines.squares()
        self.worst = np.tensordot(lines.coefficients, corner, 1).min(
            2
        )  # (C, L, K): the least a stake of 1 can gain
        self.largest = 1 / np.maximum(-self.worst, 1e-6)

    def check(self, x: Floats, y: Floats) -> None:
        """Raises UsageError for a pair that could cost more than the stake allows for."""
        for first in range(0, len(x), BLOCK):
            part, other = x[first : first + BLOCK], y[first : first + BLOCK]
            each = np.tensordot(
                self.lines.coefficients, np.stack([np.ones_like(part), part, other]), 1
            )  # (C, L, n, K)
            if np.any(each < self.worst[:, :, None] - 1e-9):
                raise UsageError(
                    "a pair of scores lies outside the stated support; give the right support, or "
                    "none."
                )

    def choose(self, past: Moments, seen: Ints) -> Stakes:
        """The best line and threshold so far in each direction, and their stakes. seen: (B,) pairs
        before each moment.

        The stake is divided between the directions by how much growth each lets expect: evenly
        while nothing tells them
        apart, so the first miss costs half of it, and soon almost all on the better one.
        Neighbouring claims of a grid
        share the choice that is best for one of them; each has its own stake.
        """
        line, at, part = (
            np.repeat(v, STRIDE, 0)[: len(self.largest)] for v in self._favourites(past, seen)
        )
        claim = np.arange(len(self.largest))[:, None, None]
        coefficients, squares = (
            self.lines.coefficients[claim, line],
            self.squares[claim, line],
        )  # (C, B, 2, 3 or 6)
        sums = np.moveaxis(past.sums[:, np.arange(len(seen))[:, None], at], 0, -1)  # (C, B, 2, 6)
        total = sums[..., 0]
        mean = (coefficients * sums[..., :3]).sum(-1) / total
        square = (squares * sums).sum(-1) / total
        stake, _ = self._stake(mean, square, total, seen[:, None], self.largest[claim, line, at])
        return Stakes((part * stake)[..., None] * coefficients, np.asarray(at, np.int64))

    def _favourites(self, past: Moments, seen: Ints) -> tuple[Ints, Ints, Floats]:
        """(C / STRIDE, B, 2) line, threshold and part of the stake with the largest growth that the
        past lets expect.
        """
        moments = past.sums / past.sums[0]
        mean = np.tensordot(self.lines.coefficients[::STRIDE], moments[:3], 1).transpose(
            0, 2, 1, 3
        )  # (C', B, L, K)
        square = np.tensordot(self.squares[::STRIDE], moments, 1).transpose(0, 2, 1, 3)
        total, largest = past.sums[0][None, :, None, :], self.largest[::STRIDE, None]
        _, growth = self._stake(mean, square, total, seen[:, None, None], largest)
        growth = total * growth + self.log_prior
        growth = growth.reshape(*growth.shape[:2], 2, -1)  # (C', B, 2, L K / 2)
        best = growth.argmax(-1)
        line, at = np.divmod(best, past.sums.shape[2])
        first = np.array([0, growth.shape[-1] // past.sums.shape[2]], np.int64)
        return line + first, np.asarray(at, np.int64), np.asarray(softmax(growth.max(-1), -1))

    def _stake(
        self, mean: Floats, square: Floats, total: Floats, seen: Ints, largest: Floats
    ) -> tuple[Floats, Floats]:
        """Kelly's share to second order, shrunk while little is known, and its expected growth; 0
        where the past speaks against.

        With a horizon N: at least sqrt(2 ln(1/alpha)/(N variance)), the best share for a claim that
        N pairs just refute
        (Waudby-Smith and Ramdas 2023), and Kelly's share of a mean cut by its doubt. The largest
        admissible stake is
        approached as pairs come in.
        """
        variance, square = np.maximum(square - mean**2, 1e-12), np.maximum(square, 1e-12)
        if self.horizon is None:
            share = mean / (square + CAUTION / total * variance)
        else:
            aim = np.sqrt(2 * self.level / (np.maximum(self.horizon, seen + 1) * variance))
            share = np.maximum(aim, (mean - DOUBT * np.sqrt(variance / total)) / square)
        share = np.minimum(share, np.minimum(CAP, 1 - (seen + 2.0) ** -1.5) * largest)
        stake = np.where(mean > 0, np.maximum(share, 0.0), 0.0)
        return stake, stake * (mean - stake * square / 2)

    def play(self, x: Floats, y: Floats, prior: Moments) -> Floats:
        """(C,) largest log wealth that each claim's bets ever reached on pairs (n, K)."""
        starts = np.fromiter(takewhile(lambda at: at < len(x), rounds()), np.int64)
        bet = self.choose(Moments.before(x, y, starts) + prior, starts)
        moment = np.searchsorted(starts, np.arange(len(x)), side="right") - 1
        now, best = np.zeros(len(self.largest)), np.full(len(self.largest), -np.inf)
        for first in range(0, len(x), BLOCK):
            block = slice(first, first + BLOCK)
            gains = np.log1p(bet.gains(x[block], y[block], moment[block]))
            gains[:, 0] += now
            path = gains.cumsum(1)
            now, best = path[:, -1], np.maximum(best, path.max(1))
        return best
