"""StudyRecord: the versioned result of a study of influence, without private text."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import PrivateAttr

from leakbound._records import Frozen
from leakbound.attribution.record import CONFIDENCE, interval

NOT_MEASURED = "not measured"
SCORES = {"rouge_l": "ROUGE-L", "bertscore": "BERTScore", "factkb": "FactKB"}
COUNTS = ("repeat_text", "repeat_program", "rouge_text", "rouge_program")


@dataclass(frozen=True, slots=True, eq=False)
class _ByContext:
    """The values behind a mean. No record stores them, so all compare equal."""

    values: tuple[float, ...] = ()
    contexts: tuple[int, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByContext)

    def __hash__(self) -> int:
        return 0


class Mean(Frozen):
    """A mean over contexts with its t interval."""

    count: int
    mean: float
    low: float
    high: float
    _by_context: _ByContext = PrivateAttr(default_factory=_ByContext)

    @property
    def values(self) -> tuple[float, ...]:
        """(count,) the value of each context; empty if the record was loaded."""
        return self._by_context.values

    @property
    def contexts(self) -> tuple[int, ...]:
        """(count,) the index of the context of each value, from 0."""
        return self._by_context.contexts

    @classmethod
    def of(
        cls, values: Sequence[float], most: float = np.inf, contexts: Sequence[int] = ()
    ) -> Mean:
        found = interval(np.asarray(values, float))
        mean = cls(
            count=len(values), mean=found["mean"], low=found["low"], high=min(most, found["high"])
        )
        mean._by_context = _ByContext(
            tuple(map(float, values)), tuple(contexts) or tuple(range(len(values)))
        )
        return mean


class Utility(Frozen):
    """How good the responses of a setting are, and how many repeat their context.

    A value is None if it was not measured.
    """

    rouge_l: Mean | None = None
    bertscore: Mean | None = None
    factkb: Mean | None = None
    repeat_text: int | None = None
    repeat_program: int | None = None
    rouge_text: int | None = None
    rouge_program: int | None = None


class StudyRow(Frozen):
    """One setting, or one position within a run."""

    setting: str
    line: str
    x: float
    influence: Mean
    utility: Utility | None = None


class StudyRecord(Frozen):
    """One study: its rows, what produced them, and why a column was not measured."""

    schema_version: Literal[1] = 1
    kind: Literal["influence-study"] = "influence-study"
    study: str
    factor: str
    models: tuple[str, ...]
    contexts: int
    confidence: float = CONFIDENCE
    rows: tuple[StudyRow, ...]
    not_measured: dict[str, str]
    notes: tuple[str, ...]
    settings: dict[str, object]
    provenance: dict[str, str]

    def to_json(self) -> str:
        """Stable text: equal records give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"


def study_csv(record: StudyRecord) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    scores = [f"{name}_{part}" for name in SCORES for part in ("mean", "low", "high")]
    influence = [f"influence_{part}" for part in ("mean", "low", "high")]
    writer.writerow(["study", "setting", "line", "x", "contexts", *influence, *scores, *COUNTS])
    for row in record.rows:
        head = (record.study, row.setting, row.line, row.x, row.influence.count)
        writer.writerow([*head, *_numbers(row.influence), *_utility(row.utility)])
    return buffer.getvalue()


def _numbers(mean: Mean | None) -> tuple[str | float, ...]:
    return (NOT_MEASURED,) * 3 if mean is None else (mean.mean, mean.low, mean.high)


def _utility(utility: Utility | None) -> list[str | float]:
    if utility is None:
        return [""] * (3 * len(SCORES) + len(COUNTS))
    scores = [cell for name in SCORES for cell in _numbers(getattr(utility, name))]
    counts = [getattr(utility, name) for name in COUNTS]
    return [*scores, *(NOT_MEASURED if count is None else count for count in counts)]
