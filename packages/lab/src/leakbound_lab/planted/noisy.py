"""Defects of mechanisms that add noise or choose at random, each beside its correct reference.

Every function audits one defect: `broken` decides which of the two is built. None of this is a
mechanism that anyone should use; the catalogue of mechanisms never imports it.
"""

from __future__ import annotations

import math

import numpy as np

from leakbound.privacy import (
    ApproxDP,
    Gaussian,
    Guarantee,
    PureDP,
    calibrate_gaussian,
    pure_composition_epsilon,
)
from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.stats.arrays import Floats
from leakbound_lab.planted.auditor import (
    AuditorFinding,
    Fixture,
    Rng,
    by_distribution,
    by_pairs,
    spread,
    worst,
)

DELTA = 1e-5
ROOT2 = math.sqrt(2)
VOTES = (
    np.array([1.0, 9.0]),
    np.array([0.0, 10.0]),
)  # T = 10: the canary's partition says yes, or not


def margins(sigma: float, classes: tuple[bool, bool] = (True, True)) -> object:
    """A release that scores yes less no, with noise on the chosen classes."""

    def release(votes: Floats, draws: int, rng: Rng) -> Floats:
        noise = rng.normal(0.0, sigma, (draws, 2)) * np.asarray(classes, float)
        noisy = votes + noise
        return np.asarray(noisy[:, 0] - noisy[:, 1])

    return release


def _vote_fixture(sigma: float, claim: Guarantee, moved: int = 1) -> Fixture:
    member = np.array([float(moved), 10.0 - moved])
    return Fixture(member, VOTES[1], margins(sigma), claim, spread(-12, -8 + 2 * moved))  # type: ignore[arg-type]


def half_noise(broken: bool, rng: Rng, outputs: int = 100, budget: int = 60) -> AuditorFinding:
    """Half of the declared noise, at ε = 4."""
    sigma = calibrate_gaussian(4, DELTA, ROOT2)
    return by_pairs(
        _vote_fixture(sigma / 2 if broken else sigma, Gaussian(ROOT2, sigma)), rng, budget, outputs
    )


def half_noise_releases_only(broken: bool, rng: Rng) -> AuditorFinding:
    """The same, seeing one output of each context."""
    return half_noise(broken, rng, 1, 600)


def one_class_noise(broken: bool, rng: Rng) -> AuditorFinding:
    """Noise on the first class only: the attacker reads the other count."""
    sigma = calibrate_gaussian(1, DELTA, ROOT2)

    def second_count(votes: Floats, draws: int, rng: Rng) -> Floats:
        return np.asarray(-(votes[1] + rng.normal(0.0, 0.0 if broken else sigma, draws)))

    fixture = Fixture(*VOTES, second_count, Gaussian(ROOT2, sigma), spread(-12, -7))
    return by_pairs(fixture, rng, 60)


def l1_as_l2(broken: bool, rng: Rng) -> AuditorFinding:
    """Sensitivity 1 for the vote histogram in place of sqrt(2), at ε = 1."""
    sigma = calibrate_gaussian(1, DELTA, ROOT2)
    used = calibrate_gaussian(1, DELTA, 1.0) if broken else sigma
    claim = Gaussian(ROOT2, sigma)
    exact = by_distribution(GaussianLaw(VOTES[0], used), GaussianLaw(VOTES[1], used), claim, DELTA)
    pairs = by_pairs(_vote_fixture(used, claim), rng, 400)
    return pairs if exact.rejected else worst((exact, pairs))


def antipodal_embeddings(broken: bool, rng: Rng) -> AuditorFinding:
    """Unit sensitivity for the sum of unit embeddings: two antipodal answers move it by 2."""
    sigma = calibrate_gaussian(2, DELTA, 2.0)
    used = sigma / 2 if broken else sigma
    here, there = np.array([10.0, 0.0]), np.array([8.0, 0.0])
    exact = by_distribution(
        GaussianLaw(here, used), GaussianLaw(there, used), Gaussian(2.0, sigma), DELTA
    )

    def first_axis(mean: Floats, draws: int, rng: Rng) -> Floats:
        return np.asarray(mean[0] + rng.normal(0.0, used, draws))

    pairs = by_pairs(
        Fixture(here, there, first_axis, Gaussian(2.0, sigma), spread(5, 13)), rng, 200
    )
    return worst((exact, pairs))


