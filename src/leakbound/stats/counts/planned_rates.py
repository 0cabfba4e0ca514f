"""A sequential test of a rate that is planned for one rate and one power.

A test that is to show any rate beyond a limit must leave room for all of them, and goes on as long
as it may. This one knows which rate it is planned for, and gives up once that rate has become
unlikely. It looks at the likelihood ratio of the planned rate and the limit after every score, as
Wald's test does, and ends at one of two bounds or at a largest number of samples. For scores of 0
and 1, all of its probabilities are computed exactly, so both bounds are as close as the errors
allow.

Its e-value is the probability of a rejection given the scores so far, if the rate is the limit, in
units of that probability before the first score. That is a martingale at the limit, and a
supermartingale below it, because more right answers never make a rejection less likely.

Reference: Wald, "Sequential tests of statistical hypotheses" (1945); Wald and Wolfowitz, "Optimum
character of the sequential probability ratio test" (1948), of all tests with these errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from leakbound._check import confidence_level
from leakbound.errors import UsageError
from leakbound.privacy.rounding import bisect
from leakbound.stats.arrays import Floats, Ints


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
MOST = 3000  # samples of the longest test: its tables take a second
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
    wanted = ndtri(1 - alpha) * spread[0] + ndtri(power) * spread[1]
    fixed = max(5.0, (float(wanted) / (rate - limit)) ** 2)  # about what a fixed number takes
    longest = math.ceil(LONGEST * fixed)
    while longest <= MOST:
        tried = _lowest(_Bounds(limit, rate, 0.0, -WIDEST, longest), alpha)
        if tried.power(rate) >= power:
            return longest
        longest *= 2
    raise UsageError(
        f"up to {longest} samples would show a rate of {rate:g} beyond {limit:g}, and a plan "
        f"looks up to {MOST}; choose a limit that is farther away."
    )


def _lowest(bounds: _Bounds, alpha: float) -> _Bounds:
    """The lowest bound that rejects a true claim with a probability of at most alpha."""

    def valid(reject: float) -> bool:
        return bounds._replace(reject=reject).power(bounds.limit) <= alpha

    # Ville's inequality holds for the likelihood ratio
    return bounds._replace(reject=bisect(valid, 0.0, -math.log(alpha), HALVINGS)[1])
