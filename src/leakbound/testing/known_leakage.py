"""Systems whose leakage is known in closed form, for tests of estimators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from leakbound.estimators import Bounds, Claim, Observations, PairedScores, TrialDesign
from leakbound.estimators.base import DistributionPair
from leakbound.privacy import Gaussian, gdp_epsilon
from leakbound.stats import CategoricalLaw, Fixed, GaussianLaw

DELTA = 1e-5
DRAWS = 10  # simulated outputs of one aggregate
FAR = 1e6  # a score beyond any threshold


class RandomizedResponse:
    """A system that answers truthfully with probability e^epsilon / (1 + e^epsilon)."""

    name = "randomized_response"

    def __init__(self, epsilon: float) -> None:
        self.wrong = 1 / (1 + math.exp(epsilon))

    @property
    def truth(self) -> Bounds:
        """epsilon at `DELTA`, and the least mu for which the system is mu-GDP."""
        right = 1 - self.wrong
        return Bounds(math.log((right - DELTA) / self.wrong), float(2 * ndtri(right)))

    @property
    def pair_truth(self) -> Bounds:
        """The same of one pair: all pairs are alike."""
        return self.truth

    def design(self, pairs: int, confidence: float) -> TrialDesign:
        """A design whose claim is the truth."""
        claim = Claim(self.truth.epsilon, DELTA)
        return TrialDesign(claim, confidence=confidence, pairs=pairs)

    def draw(self, pairs: int, rng: np.random.Generator) -> Observations:
        """Trials of so many pairs."""
        trial, simulated = (
            PairedScores(
                (rng.random((pairs, 1)) >= self.wrong).astype(float),
                (rng.random((pairs, 1)) < self.wrong).astype(float),
            )
            for _ in range(2)
        )
        known = tuple(CategoricalLaw(np.array([p, 1 - p])) for p in (1 - self.wrong, self.wrong))
        return _observations(trial, simulated, None, (known[0], known[1]))


@dataclass(frozen=True)
class GaussianVotes:
    """Votes under Gaussian noise; the canary moves one vote with a known probability."""

    voters: int = 3
    sigma: float = 1.0
    noticed: float = 0.7
    name = "gaussian_votes"

    @cached_property
    def truth(self) -> Bounds:
        """epsilon at `DELTA` and mu, from the noisy margin at every threshold."""
        spread, low = self.sigma * math.sqrt(2), -self.voters
        tau = np.linspace(low - 8 * spread, low + 2 + 8 * spread, 20_001)
        fpr, hit = ndtr((low - tau) / spread), ndtr((low + 2 - tau) / spread)
        tpr = self.noticed * hit + (1 - self.noticed) * fpr
        ratios = [
            np.log(np.maximum(high - DELTA, 1e-300) / less)
            for high, less in ((tpr, fpr), (1 - fpr, 1 - tpr))
        ]
        inside = (fpr > 1e-12) & (tpr < 1 - 1e-12)
        mu = (ndtri(tpr[inside]) - ndtri(fpr[inside])).max()
        return Bounds(max(float(ratio[inside].max()) for ratio in ratios), float(mu))

    @property
    def pair_truth(self) -> Bounds:
        """The same of one pair whose vote moves: what the noise guarantees."""
        mu = math.sqrt(2) / self.sigma
        return Bounds(gdp_epsilon(mu, DELTA), mu)

    def design(self, pairs: int, confidence: float) -> TrialDesign:
        """A design whose claim is what the noise guarantees, which the system satisfies."""
        guarantee = Gaussian(math.sqrt(2), self.sigma)
        return TrialDesign(
            Claim(self.pair_truth.epsilon, DELTA),
            guarantee,
            confidence,
            pairs,
            levels=tuple(np.arange(-self.voters - 2.0, self.voters + 3.0).tolist()),
            rule=Fixed(1.0 - self.voters),
            sigma=self.sigma,
            voters=self.voters,
        )

    def draw(self, pairs: int, rng: np.random.Generator) -> Observations:
        """Trials of so many pairs."""
        against = np.full(pairs, -float(self.voters))
        votes = PairedScores(against + 2 * (rng.random(pairs) < self.noticed), against)
        trial, simulated = (self._noisy(votes, draws, rng) for draws in (1, DRAWS))
        known = (
            GaussianLaw(np.array([1.0, self.voters - 1.0]), self.sigma),
            GaussianLaw(np.array([0.0, float(self.voters)]), self.sigma),
        )
        return _observations(trial, simulated, votes, known)

    def _noisy(self, votes: PairedScores, draws: int, rng: np.random.Generator) -> PairedScores:
        spread, shape = self.sigma * math.sqrt(2), (len(votes), draws)
        member, nonmember = (
            margin[:, None] + rng.normal(0.0, spread, shape)
            for margin in (votes.member, votes.nonmember)
        )
        return PairedScores(member, nonmember)


def _observations(
    trial: PairedScores,
    simulated: PairedScores,
    votes: PairedScores | None,
    known: DistributionPair,
) -> Observations:
    """All parts of some pairs; a text says whether its score is above the middle."""
    said = tuple(
        ("yes" if one > 0.5 else "no", "yes" if other > 0.5 else "no")
        for one, other in zip(trial.member[:, 0], trial.nonmember[:, 0], strict=True)
    )
    pairs = len(trial)
    flat = PairedScores(trial.member[:, 0], trial.nonmember[:, 0])
    return Observations(0, pairs, flat, simulated, votes, (known,) * pairs, said)


def perfect_observations(design: TrialDesign, pairs: int) -> Observations:
    """Pairs in which every output and every vote tells the contexts apart."""
    top = FAR if design.voters is None else float(design.voters)
    edge = FAR * np.ones((pairs, 1))
    votes = PairedScores(np.full(pairs, top), np.full(pairs, -top))
    known = CategoricalLaw(np.array([1.0, 0.0])), CategoricalLaw(np.array([0.0, 1.0]))
    scores = PairedScores(edge, -edge)
    return _observations(scores, scores, votes, known)
