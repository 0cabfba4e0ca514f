"""Early stopping by e-value: valid at every look, in whatever order samples are completed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile, ZipFile

from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import get_model
from inspect_ai.scorer import value_to_float
from inspect_ai.util import EarlyStop

from leakbound.errors import DataError, UsageError
from leakbound_hosts.inspect.pairs import KEY, PairAnswers, RunningAudit


class _HasMetadata(Protocol):
    """What a sample has, and a score."""

    @property
    def metadata(self) -> Mapping[str, Mapping[str, object]] | None:
        """Values by name."""


class _ScoredSample(Protocol):
    """An `inspect_ai.scorer.SampleScore`."""

    @property
    def score(self) -> _HasMetadata:
        """Its score."""

    @property
    def sample_metadata(self) -> Mapping[str, Mapping[str, object]] | None:
        """Metadata of the sample."""


@dataclass(frozen=True, slots=True, repr=False)
class _AnsweredPair:
    """A sample of an audit with its answers (PRIVATE)."""

    settings: str
    model: str
    answers: PairAnswers


def answers_in(scored: _ScoredSample) -> _AnsweredPair | None:
    """The answers that a score holds."""
    found = (scored.score.metadata or {}).get(KEY)
    about = (scored.sample_metadata or {}).get(KEY)
    if found is None or about is None:
        return None
    settings = json.dumps(about["audit"], sort_keys=True)
    return _AnsweredPair(settings, str(found["model"]), PairAnswers.of_json(found))


def require_one_epoch(epochs: int) -> None:
    """Refuse epochs: those of one sample are not independent trials."""
    if epochs > 1:
        raise UsageError(
            f"there are {epochs} epochs; epochs of one sample are not independent trials, and "
            "their mean is known after the last one only. Leave --epochs out, and use more samples."
        )


def active_model() -> str:
    """Who is asked in this place: one manager serves all models that a task is evaluated with."""
    return str(get_model())


class StopWhenRejected:
    """Skips the samples of an audit that are left once its e-process rejects the claim.

    Models that are evaluated at once are told apart by their names.

    Guarantee:
        Where the claim holds, an audit is stopped with a probability of at most 1 - confidence,
        however many samples run at once.
    """

    def __init__(self) -> None:
        self._audits: dict[str, RunningAudit] = {}

    async def start_task(self, task: object, samples: Sequence[object], epochs: int) -> str:
        require_one_epoch(epochs)
        self._audits.pop(active_model(), None)
        return "leakbound e-process"

    async def schedule_sample(self, id: str | int, epoch: int) -> EarlyStop | None:
        """Skip a sample of an audit that has ended."""
        audit = self._audits.get(active_model())
        if audit is None or not audit.ended:
            return None
        reason = f"the claim was rejected after {audit.pairs} pairs"
        return EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(
        self, id: str | int, epoch: int, scores: Mapping[str, _ScoredSample]
    ) -> None:
        asked = active_model()
        for one in filter(None, map(answers_in, scores.values())):
            if asked not in self._audits:
                self._audits[asked] = RunningAudit(one.settings, one.model)
            self._audits[asked].add(one.answers)

    async def complete_task(self) -> dict[str, object]:
        audit = self._audits.pop(active_model(), None)
        if audit is None:
            return {"rejected": False, "pairs": 0}
        return {
            "rejected": audit.ended, "e_value": audit.e_value, "pairs": audit.pairs,
            "pairs_not_counted": audit.held,
        }  # fmt: skip


MOST_UNPACKED = 1 << 31  # bytes of a packed log, as it states them


def open_log(log: str | Path) -> EvalLog:
    with suppress(OSError, BadZipFile), ZipFile(log) as packed:
        if sum(one.file_size for one in packed.infolist()) > MOST_UNPACKED:
            raise DataError(
                f"the log {str(log)!r} unpacks to more than {MOST_UNPACKED >> 20} MB; evaluate "
                "fewer samples in one log, or read it with inspect_ai and give its EvalLog."
            )
    return read_eval_log(str(log))


def require_samples(log: EvalLog) -> None:
    if (log.eval.config.epochs or 1) > 1:
        raise DataError(
            "the log has epochs, which are not independent samples; evaluate without --epochs."
        )


def every_score(log: str | Path) -> Iterator[tuple[str, str, float]]:
    """Scorer, id of the sample and value of each score of a log; NaN where it was not scored."""
    opened, number = open_log(log), value_to_float()
    require_samples(opened)
    for sample in opened.samples or []:
        for scorer, score in (sample.scores or {}).items():
            many = isinstance(score.value, Mapping)
            values = score.value.items() if many else [("", score.value)]
            for part, value in values:
                yield f"{scorer}/{part}" if many else scorer, str(sample.id), number(value)
