"""Anytime-valid bounds on one rate, and multiple testing with e-values.

A rate is the mean of scores in [0, 1], such as an accuracy or a share of refusals. For any
alternative q above a limit r, the factor 1 + (q - r) (x - r) / (r (1 - r)) of a score x has an
expectation of at most 1 if the rate is at most r. For scores of 0 and 1 it is the likelihood ratio
of q and r. The e-value is a mixture of the products of these factors over a fixed grid of
alternatives, so nothing is learned or chosen in hindsight. The stakes of the e-process for privacy
claims are not used here: they are made for payoffs that lose about as much as they win, which is
not the case for a rate near 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.anytime import EValueTest

SIDES = ("above", "below")
LIMITS = np.arange(1000) / 1000  # rates that bounds scan, with three digits
CHUNK = 50  # limits that are scanned at once; most scans end early if the rate is small
# Alternatives between the limit and 1, as shares of the angle between them (the arcsine transform
# stabilises the variance of a share). They range from nearly 1 to alternatives that take about
# 10,000 samples to detect.
SHARES = 0.97 * 2.0 ** (-np.arange(12) / 2)
MOST = 32768  # samples up to which a plan looks
SERIES = 100  # simulated at once: at most some 100 MB
LEAST = 1e-6  # replaces the limit 0, which a single score above 0 refutes


def log_e_values(scores: Floats, limit: npt.ArrayLike) -> Floats:
    """Evidence against "the rate is at most the limit", after each score.

    Guarantee: if each score, given the earlier ones, has an expectation of at most the limit, the
    e-value ever reaches 1/alpha with probability at most alpha.
    Reference: Ville (1939); Robbins, "Statistical methods related to the law of the iterated
    logarithm" (1970), for mixtures.
    """
    low = np.maximum(np.asarray(limit, float), LEAST)
    angle, total = np.arcsin(np.sqrt(low)), np.full(np.broadcast(scores, low).shape, -np.inf)
    for share in SHARES:
        other = np.sin(angle + (math.pi / 2 - angle) * share) ** 2
        stake = (other - low) / (low * (1 - low))
        total = np.logaddexp(total, np.log1p(stake * (scores - low)).cumsum(-1))
    return np.asarray(total - math.log(len(SHARES)))


class RateTest(EValueTest):
    """Tests whether a rate lies above or below a limit. It can be stopped after any sample.

    Args:
        limit: The limit, in [0, 1) for "above" and in (0, 1] for "below".
        side: "above" tests the claim that the rate is at most the limit, "below" that it is at
            least the limit.

    Guarantee:
        If each score, given the earlier ones, has an expectation on the claimed side of the limit,
        the claim is rejected with probability at most 1 - confidence, at any stopping time.

    Reference:
        See `log_e_values`.

    Examples:
        >>> test = RateTest(0.5)
        >>> test.observe([1, 1, 1, 1, 1, 1, 1, 1, 1])
        >>> test.rejected, test.rejected_at, test.limit_beyond()
        (True, 7, 0.598)
    """

    def __init__(
        self, limit: float, side: Literal["above", "below"] = "above", confidence: float = 0.95
    ) -> None:
        if side not in SIDES:
            raise UsageError(f"side is {side!r}; it must be 'above' or 'below'.")
        self.claimed = limit if side == "above" else 1 - limit
        if not 0 <= self.claimed < 1:
            edge = "at least 0 and below 1" if side == "above" else "above 0 and at most 1"
            raise UsageError(f"limit is {limit!r}; to show a rate {side} it, it must be {edge}.")
        self.limit, self.side, self.confidence = limit, side, confidence_level(confidence)
        self._scores = np.zeros(0)

    def observe(self, scores: Sequence[float]) -> None:
        """Add the next scores, numbers in [0, 1], in order."""
        seen = np.asarray(scores, float).reshape(-1)
        bad = seen[~((seen >= 0) & (seen <= 1))]
        if bad.size:
            raise UsageError(f"a score is {bad[0]:g}; it must be between 0 and 1.")
        self._scores = np.append(self._scores, seen if self.side == "above" else 1 - seen)

    @property
    def log_e_values(self) -> Floats:
        return log_e_values(self._scores, self.claimed)

    def limit_beyond(self) -> float:
        """The bound: the last limit, in steps of 0.001, that the rate was shown to lie beyond.

        0 ("above") or 1 ("below") as long as nothing is shown.

        Guarantee:
            The rate lies on the other side of the bound with probability at most 1 - confidence,
            at any stopping time.
        """
        beyond = self._scan()
        return beyond if self.side == "above" else round(1 - beyond, 3)

    def _scan(self) -> float:
        """The last limit before the first one that is not rejected; the claims are nested."""
        last = 0.0
        for start in range(0, LIMITS.size if self._scores.size else 0, CHUNK):
            limits = LIMITS[start : start + CHUNK]
            path = log_e_values(self._scores, limits[:, None])
            stands = np.flatnonzero(path.max(1) < self.log_threshold)
            if stands.size:
                return float(limits[stands[0] - 1]) if stands[0] else last
            last = float(limits[-1])
        return last


@dataclass(frozen=True, slots=True)
class RatePlan:
    """How many samples a `RateTest` takes where the rate is known; simulated.

    Attributes:
        mean: Mean number of samples, those of series that are given up included.
        most: Number of samples after which the wanted share of series has rejected; what to plan.
        simulations: Number of series.
    """

    mean: float
    most: int
    simulations: int


def plan_rate(
    limit: float,
    rate: float,
    power: float = 0.9,
    confidence: float = 0.95,
    simulations: int = 2000,
    seed: int = 0,
) -> RatePlan:
    """Samples that show on which side of a limit a rate of right and wrong answers lies.

    Args:
        limit: The limit, in [0, 1].
        rate: The true rate, in [0, 1]; its side of the limit is the one that is to be shown.
        power: Share of series that are to show it, in (0, 1).
        simulations: Number of simulated series.
        seed: Seed of the simulation.

    Raises:
        UsageError: If the rate is so close to the limit that
            tens of thousands of samples are not enough.

    Examples:
        >>> plan_rate(0.5, 0.8, simulations=500)
        RatePlan(mean=20.1, most=41, simulations=500)
    """
    test = RateTest(limit, "above" if rate > limit else "below", confidence)
    if not (0 <= rate <= 1 and rate != limit):
        raise UsageError(f"rate is {rate!r}; it must be from 0 to 1, and not the limit.")
    if not 0 < power < 1:
        raise UsageError(f"power is {power!r}; it must be above 0 and below 1.")
    most = 32
    while most < MOST:
        most *= 2
        times = _rejection_times(test, rate, most, simulations, np.random.default_rng(seed))
        if np.isfinite(times).mean() >= power:
            enough = int(np.quantile(times, power, method="inverted_cdf"))
            mean = float(np.minimum(times, enough).mean())
            return RatePlan(round(mean, 1), enough, simulations)
    raise UsageError(
        f"{MOST} samples do not show that a rate of {rate:g} lies {test.side} {limit:g} with a "
        f"power of {power:g}; choose a limit that is farther away."
    )


def _rejection_times(
    test: RateTest, rate: float, samples: int, series: int, rng: np.random.Generator
) -> Floats:
    """(series,) samples at the rejection; infinity where there is none."""
    found, shown = [], rate if test.side == "above" else 1 - rate
    for first in range(0, series, SERIES):
        right = rng.random((min(SERIES, series - first), samples)) < shown
        over = log_e_values(right.astype(float), test.claimed) >= test.log_threshold
        found.append(np.where(over.any(1), over.argmax(1) + 1.0, np.inf))
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class RateBounds:
    """Mean of scores, with bounds on their rate.

    Attributes:
        mean: Mean of the scores; NaN if there are none.
        lower: Lower bound on the rate.
        upper: Upper bound on the rate.
        samples: Number of scores.
    """

    mean: float
    lower: float
    upper: float
    samples: int


def rate_bounds(scores: Sequence[float], confidence: float = 0.95) -> RateBounds:
    """Lower and upper bound on a rate, which hold together and at any stopping time.

    Args:
        scores: (n,) numbers in [0, 1], in the order in which they were to be drawn.
        confidence: Confidence of both bounds together, in (0, 1).

    Guarantee:
        The rate lies between the bounds, at all numbers of samples at once, with probability at
        least `confidence`.

    Reference:
        See `RateTest`.

    Examples:
        >>> rate_bounds([1, 0, 1, 1, 1] * 20)
        RateBounds(mean=0.8, lower=0.652, upper=0.904, samples=100)
    """
    each = (1 + confidence) / 2
    above, below = RateTest(0.0, "above", each), RateTest(1.0, "below", each)
    for test in (above, below):
        test.observe(scores)
    mean = float(np.mean(scores)) if len(scores) else float("nan")
    return RateBounds(mean, above.limit_beyond(), below.limit_beyond(), len(scores))


def e_benjamini_hochberg(e_values: Sequence[float], alpha: float = 0.05) -> tuple[bool, ...]:
    """(K,) which of several claims to reject, with a bounded false discovery rate.

    Args:
        e_values: (K,) e-values, one for each claim, at any stopping times. They may depend on each
            other in any way.
        alpha: Largest expected share of true claims among the rejected ones, in (0, 1).

    Raises:
        UsageError: If alpha lies outside its range, or an e-value is negative or NaN.

    Guarantee:
        The false discovery rate is at most alpha.

    Reference:
        Wang and Ramdas, "False discovery rate control with e-values" (JRSS B 2022).

    Examples:
        >>> e_benjamini_hochberg([90.0, 45.0, 1.0, 0.2])
        (True, True, False, False)
    """
    values = np.asarray(e_values, float)
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is {alpha!r}; it must be above 0 and below 1.")
    if not bool((values >= 0).all()):
        raise UsageError("an e-value is negative or NaN; e-values are at least 0.")
    order = np.argsort(-values, kind="stable")
    enough = values[order] >= values.size / (alpha * np.arange(1, values.size + 1))
    most = int(np.flatnonzero(enough)[-1]) + 1 if enough.any() else 0
    rejected = np.zeros(values.size, bool)
    rejected[order[:most]] = True
    return tuple(bool(one) for one in rejected)
