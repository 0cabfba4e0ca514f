"""How an e-process chooses its stakes, from the lines of a claim and the moments of past pairs.

An e-process tests a claim by a game. Before each pair it puts a stake on a payoff whose
expectation is at most 0 under the claim. This module holds the payoffs and the rule for the stakes,
for many claims at once.

Shapes: C claims, L lines per claim (both directions counted), B points in time, K thresholds,
n pairs.

Reference: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting"
(JRSS B 2024).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, repeat, takewhile

import numpy as np
import scipy

from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats, Ints

BLOCK = 4096  # pairs whose moments or gains are held at once; bounds memory at about 100 MB


def restake_points() -> Iterator[int]:
    """Numbers of pairs after which stakes change: after every pair at first, then every 8 %."""
    return accumulate(repeat(12), lambda at, part: at + 1 + at // part, initial=0)  # 1 / 8 %


def restakes_before(pairs: int) -> Ints:
    return np.fromiter(takewhile(lambda at: at < pairs, restake_points()), np.int64)


@dataclass(frozen=True, slots=True)
class Lines:
    """Payoffs z = a + b x + c y whose expectation is at most 0 under a claim."""

    coefficients: Floats

    @staticmethod
    def of(epsilon: Floats, delta: Floats) -> Lines:
        """Both directions of TPR <= e^epsilon FPR + delta."""
        slope = np.exp(epsilon)
        one = np.stack([-delta, np.ones_like(slope), -slope], -1)
        other = np.stack([1 - slope - delta, slope, -np.ones_like(slope)], -1)
        return Lines(np.concatenate([one, other], 1))

    def squares(self) -> Floats:
        """(C, L, 6) coefficients of z^2 in 1, x, y, x^2, xy, y^2."""
        a, b, c = np.moveaxis(self.coefficients, -1, 0)
        return np.stack([a * a, 2 * a * b, 2 * a * c, b * b, 2 * b * c, c * c], -1)


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums of 1, x, y, x^2, xy and y^2 over pairs."""

    sums: Floats

    @staticmethod
    def of(x: Floats, y: Floats) -> Moments:
        return Moments(np.stack([np.ones_like(x), x, y, x * x, x * y, y * y]))

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.sums + other.sums)

    def times(self, weight: float) -> Moments:
        """The moments as if each pair had been seen several times."""
        return Moments(self.sums * weight)

    def total(self) -> Moments:
        return Moments(self.sums.sum(1, keepdims=True))

    @staticmethod
    def before(x: Floats, y: Floats, starts: Ints) -> Moments:
        """Moments of the pairs before each start, added one by one, whatever the blocks are."""
        sums, total = np.empty((6, len(starts), x.shape[1])), np.zeros((6, 1, x.shape[1]))
        for first in range(0, len(x), BLOCK):
            block = slice(first, first + BLOCK)
            path = np.concatenate([total, Moments.of(x[block], y[block]).sums], 1).cumsum(1)
            inside = (starts >= first) & (starts < first + BLOCK)
            sums[:, inside], total = path[:, starts[inside] - first], path[:, -1:]
        return Moments(sums)


@dataclass(frozen=True, slots=True)
class Stakes:
    """For each claim and point in time, one line and one threshold in each direction."""

    payoff: Floats
    threshold: Ints

    def gains(self, x: Floats, y: Floats, moment: Ints) -> Floats:
        """Gain of every pair. The e-value is multiplied by 1 + gain."""
        at, row = self.threshold[:, moment], np.arange(len(x))[:, None]
        a, b, c = np.moveaxis(self.payoff[:, moment], -1, 0)
        return np.asarray((a + b * x[row, at] + c * y[row, at]).sum(-1))

    def growth(self, x: Floats, y: Floats, moment: Ints) -> Floats:
        gains = self.gains(x, y, moment)
        if not bool((gains > -1).all()):
            raise ArithmeticError(
                "a pair would make the e-value zero or negative: it lies outside the support that "
                "the stakes were chosen for."
            )
        return np.asarray(np.log1p(gains))


CAP = 0.99  # largest share of the admissible stake; at 1, a single loss would end the test for good
STRIDE = 16  # neighbouring claims of a grid (1 % apart) that share a choice of line and threshold
CAUTION = 20.0  # number of pairs at which the variance counts double; keeps early stakes small
DOUBT = 2.0  # standard errors subtracted from the mean if the number of pairs is known in advance
TINY = 1e-12  # least variance, so that constant scores do not divide by zero


