"""The anytime-valid road: pairs of releases bet against the promise, one pair after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from contextleak.auditing.release import Trials
from contextleak.privacy import ApproxDP, Gaussian, Guarantee
from contextleak.stats import EProcess, Estimate

__all__ = ["Bet", "promise"]


def promise(claim: ApproxDP, guarantee: Guarantee) -> Guarantee:
    """What is bet against: the mechanism's own Gaussian noise where it has such, which implies the claim; else the claim."""
    return guarantee if isinstance(guarantee, Gaussian) else claim


@dataclass(frozen=True, slots=True)
class Bet:
    """An e-process over thresholds fixed beforehand; scores of a pair are shares of its releases at or above each."""

    claim: ApproxDP
    guarantee: Guarantee
    levels: np.ndarray[tuple[int], np.dtype[np.float64]]
    confidence: float

    def play(self, trials: Trials) -> EProcess:
        """All pairs in order; each world's releases come from the mechanism's own release code."""
        process = EProcess(promise(self.claim, self.guarantee), self.confidence, deltas=(self.claim.delta,))
        for member, nonmember in zip(trials.member, trials.nonmember, strict=True):
            process.update(self._shares(member), self._shares(nonmember))
        return process

    def _shares(
        self, scores: np.ndarray[tuple[int], np.dtype[np.float64]]
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.asarray((scores[:, None] >= self.levels).mean(0), float)

    def estimates(self, trials: Trials) -> list[Estimate]:
        """Lower bounds on epsilon(delta) and on mu, valid at any stopping time, each at the stated confidence."""
        process = self.play(trials)
        return [process.epsilon_lower_bound(self.claim.delta), process.mu_lower_bound(max(self.claim.delta, 1e-12))]

    def ceiling(self, pairs: int) -> tuple[float, float]:
        """(epsilon, mu) that flawless answers would certify with so many pairs."""
        perfect = EProcess(promise(self.claim, self.guarantee), self.confidence, deltas=(self.claim.delta,))
        for _ in range(pairs):
            perfect.update(np.ones(len(self.levels)), np.zeros(len(self.levels)))
        return perfect.epsilon_lower_bound(self.claim.delta).epsilon or 0.0, perfect.mu_lower_bound().mu or 0.0
