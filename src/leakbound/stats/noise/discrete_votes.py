"""Exact probabilities of scores of votes with discrete Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.privacy import discrete_gaussian_pmf
from leakbound.stats.arrays import Floats
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.stats.noise.votes import VoteScores


@dataclass(frozen=True, slots=True)
class DiscreteMargins(VoteScores):
    """Exact scores of the difference of two counts of votes with discrete noise.

    Construct it with `margin`. `sigma` belongs to the difference: sqrt(2) times that of one count.
    """

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds halfway between whole numbers, near those for Gaussian noise."""
        return np.unique(np.floor(VoteScores.thresholds.__get__(self)) + 0.5)

    def exceedance(self, values: npt.ArrayLike) -> Floats:
        noise = discrete_gaussian_pmf(self.sigma / math.sqrt(2))
        mass = np.convolve(noise, noise)
        gap = np.asarray(values, float)[..., None] - self.thresholds
        # noise > -gap; by symmetry, the noise is at most the largest whole number below gap
        return _at_most(mass, np.ceil(gap) - 1)


@dataclass(frozen=True, slots=True)
class DiscreteBestVotes(BestVotes):
    """Probabilities that the votes of one class with discrete noise exceed those of all others."""

    def chances(self, histograms: npt.ArrayLike) -> Floats:
        laws = [DiscreteGaussianLaw(row, self.sigma) for row in np.asarray(histograms, float)]
        if self.wins:
            return np.array([[discrete_win_chance(law, 0)] for law in laws])
        levels = self.thresholds
        return np.stack([discrete_margin_chances(law, 0, 1.0, levels) for law in laws])


def discrete_difference_chances(
    law: DiscreteGaussianLaw, one: int, other: int, scale: float, levels: Floats
) -> Floats:
    """Exceedance probabilities of the difference of two noisy counts."""
    noise = discrete_gaussian_pmf(law.sigma)
    mass = np.convolve(noise, noise)
    gap = np.arange(mass.size) - mass.size // 2 + law.mean[one] - law.mean[other]
    return np.asarray((scale * gap >= levels[:, None]) @ mass)


def discrete_margin_chances(
    law: DiscreteGaussianLaw, one: int, scale: float, levels: Floats
) -> Floats:
    """Exceedance probabilities of a noisy count minus the largest other one."""
    noise, steps = _noise(law)
    others = np.delete(law.mean, one)
    most = np.floor(law.mean[one] + steps - np.ceil(levels / scale - 1e-9)[:, None])
    below = np.stack([_at_most(noise, most - mean) for mean in others])
    return np.asarray(below.prod(0) @ noise)


def discrete_win_chance(law: DiscreteGaussianLaw, one: int) -> float:
    """Probability that a noisy count is the largest, with ties broken at random.

    Every count gets an independent uniform priority; that of this count is t. Another count loses
    if it is smaller, or equal with a smaller priority. The resulting polynomial in t is integrated
    exactly.
    """
    noise, steps = _noise(law)
    others = np.delete(law.mean, one)
    points, weights = np.polynomial.legendre.leggauss(others.size // 2 + 1)
    priorities, top = (points + 1) / 2, law.mean[one] + steps
    below = np.stack([_at_most(noise, top - 1 - mean) for mean in others])
    even = np.stack([_at_most(noise, top - mean) for mean in others]) - below
    wins = (below[..., None] + even[..., None] * priorities).prod(0)  # (steps, priorities)
    return float(noise @ wins @ weights / 2)


def _noise(law: DiscreteGaussianLaw) -> tuple[Floats, Floats]:
    """Probabilities of the noise, and the whole numbers they belong to."""
    noise = discrete_gaussian_pmf(law.sigma)
    return noise, np.arange(noise.size, dtype=np.float64) - noise.size // 2


def _at_most(noise: Floats, limits: Floats) -> Floats:
    """P(noise <= limit) for whole limits."""
    sums = np.concatenate([[0.0], np.cumsum(noise)])
    places = np.clip(np.rint(limits) + noise.size // 2 + 1, 0, noise.size)
    return np.asarray(np.minimum(sums[places.astype(np.int64)], 1.0))
