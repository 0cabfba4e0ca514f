"""Auditing in one run: many canaries in one system, each in or out by an independent fair coin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import confidence_level, count, delta_value, epsilon_value, within
from leakbound.errors import UsageError
from leakbound.privacy.rounding import bisect
from leakbound.stats.arrays import Ints
from leakbound.stats.estimate import Estimate
from leakbound.stats.power import first_number

STEP = 0.1  # step of the scan; the claims are nested, so a coarse step costs only halvings
GROWTH = 1.05  # ratio of successive numbers of canaries; bisection then refines the first hit
MOST_CANARIES = 1_000_000  # far more questions than an audit puts to a store
LARGEST = 50.0  # no such number of canaries certifies a larger epsilon
HALVINGS = 40  # 0.1 / 2^40 is below the rounding error of a bound
ASSUMES = (
    "every canary is in or out by an independent fair coin",
    "the guarantee covers each canary given all others",
    "guesses are made without knowing the coins",
)


def one_run(
    canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95
) -> Estimate:
    """Lower bound on epsilon of the whole run from one run over many canaries.

    Under (epsilon, delta)-DP, with W ~ Bin(guesses, e^eps/(1 + e^eps)):
    P(right guesses >= v) <= P(W >= v) + 2 canaries delta max_i P(v - i <= W < v)/i. The bound is
    the largest epsilon for which the right side, at it and at all smaller values of a scan, is at
    most 1 - confidence. It is rounded down. The guesses may depend on each other in any way.

    Args:
        canaries: Number of canaries m, each in or out by an independent fair coin; up to a million.
        guesses: Number of canaries that were guessed, from 1 to m. It is fixed beforehand.
        correct: Number of right guesses.

    Raises:
        UsageError: Unless correct <= guesses <= canaries and guesses >= 1.

    Guarantee:
        Exceeds the true epsilon(delta) of the run under `add_remove` with probability at most
        1 - confidence (`replace_one` if a fixed record takes the place of an absent canary).

    Reference:
        Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (NeurIPS 2023),
        Theorem 5.2.

    Examples:
        >>> round(one_run(canaries=100, guesses=100, correct=100).epsilon, 3)
        3.493
    """
    m = count("canaries", canaries, 0, MOST_CANARIES)
    r, v = count("guesses", guesses), count("correct", correct)
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


def right_to_reject(
    canaries: int, epsilon: float, delta: float = 0.0, confidence: float = 0.95
) -> int | None:
    """Smallest number of right guesses, one for each canary, whose bound exceeds a claim.

    None if m right guesses are too few.

    Args:
        canaries: Number of canaries m, at least 1.
        epsilon: Claimed epsilon of the whole run, at least 0.

    Examples:
        >>> right_to_reject(100, 3.0), right_to_reject(100, 4.0)
        (99, None)
    """
    m, alpha = count("canaries", canaries), 1 - confidence_level(confidence)
    within("canaries", m, 1, MOST_CANARIES)
    epsilon = float(epsilon_value(epsilon))
    delta_value(delta)

    def rejects(right: int) -> bool:
        return _largest(m, m, right, delta, alpha) > epsilon

    return first_number(rejects, 0, m) if rejects(m) else None


def one_run_power(
    canaries: int, right: float, epsilon: float, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Probability that one run rejects a claim if guesses are right independently of each other.

    It is exact: the upper tail of Bin(m, right).

    Args:
        canaries: Number of canaries m, at least 1, each guessed.
        right: Probability that a guess is right, in [0, 1].
        epsilon: Claimed epsilon of the whole run, at least 0.

    Examples:
        >>> round(one_run_power(100, 0.99, 2.0), 3), one_run_power(100, 1.0, 4.0)
        (1.0, 0.0)
    """
    needed = right_to_reject(canaries, epsilon, delta, confidence)
    if not 0 <= right <= 1:
        raise UsageError(f"right is {right!r}; it must be a probability from 0 to 1.")
    return 0.0 if needed is None else float(scipy.special.bdtrc(needed - 1, canaries, right))


