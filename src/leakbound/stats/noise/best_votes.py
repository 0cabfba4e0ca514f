"""Exact probabilities that one noisy vote count beats all others, and how one vote changes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats, Ints

# Points of the integral over the noise of the count, in noise scales: the trapezoid rule is exact
# to rounding for smooth functions that vanish at both ends.
NOISE = np.linspace(-9.0, 9.0, 181)
DENSITY = np.exp(-(NOISE**2) / 2) / np.sqrt(2 * np.pi) * (NOISE[1] - NOISE[0])
MOST_STATES = 20_000  # listed pairs of histograms; beyond it any pair of probabilities is allowed
BLOCK = 256  # histograms whose integrals are computed at once


def best_chance(one: Floats, others: Floats, sigma: float, thresholds: Floats) -> Floats:
    """P(one noisy count minus the largest other one >= threshold)."""
    found = np.empty((len(one), thresholds.size))
    for first in range(0, len(one), BLOCK):
        part = slice(first, first + BLOCK)
        gap = (one[part, None] - others[part]) / sigma  # (b, m)
        for at, threshold in enumerate(thresholds):
            below = scipy.special.ndtr(gap[:, :, None] - threshold / sigma + NOISE)
            found[part, at] = below.prod(1) @ DENSITY
    return np.clip(found, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class BestVotes:
    """Probabilities that the noisy votes of one class exceed those of all others by a threshold."""

    partitions: int
    classes: int
    sigma: float
    levels: tuple[float, ...] = (0.0,)
    shared: bool = True
    wins: bool = False

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        if self.partitions < 1 or self.classes < 2 or not self.levels:
            raise UsageError(
                f"there are {self.partitions} votes, {self.classes} classes and "
                f"{len(self.levels)} levels; there must be at least 1, 2 and 1."
            )

    @property
    def thresholds(self) -> Floats:
        return np.full(1, 0.5) if self.wins else np.asarray(self.levels, float)

    def chances(self, histograms: npt.ArrayLike) -> Floats:
        votes = np.asarray(histograms, float)
        margins = np.zeros(1) if self.wins else self.thresholds
        return best_chance(votes[:, 0], votes[:, 1:], self.sigma, margins)

    def expected(self) -> tuple[Floats, Floats]:
        """(x, y), each (K,): one vote for the class and none, if all others agree on another."""
        others = [0] * (self.classes - 2)
        found = self.chances([[1, self.partitions - 1, *others], [0, self.partitions, *others]])
        return found[0], found[1]

    def support(self) -> tuple[Floats, Floats] | None:
        """(xs, ys), each (states, K), of vote counts, or four corners; None if too many."""
        if not self.shared:
            rest = [0] * (self.classes - 1)
            ends = self.chances([[0, self.partitions, *rest[1:]], [self.partitions, *rest]])
            return ends[[0, 0, 1, 1]], ends[[0, 1, 0, 1]]
        moves = _moves(self.partitions, self.classes)
        if moves is None:
            return None
        states, one, other = moves
        chances = self.chances(states)
        return _hull(chances[one], chances[other])


@lru_cache(maxsize=8)
def _moves(partitions: int, classes: int) -> tuple[Ints, Ints, Ints] | None:
    """Histograms, and the indices of all pairs that differ by one moved vote; None if too many."""
    states: list[tuple[int, ...]] = []
    for own in range(partitions + 1):
        for rest in _parts(partitions - own, classes - 1, partitions - own):
            states.append((own, *rest))
            if len(states) * classes > MOST_STATES:
                return None
    at = {state: i for i, state in enumerate(states)}
    found = {
        (at[state], at[(own, *sorted(others, reverse=True))])
        for state in states for own, *others in _move(state)
    }  # fmt: skip
    one, other = np.array(sorted(found), np.int64).T
    return np.array(states, np.int64), one, other


def _parts(total: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Non-increasing whole numbers that sum to `total`, none of them above `most`."""
    if parts == 1:
        if total <= most:
            yield (total,)
        return
    for first in range(min(total, most), -1, -1):
        for rest in _parts(total - first, parts - 1, first):
            yield (first, *rest)


def _move(state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The histogram itself, and those that differ from it by one moved vote."""
    yield state
    for source in range(len(state)):
        for target in range(len(state)):
            if state[source] and source != target:
                moved = list(state)
                moved[source] -= 1
                moved[target] += 1
                yield tuple(moved)


def _hull(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    """For each threshold only the corners of the convex hull: the extremes of linear payoffs."""
    kept = []
    for x, y in zip(xs.T, ys.T, strict=True):  # monotone chain
        order = np.lexsort((y, x)).tolist()
        kept.append([*_chain(order, x, y), *_chain(order[::-1], x, y)])
    longest = max(map(len, kept))
    at = np.array([corners + corners[:1] * (longest - len(corners)) for corners in kept]).T
    return np.take_along_axis(xs, at, 0), np.take_along_axis(ys, at, 0)


def _chain(order: list[int], x: Floats, y: Floats) -> list[int]:
    kept: list[int] = []
    for c in order:
        while len(kept) > 1:
            a, b = kept[-2:]
            if (x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]) >= 0:
                break  # no turn to the right
            kept.pop()
        kept.append(c)
    return kept
