"""Simulated audits of votes under Gaussian noise whose leakage is known.

The canary's partition says yes with probability a (canary in) or b (canary out), every other one
with probability b, and is the same in both contexts of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

import numpy as np
from coverage_cells import Found, Rng, Setting, Truth
from scipy.special import ndtr, ndtri
from vote_audits import default_audit, design, observed

from leakbound.privacy import Gaussian
from leakbound.stats import (
    EProcess,
    accuracy_bound,
    bonferroni,
    clopper_pearson,
    gdp,
)
from leakbound.stats.counts.unconditional import unconditional, unconditional_mu

SCENES = ((1.0, 0.0), (0.9, 0.02), (0.6, 0.1), (0.1, 0.1))
NOISE = (0.3, 0.6, 1.2, 1.7)  # mu of one vote
HARD_SCENES = ((1.0, 0.0), (0.9, 0.02), (0.2, 0.2))


@dataclass(frozen=True, eq=False)
class Votes:
    """Votes and one noisy output of every context of one audit."""

    member: np.ndarray
    nonmember: np.ndarray
    noisy_member: np.ndarray
    noisy_nonmember: np.ndarray

    def cells(self, tau: float = 0.5) -> tuple[int, int, int, int]:
        tp, fp = int((self.noisy_member >= tau).sum()), int((self.noisy_nonmember >= tau).sum())
        return tp, len(self.member) - tp, fp, len(self.member) - fp


@dataclass(frozen=True)
class VoteScene:
    """Votes of `partitions`, noise that guarantees `mu` for one of them."""

    partitions: int
    pairs: int
    delta: float
    a: float
    b: float
    mu: float

    @property
    def name(self) -> str:
        return f"T = {self.partitions}, ({self.a:g}, {self.b:g}), μ = {self.mu:g}"

    @cached_property
    def truth(self) -> Truth:
        """What the best threshold on the noisy count shows."""
        others = np.array([1.0])
        for _ in range(self.partitions - 1):
            others = np.convolve(others, [1 - self.b, self.b])
        tau = np.linspace(-6 / self.mu, self.partitions + 6 / self.mu, 40_001)
        above = ndtr((np.arange(self.partitions + 1)[:, None] - tau) * self.mu)
        tpr, fpr = (np.convolve(others, [1 - p, p]) @ above for p in (self.a, self.b))
        return shown(tpr, fpr, self.delta)

    def draw(self, rng: Rng) -> Votes:
        crowd = rng.binomial(self.partitions - 1, self.b, self.pairs)
        member, nonmember = (crowd + (rng.random(self.pairs) < p) for p in (self.a, self.b))
        noise = rng.normal(0, 1 / self.mu, (2, self.pairs))
        return Votes(member, nonmember, member + noise[0], nonmember + noise[1])

    def default(self, votes: Votes, rng: Rng, early: bool) -> Found:
        """The default estimator, with all its parts."""
        known = design(self.partitions, self.mu, self.pairs, self.delta, early_stop=early)
        margins = 2 * votes.member - self.partitions, 2 * votes.nonmember - self.partitions
        observer = default_audit(known)
        observer.observe(observed(known, 0, *margins, rng))
        epsilon, mu = observer.bounds()
        return {"e_process eps": epsilon.epsilon or 0.0, "e_process mu": mu.mu or 0.0}

    def counted(self, votes: Votes) -> Found:
        """Bounds from one output of each context."""
        tp, _, _, tn = cells = votes.cells()
        tried = bonferroni(
            gdp, votes.noisy_member, votes.noisy_nonmember, (-0.5, 0.5, 1.5), self.delta
        )
        right = accuracy_bound(tp + tn, 2 * self.pairs, self.delta)
        return {
            "clopper_pearson eps": clopper_pearson(*cells, self.delta).epsilon or 0.0,
            "accuracy_bound eps": right.epsilon or 0.0,
            "gdp mu": gdp(*cells, self.delta).mu or 0.0,
            "gdp, bonferroni mu": tried.mu or 0.0,
        }

    def outputs(self, votes: Votes) -> Found:
        """The e-process on one output of each context: no votes, no output distribution."""
        tau = 0.5 + np.array([-1.0, 0.0, 1.0]) / self.mu
        process = EProcess(Gaussian(self.mu, 1.0), horizon=self.pairs)
        process.extend(votes.noisy_member[:, None] >= tau, votes.noisy_nonmember[:, None] >= tau)
        return {"e_process, outputs mu": process.mu_lower_bound(self.delta).mu or 0.0}

    def exact_tests(self, votes: Votes) -> Found:
        """Exact unconditional tests of one output of each context."""
        return {
            "unconditional eps": unconditional_bound(*votes.cells(), self.delta),
            "unconditional mu": unconditional_mu(*votes.cells(), self.delta).mu or 0.0,
        }

    def fast(self, rng: Rng, index: int) -> Found:
        votes = self.draw(rng)
        return {**self.counted(votes), **self.outputs(votes)}

    def slow(self, rng: Rng, index: int) -> Found:
        votes = self.draw(rng)
        return {**self.exact_tests(votes), **self.default(votes, rng, early=False)}

    def hard(self, rng: Rng, index: int) -> Found:
        votes = self.draw(rng)
        return self.default(votes, rng, early=bool(index % 2))


def unconditional_bound(tp: int, fn: int, fp: int, tn: int, delta: float) -> float:
    return unconditional(tp, fn, fp, tn, delta).epsilon or 0.0


def shown(tpr: np.ndarray, fpr: np.ndarray, delta: float) -> Truth:
    """What the best of some thresholds shows, in either direction."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [
            np.log(np.maximum(high - delta, 1e-300) / low)
            for high, low in ((tpr, fpr), (1 - fpr, 1 - tpr), (fpr, tpr), (1 - tpr, 1 - fpr))
        ]
    inside = (np.minimum(tpr, fpr) > 1e-12) & (np.maximum(tpr, fpr) < 1 - 1e-12)
    if not inside.any():
        return Truth(0.0, 0.0)
    mu = float(np.abs(ndtri(tpr[inside]) - ndtri(fpr[inside])).max())
    return Truth(max(0.0, *(float(log[inside].max()) for log in logs)), mu)


def tight(audits: int, slow: int) -> Iterator[Setting]:
    """200 pairs of T = 4 partitions: where bounds should be tight."""
    for (a, b), mu in product(SCENES, NOISE):
        scene = VoteScene(4, 200, 1e-5, a, b, mu)
        name = f"{a:g} {b:g} {mu:g}"
        given = partial(Setting, "tight", name, 200, 1e-5, scene.truth)
        yield given(audits, scene.fast)
        yield given(slow, scene.slow)


def hard(audits: int) -> Iterator[Setting]:
    """Few pairs, few and many partitions, a small and a large delta."""
    for t, n, (a, b), mu, delta in product(
        (2, 10, 40), (5, 50), HARD_SCENES, (0.3, 1.7), (1e-5, 0.1)
    ):
        scene = VoteScene(t, n, delta, a, b, mu)
        if math.isfinite(scene.truth.epsilon):
            yield Setting("votes, T 2 to 40", scene.name, n, delta, scene.truth, audits, scene.hard)
