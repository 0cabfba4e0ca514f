"""How many partitions show the canary's text in both contexts of a pair: pure arithmetic.

In a context of T partitions that all vote "no", one vote more does not change the winner. A
guarantee holds for every pair of neighbouring contexts, so an attacker may choose a pair that one
vote decides: the canary's text also stands in k other partitions, in both contexts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats
from leakbound.stats.noise.best_votes import best_chance

LARGEST = 50.0  # epsilon beyond which no number of pairs in use certifies anything
HALVINGS = 40  # of that interval: to 5e-11, finer than contexts differ
STAKES = np.linspace(0.0, 0.99, 67)[1:]  # shares of the largest stake; neighbours differ by 1.5 %


def edge_copies(partitions: int, member_first: bool = True) -> int:
    """Copies with which one vote decides which of two answers has the most votes."""
    if partitions < 1:
        raise UsageError(f"partitions is {partitions}; it must be at least 1.")
    return (partitions - 1) // 2 + (partitions % 2 == 0 and not member_first)


@dataclass(frozen=True, slots=True)
class VoteContexts:
    """Pairs of contexts of T votes: k + 1 votes for a member beside k, and all others against. The
    class with the largest count and Gaussian noise is released."""

    partitions: int
    sigma: float
    classes: int

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        if self.partitions < 1 or self.classes < 2:
            raise UsageError(
                f"there are {self.partitions} partitions and {self.classes} classes; there must be "
                "at least 1 and 2."
            )

    def chances(self) -> tuple[Floats, Floats]:
        """Exact chances that the answer that speaks for a member is released."""
        own = np.arange(self.partitions + 1.0)
        others = np.zeros((own.size, self.classes - 1))
        others[:, 0] = self.partitions - own
        wins = best_chance(own, others, self.sigma, np.zeros(1))[:, 0]
        return wins[1:], wins[:-1]

    def epsilons(self, delta: float) -> Floats:
        """epsilon(delta) of one released answer."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = [
                np.where(x > y + delta, np.log((x - delta) / y), 0.0)
                for x, y in _both(*self.chances())
            ]
        return np.asarray(np.max(found, axis=0))

    def certified(self, delta: float, pairs: int, confidence: float, exact: bool) -> Floats:
        """epsilon that so many such pairs certify, by an e-process with the best constant stake: of
        exact chances the growth of every pair, of single outputs the expected one."""
        level = math.log(1 / (1 - confidence)) / positive("pairs", pairs)
        growth = _exact_growth if exact else _single_growth
        low, high = np.zeros(self.partitions), np.full(self.partitions, LARGEST)
        sides = _both(*self.chances())
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            found = np.max([growth(x, y, np.exp(middle), delta) for x, y in sides], axis=0)
            low, high = np.where(found > level, (middle, high), (low, middle))
        return np.asarray(low)

    def best_copies(
        self, delta: float, pairs: int, confidence: float, exact: bool, member_first: bool = True
    ) -> int:
        """Copies with which so many pairs certify most; for mu, of which all have one, the edge."""
        edge = edge_copies(self.partitions, member_first)
        found = np.round(self.certified(delta, pairs, confidence, exact), 6)
        best = np.flatnonzero(found == found.max())
        return int(best[np.abs(best - edge).argmin()])


def _both(p: Floats, q: Floats) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Both directions of a claim: of the answer, and of all other answers."""
    return (p, q), (1 - q, 1 - p)


def _exact_growth(x: Floats, y: Floats, odds: Floats, delta: float) -> Floats:
    """ln of the factor of each pair. The most to lose is on a pair with chances of 1."""
    gain = x - odds * y - delta
    most = STAKES[-1] / (odds - 1 + delta + 1e-6)
    return np.asarray(np.log1p(np.maximum(most * gain, 0.0)))


def _single_growth(x: Floats, y: Floats, odds: Floats, delta: float) -> Floats:
    """Largest expected ln of a factor over the stakes."""
    stakes = STAKES[:, None] / (odds + delta)
    found = np.zeros((STAKES.size, x.size))
    for one, chance in ((1.0, x), (0.0, 1 - x)):
        for other, at in ((1.0, y), (0.0, 1 - y)):
            found += chance * at * np.log1p(stakes * (one - odds * other - delta))
    return np.asarray(np.maximum(found, 0.0).max(0))
