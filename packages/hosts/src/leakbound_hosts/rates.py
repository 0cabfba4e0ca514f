"""Anytime-valid bounds on one rate, and multiple testing with e-values.

A rate is the mean of scores in [0, 1], such as an accuracy or a share of refusals. For any
alternative q above a limit r, the factor 1 + (q - r) (x - r) / (r (1 - r)) of a score x has an
expectation of at most 1 if the rate is at most r. For scores of 0 and 1 it is the likelihood ratio
of q and r. The e-value is a mixture of the products of these factors over a fixed grid of
alternatives, so nothing is learned or chosen in hindsight. The stakes of the e-process for privacy
claims are not used here: they are made for payoffs that lose about as much as they win, which is
not the case for a rate near 1.

A test that is to show any rate beyond a limit must leave room for all of them, and goes on as long
as it may. `PlannedRateTest` knows which rate it is planned for, and gives up once that rate has
become unlikely. It looks at the likelihood ratio of the planned rate and the limit after every
score, as Wald's test does, and ends at one of two bounds or at a largest number of samples. For
scores of 0 and 1, all of its probabilities are computed exactly, so both bounds are as close as the
errors allow.

Its e-value is the probability of a rejection given the scores so far, if the rate is the limit, in
units of that probability before the first score. That is a martingale at the limit, and a
supermartingale below it, because more right answers never make a rejection less likely.

Reference: Wald, "Sequential tests of statistical hypotheses" (1945); Wald and Wolfowitz, "Optimum
character of the sequential probability ratio test" (1948), of all tests with these errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import confidence_level
from leakbound.errors import UsageError
from leakbound.privacy.rounding import bisect
from leakbound.stats.arrays import Floats, Ints
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
    total = np.full(np.broadcast(scores, low).shape, -np.inf)
    for stake in stakes(low):
        total = np.logaddexp(total, np.log1p(stake * (scores - low)).cumsum(-1))
    return np.asarray(total - math.log(len(SHARES)))


def stakes(limit: Floats) -> Iterator[Floats]:
    """What each alternative of the mixture stakes on a score, in units of its excess."""
    angle = np.arcsin(np.sqrt(limit))
    for share in SHARES:
        other = np.sin(angle + (math.pi / 2 - angle) * share) ** 2
        yield (other - limit) / (limit * (1 - limit))


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


class _Bounds(NamedTuple):
    """Likelihood ratios of the planned rate and the limit at which a test ends."""

    limit: float
    rate: float
    reject: float
    give_up: float
    most: int

    def ends(self) -> tuple[Ints, Ints]:
        """(most + 1,) fewest right answers that reject, and most that give up, by the samples."""
        gain, loss = math.log(self.rate / self.limit), math.log((1 - self.rate) / (1 - self.limit))
        samples = np.arange(self.most + 1)
        reject, give_up = (
            (ratio - samples * loss) / (gain - loss) for ratio in (self.reject, self.give_up)
        )
        enough, few = np.ceil(reject - ROUNDING), np.floor(give_up + ROUNDING)
        few[-1] = enough[-1] - 1
        return enough.astype(np.int64), few.astype(np.int64)

    def power(self, rate: float) -> float:
        return float(self.values(rate, 1.0, 0.0)[0][0])

    def samples(self, rate: float) -> float:
        return float(self.values(rate, 0.0, 1.0)[0][0])

    def values(self, rate: float, rejection: float, sample: float) -> list[Floats]:
        """Expected worth of what is left, by the number of samples and of right answers."""
        now, found = np.zeros(self.most + 2), list[Floats]()
        for enough, few in zip(*(ends[::-1].tolist() for ends in self.ends()), strict=True):
            now = sample + rate * now[1:] + (1 - rate) * now[:-1]
            now[max(enough, 0) :] = rejection
            now[: max(few + 1, 0)] = 0.0
            found.append(now)
        return found[::-1]


@dataclass(frozen=True, slots=True)
class RateDesign:
    """What a `PlannedRateTest` takes; exact for scores of 0 and 1.

    Attributes:
        mean: Expected number of samples at the planned rate.
        mean_at_limit: Expected number of samples if the rate is the limit.
        most: Most samples that it ever takes.
        power: Probability that it shows the planned rate.
        error: Probability that it rejects a true claim, at most.
    """

    mean: float
    mean_at_limit: float
    most: int
    power: float
    error: float


ROUNDING = 1e-9  # of a number of right answers at a bound


class PlannedRateTest:
    """Tests whether a rate lies beyond a limit, with a power that is planned for one rate.

    It ends when it rejects, or gives up: after that, scores change nothing.

    Args:
        limit: The limit, in (0, 1).
        rate: The rate that is to be shown, in (0, 1). Its side of the limit is the one that is
            tested. If the true rate lies farther away, the test ends earlier.
        power: Probability of a rejection at that rate, above 0.5 and below 1.

    Raises:
        UsageError: If the rate is so close to the limit that
            thousands of samples are not enough.

    Guarantee:
        If each score, given the earlier ones, is right with a probability on the claimed side of
        the limit, the claim is rejected with probability at most 1 - confidence, at any stopping
        time.

    Reference:
        Wald (1945).

    Examples:
        >>> test = PlannedRateTest(0.5, 0.8)
        >>> test.observe([1, 1, 1, 1, 1, 1, 1, 1])
        >>> test.rejected_at, test.gave_up
        (7, False)
        >>> test.design.most
        50
    """

    def __init__(
        self, limit: float, rate: float, power: float = 0.9, confidence: float = 0.95
    ) -> None:
        if not (0 < limit < 1 and 0 < rate < 1 and limit != rate):
            raise UsageError(
                f"limit is {limit!r} and rate {rate!r}; both must be above 0 and below 1, and "
                "differ."
            )
        if not 0.5 < power < 1:
            raise UsageError(f"power is {power!r}; it must be above 0.5 and below 1.")
        self.limit, self.rate, self.confidence = limit, rate, confidence_level(confidence)
        self.side: Literal["above", "below"] = "above" if rate > limit else "below"
        claimed, shown = (limit, rate) if rate > limit else (1 - limit, 1 - rate)
        self._bounds = _bounds(claimed, shown, power, round(1 - self.confidence, 12))
        self._enough, self._few = _end_lists(self._bounds)
        self.right, self.seen, self.gave_up = 0, 0, False
        self.rejected_at: int | None = None

    def observe(self, scores: Sequence[float]) -> None:
        """Add the next scores, each 0 or 1, in order."""
        for score in scores:
            if score not in (0, 1):
                raise UsageError(
                    f"a score is {score:g}; a planned test needs scores of 0 and 1. Use RateTest."
                )
            if self.ended:
                continue
            right = int(score) if self.side == "above" else 1 - int(score)
            self.right, self.seen = self.right + right, self.seen + 1
            if self.right >= self._enough[self.seen]:
                self.rejected_at = self.seen
            self.gave_up = self.right <= self._few[self.seen]

    @property
    def ended(self) -> bool:
        """Whether it has rejected or given up."""
        return self.rejected or self.gave_up

    @property
    def rejected(self) -> bool:
        return self.rejected_at is not None

    @cached_property
    def _chances(self) -> list[Floats]:
        return self._bounds.values(self._bounds.limit, 1.0, 0.0)

    @property
    def e_value(self) -> float:
        """Current evidence against the claim: at least 1/alpha once it is rejected."""
        return float(self._chances[self.seen][self.right] / self._chances[0][0])

    @property
    def design(self) -> RateDesign:
        """What the test takes, and how often it errs."""
        bounds = self._bounds
        return RateDesign(
            bounds.samples(bounds.rate), bounds.samples(bounds.limit), bounds.most,
            bounds.power(bounds.rate), bounds.power(bounds.limit),
        )  # fmt: skip

    def expected_samples(self, rate: float) -> float:
        """Expected number of samples at any rate in [0, 1], computed exactly."""
        return self._bounds.samples(rate if self.side == "above" else 1 - rate)


LONGEST = 2.5  # the most samples, in units of those that a fixed number takes
MOST_PLANNED = 3000  # samples of the longest test: its tables take a second
HALVINGS = 12  # of the interval of a bound
WIDEST = 12.0  # logarithm of a likelihood ratio that no bound exceeds


@lru_cache(maxsize=64)
def _bounds(limit: float, rate: float, power: float, alpha: float) -> _Bounds:
    """The earliest bound for giving up that leaves the power, and the lowest that rejects."""
    endless = _Bounds(limit, rate, 0.0, -WIDEST, _longest(limit, rate, power, alpha))

    def too_early(give_up: float) -> bool:
        return _lowest(endless._replace(give_up=give_up), alpha).power(rate) < power

    early, _ = bisect(too_early, -WIDEST, 0.0, HALVINGS)
    return _lowest(endless._replace(give_up=early), alpha)


@lru_cache(maxsize=64)
def _end_lists(bounds: _Bounds) -> tuple[list[int], list[int]]:
    enough, few = bounds.ends()
    return enough.tolist(), few.tolist()


def _longest(limit: float, rate: float, power: float, alpha: float) -> int:
    """So many samples that a test which hardly ever gives up before has the power."""
    spread = [math.sqrt(one * (1 - one)) for one in (limit, rate)]
    wanted = scipy.special.ndtri(1 - alpha) * spread[0] + scipy.special.ndtri(power) * spread[1]
    fixed = max(5.0, (float(wanted) / (rate - limit)) ** 2)  # about what a fixed number takes
    longest = math.ceil(LONGEST * fixed)
    while longest <= MOST_PLANNED:
        tried = _lowest(_Bounds(limit, rate, 0.0, -WIDEST, longest), alpha)
        if tried.power(rate) >= power:
            return longest
        longest *= 2
    raise UsageError(
        f"up to {longest} samples would show a rate of {rate:g} beyond {limit:g}, and a plan "
        f"looks up to {MOST_PLANNED}; choose a limit that is farther away."
    )


def _lowest(bounds: _Bounds, alpha: float) -> _Bounds:
    """The lowest bound that rejects a true claim with a probability of at most alpha."""

    def valid(reject: float) -> bool:
        return bounds._replace(reject=reject).power(bounds.limit) <= alpha

    # Ville's inequality holds for the likelihood ratio
    return bounds._replace(reject=bisect(valid, 0.0, -math.log(alpha), HALVINGS)[1])