def monotone_experts(broken: bool, rng: Rng) -> AuditorFinding:
    """Product of experts with lambda = ε/C: replacing an expert moves scores by 2C (2ε)."""
    epsilon, clip = 1.0, 2.0
    rate = epsilon / (clip if broken else 2 * clip)
    others = np.array([0.0, -clip * 6])  # the other experts: the second candidate is dominated
    outputs = [
        _exponential(rate * (others + own))
        for own in (np.array([-clip, 0.0]), np.array([0.0, -clip]))
    ]
    return by_distribution(outputs[0], outputs[1], PureDP(epsilon), 0.0)


def exponential_votes(broken: bool, rng: Rng) -> AuditorFinding:
    """Exponential mechanism on votes with the monotone curve: a moved vote changes two counts."""
    epsilon = 1.0
    rate = epsilon if broken else epsilon / 2
    outputs = [_exponential(rate * np.array(votes)) for votes in ((1.0, 9.0), (0.0, 10.0))]
    return by_distribution(outputs[0], outputs[1], PureDP(epsilon), 0.0)


def _exponential(scores: Floats) -> CategoricalLaw:
    weights = np.exp(scores - scores.max())
    return CategoricalLaw(weights / weights.sum())


def public_seed(broken: bool, rng: Rng) -> AuditorFinding:
    """Amplification by a subsample with a public seed: the attacker asks when the canary is in."""
    base, rate = 2.0, 0.1
    claim = PureDP(math.log1p(rate * math.expm1(base)))
    truth = 1 / (1 + math.exp(-base))

    def release(bit: Floats, draws: int, rng: Rng) -> Floats:
        seen = np.ones(draws, bool) if broken else rng.random(draws) < rate
        says_one = np.where(seen & (bit[0] > 0), truth, 1 - truth)
        return np.asarray(rng.random(draws) < says_one, float)

    return by_pairs(Fixture(np.ones(1), np.zeros(1), release, claim, (0.5,)), rng, 100)


def same_sample(broken: bool, rng: Rng) -> AuditorFinding:
    """One subsample for 200 queries, claimed as 200 fresh ones: all answers may see the canary."""
    queries, base, rate = 200, 0.5, 0.05
    fresh = math.log1p(rate * math.expm1(base))
    claim = ApproxDP(pure_composition_epsilon(fresh, queries, DELTA), DELTA)
    truth = 1 / (1 + math.exp(-base))

    def release(bit: Floats, draws: int, rng: Rng) -> Floats:
        if broken:
            hits = queries * (rng.random(draws) < rate)
        else:
            hits = rng.binomial(queries, rate, draws)
        hits = np.where(bit[0] > 0, hits, 0)
        found = rng.binomial(hits, truth) + rng.binomial(queries - hits, 1 - truth)
        return np.asarray(found, float)

    return by_pairs(Fixture(np.ones(1), np.zeros(1), release, claim, (100.0,)), rng, 1500)


def retry_until(broken: bool, rng: Rng) -> AuditorFinding:
    """Retrying until the answer is not empty conditions it on private text: the loss doubles."""
    epsilon, rare, common = 1.0, 0.002, 0.2
    out = np.array([rare, common, 1 - rare - common])
    into = np.array([rare * math.exp(epsilon), common * math.exp(-epsilon), 0.0])
    into[2] = 1 - into.sum()
    outputs = [CategoricalLaw(p[:2] / p[:2].sum() if broken else p) for p in (into, out)]
    return by_distribution(outputs[0], outputs[1], PureDP(epsilon), 0.0)


def shared_records(broken: bool, rng: Rng) -> AuditorFinding:
    """A record in two partitions (overlap, or sampling with replacement) moves two votes."""
    sigma = calibrate_gaussian(2, DELTA, ROOT2)
    claim = Gaussian(ROOT2, sigma)
    moved = 2 if broken else 1
    member = np.array([float(moved), 10.0 - moved])
    exact = by_distribution(GaussianLaw(member, sigma), GaussianLaw(VOTES[1], sigma), claim, DELTA)
    return worst((exact, by_pairs(_vote_fixture(sigma, claim, moved), rng, 200)))
