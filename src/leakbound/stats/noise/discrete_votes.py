"""Exact probabilities of scores of votes with discrete Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.privacy import discrete_gaussian_pmf
from leakbound.stats.arrays import Floats
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw, at_most
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
