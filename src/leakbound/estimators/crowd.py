"""Simulated pairs for power: a leak, and a model that misses canaries and raises false alarms.

A scene draws the scores of many pairs at once. Two kinds are enough: a system that says yes or no
once per context, and partitions whose votes get too little noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from leakbound.estimators.base import TrialDesign
from leakbound.stats import Assumption, VoteScores
from leakbound.stats.noise.best_votes import BestVotes, best_chance
from leakbound.stats.power import Leak

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
FEW = 15  # thresholds for outputs; enough to detect noise that is not as declared
MANY = 200  # simulated outputs whose share replaces a probability, with an error of at most 0.035


class ImaginedPairs(Protocol):
    """Scores of the pairs of simulated audits. Equal scenes draw equal pairs."""

    def __hash__(self) -> int: ...

    @property
    def leak(self) -> Leak:
        """How the system leaks."""

    @property
    def columns(self) -> int:
        """Number of thresholds."""

    @property
    def certain(self) -> bool:
        """Whether all pairs are the same. One audit then represents all."""

    def draw(self, audits: int, pairs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the scores of some pairs."""


@dataclass(frozen=True, slots=True)
class YesNo:
    """One answer per context, yes or no."""

    tpr: float
    fpr: float
    leak: Leak = "randomised_response"

    @classmethod
    def noisy(cls, mu: float, assumption: Assumption) -> YesNo:
        """A `YesNo` whose answer says on which side of the middle a noisy score lies."""
        return cls(*assumption.seen_through(float(ndtr(-mu / 2))), leak="noisy_answer")

    @property
    def columns(self) -> int:
        """One threshold."""
        return 1

    @property
    def certain(self) -> bool:
        """Whether both answers are certain."""
        return {self.tpr, self.fpr} <= {0.0, 1.0}

    def draw(self, audits: int, pairs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the scores of some pairs. Both contexts answer independently."""
        shape = (audits, pairs, 1)
        return (rng.random(shape) < self.tpr).astype(float), (rng.random(shape) < self.fpr).astype(
            float
        )


@dataclass(frozen=True, slots=True)
class Crowd:
    """Votes of partitions with noise that is smaller than declared.

    One partition contains the canary in the canary-in context only. Some contain it in both
    contexts, and all others in neither. A partition with the canary votes for it with probability
    `hit`, any other with probability `false_alarm`.
    """

    partitions: int
    copies: int
    assumption: Assumption
    shared: bool
    chances: tuple[tuple[float, ...], ...]
    draws: int
    leak: Leak = "small_noise"

    @classmethod
    def of(cls, design: TrialDesign, leak: float) -> Crowd | None:
        """The crowd for a design whose guarantee is Gaussian.

        With embeddings, keywords or generated texts, it is not known beforehand how far one
        partition moves the output. Only votes therefore make a crowd.
        """
        partitions, known = design.voters or 1, design.known
        if isinstance(known, BestVotes):
            chances, shared = _winning(known, leak), known.shared
        elif isinstance(known, VoteScores):
            chances, shared = _counted(known, partitions, leak), known.move is not None
        else:
            return None
        copies = min(design.copies, partitions - 1)
        return cls(partitions, copies, design.assumption, shared, chances, design.draws)

    @property
    def columns(self) -> int:
        """Number of thresholds of the score."""
        return len(self.chances[0])

    @property
    def certain(self) -> bool:
        """Whether every vote is certain and shares of outputs are as good as probabilities."""
        rates = {self.assumption.hit, self.assumption.false_alarm}
        return rates <= {0.0, 1.0} and self.draws >= MANY

    def draw(self, audits: int, pairs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw the scores of some pairs."""
        shape, hit, alarm = (audits, pairs), self.assumption.hit, self.assumption.false_alarm
        others = self._others(shape, rng)
        member = others + (rng.random(shape) < hit)
        again = others if self.shared else self._others(shape, rng)
        nonmember = again + (rng.random(shape) < alarm)
        table = np.array(self.chances)
        return self._released(table[member], rng), self._released(table[nonmember], rng)

    def _others(self, shape: tuple[int, int], rng: np.random.Generator) -> Ints:
        """Votes of the partitions that are the same in both contexts."""
        rest = self.partitions - 1 - self.copies
        copied = rng.binomial(self.copies, self.assumption.hit, shape)
        return np.asarray(copied + rng.binomial(rest, self.assumption.false_alarm, shape), np.int64)

    def _released(self, chances: Floats, rng: np.random.Generator) -> Floats:
        if self.draws >= MANY:
            return chances
        if self.draws == 1:  # one output exceeds all thresholds below it
            return (rng.random(chances.shape[:2])[..., None] < chances).astype(float)
        return np.asarray(rng.binomial(self.draws, chances) / self.draws)


def thinned(thresholds: Floats) -> Floats:
    """At most `FEW` evenly spaced thresholds out of many."""
    at = np.linspace(0, thresholds.size - 1, min(FEW, thresholds.size)).round().astype(int)
    return np.asarray(thresholds[at])


@lru_cache(maxsize=64)
def _counted(known: VoteScores, partitions: int, leak: float) -> tuple[tuple[float, ...], ...]:
    """Probabilities by number of votes, from the lowest score (votes for, or margin) up."""
    values = np.linspace(known.low, known.high, partitions + 1)
    gaps = values[:, None] - thinned(known.thresholds)
    return _rows(ndtr(gaps * leak / known.sigma))


@lru_cache(maxsize=64)
def _winning(known: BestVotes, leak: float) -> tuple[tuple[float, ...], ...]:
    """Probabilities of votes for minus those for another answer, on which all others agree."""
    votes = np.arange(known.partitions + 1.0)
    others = np.zeros((votes.size, known.classes - 1))
    others[:, 0] = known.partitions - votes
    levels = np.zeros(1) if known.wins else thinned(known.thresholds)
    return _rows(best_chance(votes, others, known.sigma / leak, levels))


def _rows(chances: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, chances.tolist()))