def canaries_to_reject(
    claim: Callable[[int], tuple[float, float]],
    confidence: float = 0.95,
    guesses: Callable[[int], int] = lambda canaries: canaries,
) -> int | None:
    """Smallest number of canaries, at least 2, with which a perfect attack rejects a claim.

    None if a million are too few.

    Args:
        claim: Maps a number of canaries to (epsilon, delta) of the whole run. A claim about one
            answer grows with the number of canaries.
        guesses: Maps a number of canaries to the number of guesses; all are guessed by default.

    Examples:
        >>> canaries_to_reject(lambda canaries: (4.0, 0.0))
        166
        >>> canaries_to_reject(lambda canaries: (1.0 * canaries, 0.0)) is None
        True
    """
    alpha = 1 - confidence_level(confidence)

    def rejects(m: int) -> bool:
        (epsilon, delta), made = claim(m), guesses(m)
        return delta < 1 and _p_value(m, made, made, epsilon, delta) <= alpha

    low, high = 1, 2
    while not rejects(high):
        low, high = high, max(high + 1, int(high * GROWTH))
        if high > MOST_CANARIES:
            return None
    return first_number(rejects, low, high)


def _largest(m: int, r: int, v: int, delta: float, alpha: float) -> float:
    """Scan upwards in steps, then bisect. The scan never passes a claim that is not rejected."""
    high = 0.0
    while v and high < LARGEST and _p_value(m, r, v, high, delta) <= alpha:
        high += STEP
    low = max(0.0, high - STEP)
    return bisect(lambda e: _p_value(m, r, v, e, delta) > alpha, low, high, HALVINGS)[0]


def _p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Largest probability of v or more right guesses under (epsilon, delta)-DP."""
    tail = float(scipy.special.bdtrc(v - 1, r, scipy.special.expit(epsilon)))
    if delta == 0:
        return tail
    window = min(v, 100 + 20 * math.isqrt(r))  # beyond it the mean over i is at most 1/window
    k = v - 1 - np.arange(window, dtype=float)
    choose = (
        scipy.special.gammaln(r + 1)
        - scipy.special.gammaln(k + 1)
        - scipy.special.gammaln(r - k + 1)
    )
    mass = np.exp(
        choose + k * scipy.special.log_expit(epsilon) + (r - k) * scipy.special.log_expit(-epsilon)
    )  # P(W = k)
    below = mass.cumsum()
    means = below / np.arange(1, window + 1)
    worst = max(float(means.max()), 1 / window if window < v else 0.0)
    return min(1.0, tail + 2 * m * delta * worst * (1 + 1e-12))  # rounded up


@dataclass(frozen=True, slots=True)
class Ranked:
    """Guess that the highest-scoring canaries are in, and that equally many lowest-scoring are out.

    The number of guesses is fixed before any score is seen. No guess is made about the other
    canaries.

    Guarantee: `one_run` holds for guesses that depend on all scores in any way.
    Reference: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (NeurIPS
    2023), Algorithm 1.
    """

    fraction: float = 0.5

    def __post_init__(self) -> None:
        within("fraction", self.fraction, 0.01, 1.0)

    @classmethod
    def named(cls, text: object) -> Self | None:
        name, _, fraction = str(text).partition(":")
        if name != "rank":
            return None
        try:
            return cls(float(fraction)) if fraction else cls()
        except ValueError:
            raise UsageError(
                f"threshold is {text!r}; it must be rank, or rank with a share, such as rank:0.5."
            ) from None

    def guesses(self, scores: npt.ArrayLike) -> Ints:
        """Guesses about canaries. Among equal scores, the earlier one ranks higher."""
        order = np.argsort(-np.asarray(scores, float), kind="stable")
        each = self.each(len(order))
        found = np.zeros(len(order), np.int64)
        found[order[:each]], found[order[len(order) - each :]] = 1, -1
        return found

    def each(self, canaries: int) -> int:
        """Number of canaries guessed to be in, which equals the number guessed to be out."""
        return max(1, int(self.fraction * canaries) // 2)

    def describe(self, canaries: int) -> str:
        each = self.each(canaries)
        return f"none: the {each} highest and the {each} lowest of {canaries} scores are guessed"
