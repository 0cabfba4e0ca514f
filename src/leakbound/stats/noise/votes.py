"""Exact scores of votes: probabilities of what noisy votes exceed. The noise is integrated out.

The statistic is K + N(0, sigma^2) with K an integer. For a noisy histogram count with noise s, K is
the number of votes for the class and sigma = s. The margin "yes minus no" of two noisy counts is
N(yes - no, 2 s^2), so sigma = s sqrt(2). Votes tell nothing of the sampler, so these scores cannot
detect a broken noise source (see `noise_goodness_of_fit`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import MOST, positive, whole
from leakbound._check import count as whole_number
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee, discrete_gaussian_pmf
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.e_process import EProcess
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw, at_most

# Thresholds around both ends of the votes, in noise scales. The canary moves one vote there. The
# best threshold for mu lies near the end. For epsilon at a small delta, it lies up to 4.5 scales
# beyond the end.
SHIFTS = tuple(np.sort([*np.arange(-4.5, 5.0, 0.5), -0.2, 0.2]).tolist())


MOST_VALUES = 20_000  # values of votes that a support lists, in about 30 MB


class KnownScores(Protocol):
    """Scores whose exceedance probabilities are known exactly, and the values a pair can take."""

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds of the score, fixed before any output is seen."""

    def support(self) -> tuple[Floats, Floats] | None:
        """(xs, ys), each (states, K), whose hull has all probabilities; None if any is allowed."""

    def expected(self) -> tuple[Floats, Floats]:
        """(x, y), each (K,): a typical pair, assumed before any data."""


@dataclass(frozen=True, slots=True)
class VoteScores:
    """Exact scores of votes for an e-process: P(value + N(0, sigma^2) > threshold).

    Attributes:
        low: Smallest value before noise.
        high: Largest value before noise.
        sigma: Standard deviation of the noise, in the units of the values, above 0.
        move: Largest difference between the two values of one pair (1 for a count, 2 for a margin)
            if the contexts share every partition that the canary does not touch; None if they do
            not.

    Examples:
        >>> scores = VoteScores.count(partitions=4, sigma=1.0)
        >>> scores.exceedance([0, 1]).shape == (2, scores.thresholds.size)
        True
    """

    low: int
    high: int
    sigma: float
    move: int | None = None

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        for name, value in (("low", self.low), ("high", self.high), ("move", self.move or 0)):
            whole(name, value, -MOST, MOST)
        if self.low >= self.high or (self.move is not None and self.move < 1):
            raise UsageError("vote scores need low < high, and a move that is None or at least 1.")

    @classmethod
    def count(cls, partitions: int, sigma: float, shared: bool = True) -> VoteScores:
        """Scores of the noisy votes for one class.

        Args:
            partitions: Number of partitions T, from 1 to 1e15; the values are 0..T.
            sigma: Standard deviation of the noise, in votes.
            shared: Whether both contexts of a pair share the partitions that the canary does not
                touch.
        """
        return cls(0, whole_number("partitions", partitions, 1), sigma, 1 if shared else None)

    @classmethod
    def margin(cls, partitions: int, sigma: float, shared: bool = True) -> VoteScores:
        """Scores of the noisy votes for one class minus those for another, with values -T..T.

        The arguments are those of `count`; sigma is that of the noise on each count.
        """
        top = whole_number("partitions", partitions, 1)
        return cls(-top, top, sigma * math.sqrt(2), 2 if shared else None)

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds halfway between values and around both ends."""
        step = self.move or 1
        ends = (self.low + step / 2, self.high - step / 2)
        beside = [end + self.sigma * shift for end in ends for shift in SHIFTS]
        inner = np.linspace(*ends, min(9, (self.high - self.low) // step))
        with np.errstate(over="ignore"):
            return np.unique(np.round([*beside, *inner], 9))

    def exceedance(self, values: npt.ArrayLike) -> Floats:
        """P(value + noise > threshold), in the shape of `values` with (K,) appended."""
        with np.errstate(over="ignore"):
            gap = (np.asarray(values, float)[..., None] - self.thresholds) / self.sigma
        return np.asarray(scipy.special.ndtr(gap))

    def support(self) -> tuple[Floats, Floats]:
        """(xs, ys), each (states, K): scores whose convex hull contains those of every pair.

        Payoffs are linear in both scores. If the values of a pair move freely, or are too many to
        list, the four corners determine the smallest gain of a stake. Otherwise each value with its
        largest differences does, because smaller differences lie in between.
        """
        if self.move is None or self.high - self.low > MOST_VALUES:
            ends = np.array([self.low, self.high])
            return self.exceedance(np.repeat(ends, 2)), self.exceedance(np.tile(ends, 2))
        values = np.arange(self.low, self.high + 1)
        least, most = (
            np.clip(values + move, self.low, self.high) for move in (-self.move, self.move)
        )
        x = self.exceedance(values)
        return np.vstack([x, x]), np.vstack([self.exceedance(least), self.exceedance(most)])

    def process(
        self, claim: Guarantee, confidence: float = 0.95, horizon: int | None = None
    ) -> EProcess:
        """An e-process on these scores.

        Its first stakes expect that one partition notices the canary while all others vote against
        it.

        Args:
            claim: Guarantee to be tested.
            horizon: Planned number of pairs; None if it is not known.
        """
        return EProcess(
            claim, confidence, self.support(), expected=self.expected(), horizon=horizon
        )

    def expected(self) -> tuple[Floats, Floats]:
        """(x, y), each (K,): one partition notices the canary while the others vote against it."""
        return self.exceedance(self.low + (self.move or 1)), self.exceedance(self.low)


@dataclass(frozen=True, slots=True)
class DiscreteMargins(VoteScores):
    """Exact scores of the difference of two counts with discrete noise, of which sigma is."""

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds halfway between whole numbers, near those for Gaussian noise."""
        return np.unique(np.floor(VoteScores.thresholds.__get__(self)) + 0.5)

    def exceedance(self, values: npt.ArrayLike) -> Floats:
        noise = discrete_gaussian_pmf(self.sigma / math.sqrt(2))
        mass = np.convolve(noise, noise)
        gap = np.asarray(values, float)[..., None] - self.thresholds
        # noise > -gap; by symmetry, the noise is at most the largest whole number below gap
        return at_most(mass, np.ceil(gap) - 1)


@dataclass(frozen=True, slots=True)
class DiscreteBestVotes(BestVotes):
    """Probabilities that the votes of one class with discrete noise exceed those of all others."""

    def chances(self, histograms: npt.ArrayLike) -> Floats:
        laws = [DiscreteGaussianLaw(row, self.sigma) for row in np.asarray(histograms, float)]
        if self.wins:
            return np.array([[law.win_chance(0)] for law in laws])
        levels = self.thresholds
        return np.stack([law.margin_chances(0, 1.0, levels) for law in laws])
