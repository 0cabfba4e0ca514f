"""Planning: the largest certifiable epsilon and the power of a number of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy

from leakbound._check import confidence_level, count, delta_value, epsilon_value
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats
from leakbound.stats.counts.bounds import binomial_lower, binomial_upper, clopper_pearson

MOST_PAIRS = 10**8  # of a power: two seconds
LARGEST_EXPONENT = 700.0  # e^700 is about the largest float
NO_POWER = "No power is known for this design; run a pilot."
INTERVAL = 0.95  # confidence of the interval of a simulated power
# How a system leaks: it answers like randomised response; it adds too little noise to a score; or
# it says yes or no, depending on which side of the middle a score with too little noise lies.
Leak = Literal["randomised_response", "small_noise", "noisy_answer"]


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a power assumes about the model: how often it notices a canary or raises a false alarm.

    Args:
        hit: Probability that the model signals a canary that is in its context, in [0, 1]. If
            partitions answer, the context is that of one partition.
        false_alarm: Probability that it signals a canary that is not in its context, in [0, 1].

    Examples:
        >>> tpr, fpr = Assumption(hit=0.9, false_alarm=0.02).rates(math.log(3))
        >>> round(tpr, 3), round(fpr, 3)
        (0.68, 0.24)
    """

    hit: float = 1.0
    false_alarm: float = 0.0

    def __post_init__(self) -> None:
        for name, rate in (("hit", self.hit), ("false_alarm", self.false_alarm)):
            if isinstance(rate, bool | str) or not 0 <= rate <= 1:
                raise UsageError(f"{name} is {rate!r}; it must be a probability from 0 to 1.")

    def rates(self, true_epsilon: float) -> tuple[float, float]:
        """(TPR, FPR) of a system that leaks its context like randomised response.

        Args:
            true_epsilon: epsilon that the system leaks, at least 0; infinity is allowed.
        """
        swapped = 1 / (1 + math.exp(min(epsilon_value(true_epsilon), LARGEST_EXPONENT)))
        return self.seen_through(swapped)

    def seen_through(self, swapped: float) -> tuple[float, float]:
        """(TPR, FPR) of a system that shows the other context with a given probability."""
        shown = 1 - swapped
        return (
            shown * self.hit + swapped * self.false_alarm,
            swapped * self.hit + shown * self.false_alarm,
        )


PERFECT = Assumption()


@dataclass(frozen=True, slots=True)
class Power:
    """Probability that an audit rejects the claim it tests, and how precisely that is known.

    Args:
        chance: The probability, or the share of simulated audits that reject.
        audits: Number of simulated audits; None if the probability is exact.
        leak: How the system leaks.
    """

    chance: float
    audits: int | None = None
    leak: Leak = "randomised_response"

    @property
    def kind(self) -> Literal["exact", "simulated"]:
        return "exact" if self.audits is None else "simulated"

    @property
    def interval(self) -> tuple[float, float]:
        """Two-sided 95 % Clopper-Pearson interval; a single point if the probability is exact."""
        if self.audits is None:
            return self.chance, self.chance
        hits, each = round(self.chance * self.audits), (1 - INTERVAL) / 2
        low, high = (limit(hits, self.audits, each) for limit in (binomial_lower, binomial_upper))
        return float(low), float(high)

    @property
    def safe(self) -> float:
        """Lower end of the interval, on which decisions should rely."""
        return self.interval[0]


def largest_certifiable_epsilon(pairs: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Largest epsilon that a perfect attack certifies by Clopper-Pearson limits.

    Args:
        pairs: Number of paired trials, at least 0.

    Examples:
        >>> round(largest_certifiable_epsilon(100), 2)
        3.28
    """
    if count("pairs", pairs) == 0:
        return 0.0
    return clopper_pearson(pairs, 0, 0, pairs, delta, confidence).epsilon or 0.0


def first_number(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number for which a property holds, false up to there and true from there on."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def least_number(enough: Callable[[int], bool], most: float = math.inf) -> int | None:
    """The smallest number of pairs that is enough; None if the power of two `most` is not."""
    high = 1
    while not enough(high):
        high *= 2
        if high > most:
            return None
    return first_number(enough, high // 2, high)


def clopper_pearson_power(
    pairs: int,
    true_epsilon: float,
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    assumption: Assumption = PERFECT,
) -> float:
    """Probability that Clopper-Pearson limits reject a claim.

    The system is assumed to leak like randomised response, and the model to notice canaries as
    `assumption` says. By default the model is perfect, and both error rates are
    1/(1 + e^true_epsilon). The sum over both error counts leaves out only 1e-20 of their mass, at
    any number of pairs. Counts are whole numbers, so the power can decrease slightly from one
    number of pairs to the next.

    Args:
        pairs: Number of paired trials, from 0 to 1e8.
        true_epsilon: epsilon that the system leaks, at least 0; infinity is allowed.
        assumption: How often the model notices canaries and raises false alarms.

    Examples:
        >>> round(clopper_pearson_power(pairs=100, true_epsilon=3.0, epsilon=1.0), 4)
        1.0
        >>> clopper_pearson_power(pairs=100_000, true_epsilon=1.1, epsilon=1.0) > 0.999
        True
        >>> weak = Assumption(hit=0.5, false_alarm=0.1)
        >>> round(clopper_pearson_power(100, 3.0, 1.0, assumption=weak), 2)
        0.08
    """
    n = count("pairs", pairs, 0, MOST_PAIRS)
    epsilon_value(epsilon)
    delta_value(delta)
    alpha = (1 - confidence_level(confidence)) / 2
    tpr, fpr = assumption.rates(true_epsilon)
    false_alarms, upper = _distribution(n, fpr, alpha)
    misses, upper_misses = _distribution(n, 1 - tpr, alpha)
    slope = math.exp(min(epsilon, LARGEST_EXPONENT))
    # given one error count, the claim is rejected if the limit of the other lies below `most`
    most = np.maximum((1 - upper - delta) / slope, 1 - delta - slope * upper)
    rejecting = np.concatenate([[0.0], misses])[np.searchsorted(upper_misses, most)]
    return min(1.0, float(np.diff(false_alarms, prepend=0.0) @ rejecting))


def _distribution(n: int, rate: float, alpha: float) -> tuple[Floats, Floats]:
    """Bin(n, rate) over counts with all but 1e-20 of the mass (Bernstein), and upper limits."""
    mean, margin = n * rate, 40 + 10 * math.sqrt(n * rate * (1 - rate))
    k = np.arange(max(0, math.floor(mean - margin)), min(n, math.ceil(mean + margin)) + 1.0)
    return scipy.special.bdtr(k, n, rate), binomial_upper(k, n, alpha)
