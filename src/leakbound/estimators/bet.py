"""The anytime-valid road: pairs of releases bet against the promise, one pair after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from leakbound.auditing.release import Trials
from leakbound.privacy import ApproxDP, Gaussian, Guarantee
from leakbound.stats import EProcess, Estimate

__all__ = ["Bet", "promise"]

Floats = npt.NDArray[np.float64]
MOST, AUDITS = 4096, 100


def promise(claim: ApproxDP, guarantee: Guarantee) -> Guarantee:
    """What is bet against: the mechanism's own Gaussian noise where it has such, which implies the
    claim; else the claim.
    """
    return guarantee if isinstance(guarantee, Gaussian) else claim


@dataclass(frozen=True, slots=True)
class Bet:
    """An e-process over thresholds fixed beforehand; scores of a pair are shares of its releases at
    or above each.
    """

    claim: ApproxDP
    guarantee: Guarantee
    levels: Floats
    confidence: float
    horizon: int | None = None  # planned pairs, if all of them will be used

    @property
    def promise(self) -> Guarantee:
        """What is bet against."""
        return promise(self.claim, self.guarantee)

    def start(self) -> EProcess:
        """Before the first pair."""
        return EProcess(
            self.promise, self.confidence, deltas=(self.claim.delta,), horizon=self.horizon
        )

    def play(self, trials: Trials, process: EProcess | None = None) -> EProcess:
        """All pairs in order, after those that `process` has seen; the releases come from the
        mechanism's own release code.
        """
        return self._played(self._shares(trials.member), self._shares(trials.nonmember), process)

    def _played(self, x: Floats, y: Floats, process: EProcess | None = None) -> EProcess:
        process = process or self.start()
        if len(x):
            process.extend(x, y)
        return process

    def _shares(self, scores: Floats) -> Floats:
        """(pairs, levels) from (pairs, draws)."""
        return np.stack([(scores >= level).mean(1) for level in self.levels], 1)

    def estimates(self, process: EProcess) -> list[Estimate]:
        """Lower bounds on epsilon(delta) and on mu, valid at any stopping time, each at the stated
        confidence.
        """
        return [
            process.epsilon_lower_bound(self.claim.delta),
            process.mu_lower_bound(max(self.claim.delta, 1e-12)),
        ]

    def broken(self, process: EProcess) -> bool:
        """Do the bounds exceed the promise? They may be read after any pair; the running wealth
        says when it is worth looking.
        """
        if not process.rejected:
            return False
        epsilon, mu = self.estimates(process)
        if isinstance(self.promise, Gaussian):
            return (mu.mu or 0.0) > self.promise.mu
        return (epsilon.epsilon or 0.0) > self.claim.value

    def ceiling(self, pairs: int) -> tuple[float, float]:
        """(epsilon, mu) that flawless answers would certify with so many pairs."""
        epsilon, mu = self.estimates(self._flawless(pairs))
        return epsilon.epsilon or 0.0, mu.mu or 0.0

    def _flawless(self, pairs: int) -> EProcess:
        shape = (pairs, len(self.levels))
        return self._played(np.ones(shape), np.zeros(shape))

    def pairs_to_reject(self) -> int | None:
        """Fewest pairs with which flawless answers refute the promise; None beyond a few thousand."""
        return replace(self, horizon=None)._flawless(MOST).rejected_at

    def power(self, pairs: int, factor: float, seed: int = 0) -> float:
        """Probability that so many pairs refute the promise when the system leaks `factor` times
        what it promises.

        A Gaussian promise: the noise is that much too small and one vote moves in every pair, exact
        chances (0 or 1). Else: the
        best attack on randomised response at factor times epsilon; a share of 100 simulated audits.
        """
        if isinstance(self.promise, Gaussian):
            return float(self._played(*self._noisy(pairs, factor * self.promise.mu)).rejected)
        rng, wrong = (
            np.random.default_rng(seed),
            1 / (1 + math.exp(min(factor * self.claim.value, 700.0))),
        )
        return float(
            np.mean([self._played(*_response(rng, pairs, wrong)).rejected for _ in range(AUDITS)])
        )

    def _noisy(self, pairs: int, mu: float) -> tuple[Floats, Floats]:
        shift = np.array([[mu / 2], [-mu / 2]])
        x, y = ndtr(shift + np.linspace(-1.5, 1.5, len(self.levels)))
        return np.tile(x, (pairs, 1)), np.tile(y, (pairs, 1))


def _response(rng: np.random.Generator, pairs: int, wrong: float) -> tuple[Floats, Floats]:
    x, y = rng.random((pairs, 1)) >= wrong, rng.random((pairs, 1)) < wrong
    return x.astype(float), y.astype(float)
