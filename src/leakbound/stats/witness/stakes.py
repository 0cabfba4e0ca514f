"""How the stake is divided among witnesses, from what they showed on earlier pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
# added to the claimed epsilon in the weights; otherwise witnesses at its edge would get the stake
STRICTER = 0.25
# exponent of a witness's past payoff in its weight, about that of the likelihood ratio of a channel
# that is on in .3 of replies against .1
SHARPNESS = 0.7
# log odds that lower the confidence: even with a clear leader, the rest is noise in about one of
# three cases, in simulated systems that all leak; this affects only the size of early stakes
DOUBT = math.log(0.4)


class Record:
    """What the witnesses of one panel showed on the pairs so far."""

    def __init__(self, past: Bools, capacity: int) -> None:
        self._rows = np.zeros((2 * capacity, past.shape[1]), np.float32)
        self._rows[: len(past)] = past
        self.pairs = len(past) // 2
        x, y = past[0::2], past[1::2]
        self.only_in = (x & ~y).sum(0).astype(float)
        self.only_out = (~x & y).sum(0).astype(float)
        self.both = (x & y).sum(0).astype(float)

    def add(self, x: Bools, y: Bools) -> None:
        """Add the next pair."""
        self._rows[2 * self.pairs : 2 * self.pairs + 2] = x, y
        self.only_in += x & ~y
        self.only_out += ~x & y
        self.both += x & y
        self.pairs += 1

    def gains(self, epsilon: float) -> Floats:
        """Sum of past payoffs x - e^epsilon y of each witness and direction."""
        odds = math.exp(epsilon)
        neither = self.pairs - self.only_in - self.only_out - self.both
        here, there = self.only_in - odds * self.only_out, self.only_out - odds * self.only_in
        on, off = (odds - 1) * self.both, (odds - 1) * neither
        return np.stack([here - on, there - on, there - off, here - off], 1)

    def shares(self, witness: int) -> tuple[float, float]:
        """Share of canary-in and of canary-out replies on which a witness is 1."""
        both, pairs = self.both[witness], max(self.pairs, 1)
        return (
            float(self.only_in[witness] + both) / pairs,
            float(self.only_out[witness] + both) / pairs,
        )

    def likeness(self, witness: int) -> Floats:
        """Similarity of all witnesses to one of them, over all replies."""
        rows = self._rows[: 2 * self.pairs]
        total = self.only_in + self.only_out + 2 * self.both
        share = total / len(rows)
        together = rows[:, witness] @ rows / len(rows)
        variance = share * (1 - share)
        covariance = together - share * share[witness]
        found = covariance / np.sqrt(variance * variance[witness] + 1e-12)
        return np.asarray(np.clip(found, 0, 1) ** 2)


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Weights of the witnesses for the next pair."""

    weights: Floats
    confidence: float

    @staticmethod
    def of(record: Record, log_prior: Floats, epsilon: float) -> Portfolio:
        """Weights proportional to prior times exp(past payoff)."""
        evidence = log_prior + SHARPNESS * record.gains(epsilon + STRICTER)
        weights = np.exp(evidence - evidence.max())
        weights /= weights.sum()
        leader, direction = divmod(int(evidence.argmax()), 4)
        alike = float(weights[:, direction] @ record.likeness(leader))
        alike = min(max(alike, 1e-9), 1 - 1e-9)
        return Portfolio(weights, 1 / (1 + math.exp(-DOUBT) * (1 - alike) / alike))

    def payoff(self, x: Bools, y: Bools, odds: float) -> float:
        """Mean of x - odds y over the weights."""
        w = self.weights.T
        here = w[0] @ x + w[2] @ ~x - odds * (w[0] @ y + w[2] @ ~y)
        there = w[1] @ y + w[3] @ ~y - odds * (w[1] @ x + w[3] @ ~x)
        return float(here + there)
