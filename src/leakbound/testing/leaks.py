"""Defects that release what no noise covers: an event that happens in one context only.

Each stands beside its correct reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from leakbound.privacy import ApproxDP
from leakbound.testing.auditor import AuditorFinding, Fixture, Floats, Rng, by_pairs

CLAIM = ApproxDP(1.0, 1e-5)
NOISE = 1 / CLAIM.value  # Laplace scale of a count at epsilon 1
Release = Callable[[Floats, int, Rng], Floats]


def event(name: str, broken: bool, rng: Rng) -> AuditorFinding:
    """Audit one of EVENTS: the claim is (1, 1e-5); the aggregate is 1 with the canary, else 0."""
    release = EVENTS[name](broken)
    return by_pairs(Fixture(np.ones(1), np.zeros(1), release, CLAIM, (0.5,)), rng, 49, outputs=20)


def propose_test_release(broken: bool) -> Release:
    """Top-2 tokens by count, released if the gap behind the cut is safe; broken: one rank too late.

    Counts 9, 5 + aggregate, 5, 1: a tie at the cut in one context. Score: the second token is the
    released one.
    """

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        counts = np.array([9.0, 5.0 + aggregate[0], 5.5, 1.0])
        ranked = np.sort(counts)[::-1]
        gap = ranked[2] - ranked[3] if broken else ranked[1] - ranked[2]
        passed = gap + rng.laplace(0, NOISE, draws) > 1 + (0.5 if broken else math.log(1e5)) * NOISE
        return np.asarray(passed & (np.argsort(-counts)[1] == 1), float)

    return release


def noisy_inner_count(broken: bool) -> Release:
    """An inner count at epsilon = 10000 that the budget leaves out; correct: it costs epsilon 1."""

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        count = aggregate[0] + rng.laplace(0, 1 / (10_000.0 if broken else CLAIM.value), draws)
        return np.asarray(count >= 0.5, float)

    return release


def ranking(broken: bool) -> Release:
    """Clusters ranked by exact size, sizes differing by one; correct: by noisy sizes, both paid."""

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        scale = 0.0 if broken else 2 * NOISE
        first, second = (
            5 + aggregate[0] + rng.laplace(0, scale, draws),
            5.5 + rng.laplace(0, scale, draws),
        )
        return np.asarray(first > second, float)

    return release


def verbatim(broken: bool) -> Release:
    """A private text leaves as it is (label, keyword domain, fallback); correct: a public one."""

    def release(aggregate: Floats, draws: int, rng: Rng) -> Floats:
        public = ("a public answer", "another one")
        private = "the canary" if aggregate[0] else "a record"
        texts = [private if broken else public[i] for i in rng.integers(0, 2, draws)]
        return np.array([float("canary" in text) for text in texts])

    return release


EVENTS: dict[str, Callable[[bool], Release]] = {
    "ptr-off-by-one": propose_test_release,
    "huge-inner-epsilon": noisy_inner_count,
    "exact-ranking": ranking,
    "private-domain": verbatim,
    "raw-fallback": verbatim,
    "free-text-label": verbatim,
}
