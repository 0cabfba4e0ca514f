"""How much to stake: a plan for a known number of pairs, made by dynamic programming.

The plan solves a simplified game. The payoff follows a witness, which shows a leak with some
confidence and noise otherwise. Each pair changes the e-value, and updates the confidence by Bayes'
rule. In addition, a witness of noise is eventually replaced by a better one. The plan affects power
only. An e-process is valid whatever it stakes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = npt.NDArray[np.float64]
LARGEST = 0.999  # largest stake, as a share of the stake that could lose everything
SHARES = np.array([0, .1, .2, .3, .35, .4, .45, .5, .55, .6, .7, .8, .9, 1])  # fmt: skip
LOWEST, STEP = -5.0, 0.05  # grid of log e-values; below it there is nothing left to plan for
LOGITS = np.linspace(-3.0, 4.0, 11)  # grid of the confidence
RATES = (0.28, 0.11)  # rates of a witness of a leak at a claim of .25; others keep the margin
MARGIN = math.log(RATES[0] / RATES[1]) - 0.25
MOST = 0.9  # largest rate of a witness
NOISE = 0.2  # rate of a witness of noise
FOUND = 0.003  # probability per pair that a witness of the leak replaces one of noise
SOON, LATER = 0.6, 0.65  # a rejection after the share SOON of the pairs is worth LATER, not 1
PATIENCE = 0.999  # factor by which each further pair reduces the worth of a rejection
BEYOND = 0.5  # share staked after the planned number of pairs, at full confidence


@dataclass(frozen=True, slots=True)
class StakePlan:
    """Shares of the largest stake."""

    log_e: Floats
    shares: npt.NDArray[np.float32]

    def share(self, left: int, log_e: float, confidence: float) -> float:
        """The share to stake now."""
        if left <= 0:
            return BEYOND * confidence
        confidence = min(max(confidence, 1e-9), 1 - 1e-9)
        table = self.shares[min(left, len(self.shares) - 1)]
        at = np.interp(math.log(confidence / (1 - confidence)), LOGITS, np.arange(LOGITS.size))
        low = min(int(at), LOGITS.size - 2)
        column = table[:, low] * (1 - (at - low)) + table[:, low + 1] * (at - low)
        return float(np.interp(log_e, self.log_e, column))


@lru_cache(maxsize=32)
def plan_stakes(horizon: int, epsilon: float, delta: float, level: float) -> StakePlan:
    """Plan stakes that reach a level with high probability and early.

    Examples:
        >>> plan = plan_stakes(50, 0.25, 1e-5, 3.0)
        >>> plan.share(50, 0.0, 0.05) < plan.share(50, 0.0, 0.9)
        True
    """
    points = np.append(np.arange(LOWEST, level, STEP), level)
    payoffs, leak, noise = _outcomes(epsilon, delta)
    moves = _moves(points, payoffs)
    sure = 1 / (1 + np.exp(-LOGITS))[:, None]
    chance = sure * leak + (1 - sure) * noise  # (confidence, outcomes)
    after = sure * leak / chance
    after += FOUND * (1 - after)
    blends = [_blend(after[:, o]) * chance[:, o] for o in range(len(payoffs))]
    shares = np.zeros((horizon + 1, points.size, LOGITS.size), np.float32)
    value = np.zeros((points.size, LOGITS.size))
    for left in range(1, horizon + 1):
        value[-1] = 1.0 if left > (1 - SOON) * horizon else LATER
        future = np.concatenate([value @ blend for blend in blends])
        mean = PATIENCE * (moves @ future).reshape(SHARES.size, points.size, -1)
        best = mean.argmax(0)
        shares[left] = SHARES[best]
        value = np.take_along_axis(mean, best[None], 0)[0]
    return StakePlan(points, shares)


def _outcomes(epsilon: float, delta: float) -> tuple[Floats, Floats, Floats]:
    """Gains of the largest stake in the four outcomes, and their probabilities under each case."""
    odds = math.exp(epsilon)
    payoffs = LARGEST * (np.array([1.0, -odds, 1.0 - odds, 0.0]) - delta) / (odds + delta)
    high = min(MOST, RATES[1] * math.exp(epsilon + MARGIN))
    return payoffs, _pair(high, high / math.exp(epsilon + MARGIN)), _pair(NOISE, NOISE)


def _pair(x: float, y: float) -> Floats:
    return np.array([x * (1 - y), (1 - x) * y, x * y, (1 - x) * (1 - y)])


def _moves(points: Floats, payoffs: Floats) -> csr_matrix:
    """(shares * points, outcomes * points) matrix that interpolates at the next log e-values."""
    from scipy.sparse import csr_matrix  # keeps the import of leakbound fast

    reached = points[:, None] + np.log1p(SHARES[:, None, None] * payoffs)  # (S, n, O)
    at = np.interp(reached, points, np.arange(points.size))
    low = np.minimum(at.astype(int), points.size - 2)
    inside = reached >= points[0]
    rows = np.broadcast_to(np.arange(at[..., 0].size).reshape(*at.shape[:2], 1), at.shape)
    columns = low + points.size * np.arange(payoffs.size)
    weights = np.stack([(1 - (at - low)) * inside, (at - low) * inside])
    entries = (np.stack([rows, rows]).ravel(), np.stack([columns, columns + 1]).ravel())
    shape = (at[..., 0].size, payoffs.size * points.size)
    return csr_matrix((weights.ravel(), entries), shape=shape)


def _blend(confidence: Floats) -> Floats:
    """(from, to) matrix that interpolates a value at each of the new confidences."""
    logits = np.clip(np.log(confidence / (1 - confidence)), LOGITS[0], LOGITS[-1])
    at = np.interp(logits, LOGITS, np.arange(LOGITS.size))
    low = np.minimum(at.astype(int), LOGITS.size - 2)
    blend, to = np.zeros((LOGITS.size, LOGITS.size)), np.arange(LOGITS.size)
    blend[low, to], blend[low + 1, to] = 1 - (at - low), at - low
    return blend
