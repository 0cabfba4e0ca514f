"""Anytime-valid statistics for any task of inspect_ai: rates, differences, and when to stop.

Samples count in the order of the dataset, which is fixed before anything is asked. They should be
in random order (`--sample-shuffle`): where the hard ones come last, no early end is fair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, TypeVar

from inspect_ai.log import EvalLog
from inspect_ai.scorer import SampleScore, Score, value_to_float
from inspect_ai.util import EarlyStop

from leakbound.errors import DataError, UsageError
from leakbound_hosts.inspect.stopping import (
    active_model,
    open_log,
    require_one_epoch,
    require_samples,
)
from leakbound_hosts.rates import PlannedRateTest, RateBounds, RateTest, rate_bounds

T = TypeVar("T")
AnyRateTest: TypeAlias = RateTest | PlannedRateTest


class _Identified(Protocol):
    @property
    def id(self) -> str | int | None:
        """Its id."""


class StopAtRate:
    """Ends an evaluation once its rate was shown to lie above one limit, or below another.

    With a planned rate, it also ends once that rate has become unlikely.

    A rate is the mean of the scores of one scorer, as numbers in [0, 1]: an accuracy, for example.

    Models that are evaluated at once are told apart by their names.

    Guarantee:
        The wrong side is shown with probability at most 1 - confidence, however many samples run at
        once and however often the tests are read.
    """

    def __init__(
        self,
        above: float | None = None,
        below: float | None = None,
        confidence: float = 0.95,
        scorer: str | None = None,
        planned: float | None = None,
        power: float = 0.9,
    ) -> None:
        limits: dict[Literal["above", "below"], float | None] = {"above": above, "below": below}
        self._limits = {side: one for side, one in limits.items() if one is not None}
        if not self._limits:
            raise UsageError("no limit is given; give above=..., below=..., or both.")
        self._each = 1 - (1 - confidence) / len(self._limits)
        self.confidence, self.scorer = confidence, scorer
        self.planned, self.power = planned, power
        self._tests()  # refuses wrong values before anything is asked
        self._running: dict[str, _RunningRate] = {}

    async def start_task(self, task: object, samples: Sequence[_Identified], epochs: int) -> str:
        require_one_epoch(epochs)
        order = [sample.id for sample in samples]
        self._running[active_model()] = _RunningRate(self._tests(), order)
        return "leakbound anytime-valid rate"

    def _tests(self) -> list[AnyRateTest]:
        if self.planned is None:
            return [RateTest(limit, side, self._each) for side, limit in self._limits.items()]
        (side, limit), *others = self._limits.items()
        if others or (self.planned > limit) != (side == "above"):
            raise UsageError(
                f"planned is {self.planned!r}; it must lie beyond the one limit that is given, as "
                "in above=0.5, planned=0.6."
            )
        return [PlannedRateTest(limit, self.planned, self.power, self._each)]

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        """Skip a sample once the rate is decided."""
        ended = self._running[active_model()].ended
        return None if ended is None else EarlyStop(id=id, epoch=epoch, reason=ended)

    async def complete_sample(
        self, id: str | int, epoch: int, scores: Mapping[str, SampleScore]
    ) -> None:
        """Take in a score; it counts once all samples before it are scored."""
        score = _number(_choose(scores, self.scorer).score)
        self._running[active_model()].add(id, score)

    async def complete_task(self) -> dict[str, object]:
        running = self._running.pop(active_model())
        found = _bounds(running.scores, self.confidence)
        return {"shown": running.ended or "nothing", "rate": found.mean, "lower": found.lower,
                "upper": found.upper, "samples": found.samples}  # fmt: skip


class _RunningRate:
    """The scores of one evaluation, as they come, and the tests that read them in their order."""

    def __init__(self, tests: list[AnyRateTest], order: list[str | int | None]) -> None:
        self._tests, self._order = tests, order
        self._waiting: dict[str | int | None, float | None] = {}
        self.scores: list[float | None] = []
        self.ended: str | None = None

    def add(self, id: str | int, score: float | None) -> None:
        """Take in a score; the first of a sample counts, once all before it are there."""
        self._waiting.setdefault(id, score)
        while len(self.scores) < len(self._order) and self.ended is None:
            if (at := self._order[len(self.scores)]) not in self._waiting:
                return
            self._take(self._waiting[at])

    def _take(self, score: float | None) -> None:
        self.scores.append(score)
        for test in self._tests:
            test.observe([(0.0 if test.side == "above" else 1.0) if score is None else score])
            if test.rejected:
                after = f"after {test.rejected_at} samples"
                self.ended = f"the rate is {test.side} {test.limit:g}, {after}"
            elif isinstance(test, PlannedRateTest) and test.gave_up:
                self.ended = f"nothing, given up after {len(self.scores)} samples"


@dataclass(frozen=True, slots=True)
class _LogDifference:
    """How much higher the rate of one log is than that of another, on the same samples."""

    mean: float
    lower: float
    upper: float
    samples: int
    e_value: float


def rate_of_log(
    log: EvalLog | str | Path, scorer: str | None = None, confidence: float = 0.95
) -> RateBounds:
    """Mean and bounds of the scores of a log, also of one that ended early."""
    return _bounds(_scores(_open(log), scorer), confidence)


def compare_logs(
    first: EvalLog | str | Path,
    second: EvalLog | str | Path,
    scorer: str | None = None,
    confidence: float = 0.95,
) -> _LogDifference:
    """Paired difference of two logs of one dataset: two models, or two prompts."""
    logs = _open(first), _open(second)
    ids = [log.eval.dataset.sample_ids for log in logs]
    if ids[0] != ids[1]:
        raise DataError(
            "the logs are not of the same samples in the same order; evaluate both with the same "
            "dataset, --limit and --sample-shuffle seed."
        )
    both = zip(*(_scores(log, scorer) for log in logs), strict=False)
    halves = [None if None in (a, b) else (1 + (a or 0) - (b or 0)) / 2 for a, b in both]
    found, test = _bounds(halves, confidence), RateTest(0.5, "above", confidence)
    test.observe(list(_fill(halves, 0.0)))
    mean, lower, upper = (2 * one - 1 for one in (found.mean, found.lower, found.upper))
    return _LogDifference(mean, lower, upper, found.samples, test.e_value)


def _open(log: EvalLog | str | Path) -> EvalLog:
    return log if isinstance(log, EvalLog) else open_log(log)


def _scores(log: EvalLog, scorer: str | None) -> list[float | None]:
    """In the order of the dataset, up to the last sample with a score."""
    require_samples(log)
    found = {
        one.id: _number(_choose(one.scores, scorer)) for one in log.samples or [] if one.scores
    }
    every = [found.get(id) for id in log.eval.dataset.sample_ids or []]
    while every and every[-1] is None:
        every.pop()
    return every


def _choose(scores: Mapping[str, T], scorer: str | None) -> T:
    if scorer is None and len(scores) == 1:
        return next(iter(scores.values()))
    if scorer is None or scorer not in scores:
        raise UsageError(f"scorer is {scorer!r}; it must be one of {', '.join(scores) or 'none'}.")
    return scores[scorer]


def _number(score: Score) -> float | None:
    """The value in [0, 1]; None for a sample that could not be scored."""
    if isinstance(score.value, Mapping | Sequence) and not isinstance(score.value, str):
        raise DataError("a score has several values; a rate needs one number for each sample.")
    found = float(value_to_float()(score.value))
    if math.isnan(found):
        return None
    if not 0 <= found <= 1:
        raise DataError(f"a score is {found:g}; a rate needs scores between 0 and 1.")
    return found


def _bounds(scores: Sequence[float | None], confidence: float) -> RateBounds:
    """Each bound with what speaks against it in place of scores that are missing."""
    known = [one for one in scores if one is not None]
    low = rate_bounds(list(_fill(scores, 0.0)), confidence)
    if len(known) == len(scores):
        return low
    mean = sum(known) / len(known) if known else math.nan
    high = rate_bounds(list(_fill(scores, 1.0)), confidence)
    return replace(low, mean=mean, upper=high.upper)


def _fill(scores: Sequence[float | None], value: float) -> Iterator[float]:
    return (value if one is None else one for one in scores)
