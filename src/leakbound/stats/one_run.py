"""Auditing in one run: many canaries, each in or out by its own fair coin, one system (Steinke,
Nasr and Jagielski 2023).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import bdtrc, expit, gammaln, log_expit

from leakbound._check import confidence_level, count, delta_value
from leakbound.errors import UsageError
from leakbound.stats.estimate import Estimate

__all__ = ["one_run"]

ASSUMES = (
    "every canary is in or out by its own fair coin",
    "the guarantee covers each canary given all others",
    "guesses are made without knowing the coins",
)


def one_run(
    canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95
) -> Estimate:
    """Lower bound on epsilon from one run with `canaries` canaries, `guesses` of them guessed,
    `correct` rightly.

    Under (epsilon, delta)-DP, with W ~ Bin(guesses, e^eps/(1+e^eps)):
    P(right guesses >= v) <= P(W >= v) + 2 canaries delta max_i P(v - i <= W < v)/i. The bound is
    the largest epsilon such
    that it and all smaller ones on a scan have a value of at most 1 - confidence; rounded down.
    Valid however the guesses depend on
    each other; the number of guesses is fixed beforehand. Kind: lower_bound. Raises UsageError
    unless
    correct <= guesses <= canaries, with at least one guess.
    """
    m, r, v = count("canaries", canaries), count("guesses", guesses), count("correct", correct)
    delta_value(delta)
    alpha = 1 - confidence_level(confidence)
    if not (0 < r <= m and v <= r):
        raise UsageError(
            f"{v} correct of {r} guesses on {m} canaries; they must satisfy correct <= guesses <= "
            "canaries, guesses >= 1."
        )
    return Estimate(
        "one_run", "lower_bound", _largest(m, r, v, delta, alpha), delta, confidence,
        {"canaries": m, "guesses": r, "correct": v}, ASSUMES,
    )  # fmt: skip


def _largest(m: int, r: int, v: int, delta: float, alpha: float) -> float:
    """Scan upwards in steps, then close in from below.

    The claims are nested; the scan never passes one that stands.
    """
    if v == 0 or _p_value(m, r, v, 0.0, delta) > alpha:
        return 0.0
    low, step = 0.0, 0.1
    while _p_value(m, r, v, low + step, delta) <= alpha:
        low += step
    high = low + step
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _p_value(m, r, v, middle, delta) <= alpha else (low, middle)
    return low


def _p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Largest chance of v or more right guesses under (epsilon, delta)-DP."""
    tail = float(bdtrc(v - 1, r, expit(epsilon)))
    if delta == 0:
        return tail
    window = min(v, 100 + 20 * math.isqrt(r))  # beyond it the mean over i is at most 1/window
    k = v - 1 - np.arange(window, dtype=float)
    log_mass = (
        gammaln(r + 1)
        - gammaln(k + 1)
        - gammaln(r - k + 1)
        + k * log_expit(epsilon)
        + (r - k) * log_expit(-epsilon)
    )
    below = np.exp(log_mass).cumsum() / np.arange(1, window + 1)
    return min(
        1.0,
        tail
        + 2 * m * delta * max(float(below.max()), 1 / window if window < v else 0.0) * (1 + 1e-12),
    )
