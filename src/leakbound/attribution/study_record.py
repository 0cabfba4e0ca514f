"""StudyRecord: the versioned result of a study of influence, from which its table, figures and
exports are made. Holds no private text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from leakbound.attribution.record import CONFIDENCE, interval

__all__ = ["NOT_MEASURED", "SCORES", "Mean", "Row", "StudyRecord", "Utility", "study_csv"]

NOT_MEASURED = "not measured"
SCORES = {"rouge_l": "ROUGE-L", "bertscore": "BERTScore", "factkb": "FactKB"}
COUNTS = ("repeat_text", "repeat_program", "rouge_text", "rouge_program")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class Mean(_Frozen):
    """A mean over so many contexts with its t interval; one context alone has an interval without
    end.
    """

    count: int
    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], most: float = np.inf) -> Mean:
        """Of numbers between 0 and `most`."""
        found = interval(np.asarray(values, float))
        return cls(
            count=len(values), mean=found["mean"], low=found["low"], high=min(most, found["high"])
        )


class Utility(_Frozen):
    """How good the responses of a setting are, and how many repeat their context; None where that
    was not measured.

    rouge_l, bertscore: F1 against references; factkb: faithfulness to the context; the four counts:
    regurgitation by the paper's
    text and by its program.
    """

    rouge_l: Mean | None = None
    bertscore: Mean | None = None
    factkb: Mean | None = None
    repeat_text: int | None = None
    repeat_program: int | None = None
    rouge_text: int | None = None
    rouge_program: int | None = None


class Row(_Frozen):
    """One setting, or one position:

    where it stands in the figure, its influence, and the utility where a setting has one.
    """

    setting: str
    line: str
    x: float
    influence: Mean
    utility: Utility | None = None


class StudyRecord(_Frozen):
    """One study: its rows, what made them, and why a column was not measured."""

    schema_version: Literal[1] = 1
    kind: Literal["influence-study"] = "influence-study"
    study: str
    factor: str
    models: tuple[str, ...]
    contexts: int
    confidence: float = CONFIDENCE
    rows: tuple[Row, ...]
    not_measured: dict[str, str]
    notes: tuple[str, ...]
    settings: dict[str, Any]
    provenance: dict[str, str]

    def to_json(self) -> str:
        """Stable text: equal records give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"


def study_csv(record: StudyRecord) -> str:
    """One line for every row; utility stands beside the settings, and is blank beside positions
    within a run.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    scores = [f"{name}_{part}" for name in SCORES for part in ("mean", "low", "high")]
    writer.writerow(["study", "setting", "line", "x", "contexts", *(f"influence_{p}" for p in ("mean", "low", "high")), *scores, *COUNTS])  # fmt: skip
    for row in record.rows:
        head = (record.study, row.setting, row.line, row.x, row.influence.count)
        writer.writerow([*head, *_numbers(row.influence), *_utility(row.utility)])
    return buffer.getvalue()


def _numbers(mean: Mean | None) -> tuple[Any, ...]:
    return (NOT_MEASURED,) * 3 if mean is None else (mean.mean, mean.low, mean.high)


def _utility(utility: Utility | None) -> list[Any]:
    if utility is None:
        return [""] * (3 * len(SCORES) + len(COUNTS))
    scores = [cell for name in SCORES for cell in _numbers(getattr(utility, name))]
    counts = [getattr(utility, name) for name in COUNTS]
    return scores + [NOT_MEASURED if count is None else count for count in counts]