class StakeRule:
    """The rule that turns the moments of the past into `Stakes`, for C claims at once."""

    def __init__(
        self, lines: Lines, states: tuple[Floats, Floats], level: float, horizon: int | None
    ) -> None:
        self.lines, self.level, self.horizon = lines, level, horizon
        corner = np.stack([np.ones_like(states[0]), *states])  # (3, S, K)
        self.squares = lines.squares()
        self.least_payoff = np.tensordot(lines.coefficients, corner, 1).min(2)
        # a line that cannot lose more than 1e-6 is practically free; a stake of 1e6 is enough
        self.largest_stake = 1 / np.maximum(-self.least_payoff, 1e-6)

    def check(self, x: Floats, y: Floats) -> None:
        """Reject pairs that could lose more than the stakes allow for."""
        for first in range(0, len(x), BLOCK):
            part, other = x[first : first + BLOCK], y[first : first + BLOCK]
            each = np.tensordot(
                self.lines.coefficients, np.stack([np.ones_like(part), part, other]), 1
            )  # (C, L, n, K)
            if np.any(each < self.least_payoff[:, :, None] - 1e-9):  # rounding of exact scores
                raise UsageError(
                    "a pair of scores lies outside the stated support; give the right support, or "
                    "none."
                )

    def choose(self, past: Moments, seen: Ints) -> Stakes:
        """The best line and threshold so far in each direction, and their stakes.

        The stake is divided between the directions by the growth that past pairs lead to expect.
        It is divided evenly as long as the directions look alike, so the first loss costs half of
        it. Soon almost all of it is on the better direction. Neighbouring claims of a grid share
        the choice that is best for one of them, but each has its own stake.
        """
        line, at, part = (
            np.repeat(v, STRIDE, 0)[: len(self.largest_stake)] for v in self._best(past, seen)
        )
        claim = np.arange(len(self.largest_stake))[:, None, None]
        coefficients = self.lines.coefficients[claim, line]  # (C, B, 2, 3)
        squares = self.squares[claim, line]  # (C, B, 2, 6)
        sums = np.moveaxis(past.sums[:, np.arange(len(seen))[:, None], at], 0, -1)  # (C, B, 2, 6)
        total = sums[..., 0]
        mean = (coefficients * sums[..., :3]).sum(-1) / total
        square = (squares * sums).sum(-1) / total
        largest = self.largest_stake[claim, line, at]
        stake, _ = self._stake(mean, square, total, seen[:, None], largest)
        return Stakes((part * stake)[..., None] * coefficients, np.asarray(at, np.int64))

    def _best(self, past: Moments, seen: Ints) -> tuple[Ints, Ints, Floats]:
        """(C / STRIDE, B, 2) line, threshold and share of the stake with the largest growth."""
        moments = past.sums / past.sums[0]
        mean = np.tensordot(self.lines.coefficients[::STRIDE], moments[:3], 1).transpose(
            0, 2, 1, 3
        )  # (C', B, L, K)
        square = np.tensordot(self.squares[::STRIDE], moments, 1).transpose(0, 2, 1, 3)
        total, largest = past.sums[0][None, :, None, :], self.largest_stake[::STRIDE, None]
        _, growth = self._stake(mean, square, total, seen[:, None, None], largest)
        growth = (total * growth).reshape(*growth.shape[:2], 2, -1)  # (C', B, 2, L K / 2)
        best = growth.argmax(-1)
        line, at = np.divmod(best, past.sums.shape[2])
        first = np.array([0, growth.shape[-1] // past.sums.shape[2]], np.int64)
        return (
            line + first,
            np.asarray(at, np.int64),
            np.asarray(scipy.special.softmax(growth.max(-1), -1)),
        )

    def _stake(
        self, mean: Floats, square: Floats, total: Floats, seen: Ints, largest: Floats
    ) -> tuple[Floats, Floats]:
        """Kelly stake to second order and its expected growth; 0 if the past mean is not positive.

        The stake is shrunk while there are few pairs. With a horizon N it is the larger of
        sqrt(2 ln(1/alpha)/(N variance)), the best stake for a claim that N pairs just reject, and
        the Kelly stake for the mean minus `DOUBT` standard errors. The cap approaches the largest
        admissible stake as pairs come in.
        """
        variance, square = np.maximum(square - mean**2, TINY), np.maximum(square, TINY)
        if self.horizon is None:
            share = mean / (square + CAUTION / total * variance)
        else:
            aim = np.sqrt(2 * self.level / (np.maximum(self.horizon, seen + 1) * variance))
            share = np.maximum(aim, (mean - DOUBT * np.sqrt(variance / total)) / square)
        share = np.minimum(share, np.minimum(CAP, 1 - (seen + 2.0) ** -1.5) * largest)
        stake = np.where(mean > 0, share, 0.0)
        return stake, stake * (mean - stake * square / 2)

    def log_e_values(self, x: Floats, y: Floats, prior: Moments) -> Floats:
        starts = restakes_before(len(x))
        stakes = self.choose(Moments.before(x, y, starts) + prior, starts)
        moment = np.searchsorted(starts, np.arange(len(x)), side="right") - 1
        path = np.empty((len(self.largest_stake), len(x)))
        for first in range(0, len(x), BLOCK):
            block = slice(first, first + BLOCK)
            path[:, block] = stakes.growth(x[block], y[block], moment[block])
        return np.asarray(path.cumsum(1))
