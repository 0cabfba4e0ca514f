"""Private rows from JSONL and CSV files, with a field map; every bad file gets a sentence before any model call."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contextleak.errors import DataError
from contextleak.icl.exemplar import Context, Exemplar
from contextleak.icl.task import Task

__all__ = ["TASKS", "fingerprint", "infer_task", "read_rows", "require_classes"]

INPUT_FIELDS = ("text", "input", "sentence", "document", "question", "context", "message")
LABEL_FIELDS = ("label", "answer", "summary", "output", "category", "class")
TASKS = ("classification", "generation")
MAX_CLASSES = 20


def read_rows(path: str | Path, input_field: str | None = None, label_field: str | None = None) -> Context:
    """All rows of a .jsonl or .csv file as exemplars. Fields not named are found by their usual names."""
    file = Path(path)
    if not file.is_file():
        raise DataError(
            f"the data file {str(path)!r} does not exist; give a .jsonl or .csv file with one exemplar a row."
        )
    readers = {".jsonl": _jsonl, ".csv": _csv}
    if file.suffix.lower() not in readers:
        raise DataError(f"the data file {str(path)!r} ends in {file.suffix!r}; it must be a .jsonl or .csv file.")
    try:
        rows = list(readers[file.suffix.lower()](file))
    except UnicodeDecodeError:
        raise DataError(f"the data file {str(path)!r} is not UTF-8 text; save it as UTF-8.") from None
    if not rows:
        raise DataError(f"the data file {str(path)!r} holds no rows; it needs at least a few exemplars.")
    return tuple(_exemplars(file, rows, input_field, label_field))


def _jsonl(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, _object(file, number, line)


def _object(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(
            f"line {number} of {str(file)!r} is not JSON ({error.msg}); write one JSON object a line."
        ) from None
    if not isinstance(row, dict):
        raise DataError(
            f"line {number} of {str(file)!r} is a JSON {type(row).__name__}; it must be an object with named fields."
        )
    return row


def _csv(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            yield reader.line_num, row


def _exemplars(
    file: Path, rows: Sequence[tuple[int, dict[str, Any]]], input_field: str | None, label_field: str | None
) -> Iterator[Exemplar]:
    have = [str(key) for key in rows[0][1]]
    x = input_field or _usual(file, "input", INPUT_FIELDS, have)
    y = label_field or _usual(file, "label", LABEL_FIELDS, [name for name in have if name != x])
    for number, row in rows:
        yield Exemplar(_value(file, number, row, x), _value(file, number, row, y))


def _usual(file: Path, what: str, usual: Sequence[str], have: Sequence[str]) -> str:
    for name in usual:
        if name in have:
            return name
    raise DataError(
        f"{str(file)!r} has the fields {', '.join(have)}, none of them a usual name for the {what}; "
        f"name it with --{what}-field."
    )


def _value(file: Path, number: int, row: dict[str, Any], field: str) -> str:
    if field not in row:
        have = ", ".join(str(key) for key in row)
        raise DataError(
            f"line {number} of {str(file)!r} has no field {field!r}; it has {have}. Name the field that holds it."
        )
    value = row[field]
    if value is None or not str(value).strip():
        raise DataError(f"line {number} of {str(file)!r} has an empty field {field!r}; drop the row or fill it.")
    return str(value).strip()


def infer_task(rows: Context, name: str | None = None) -> Task:
    """Classification where the labels are few and recur, else generation; `name` decides instead."""
    labels = Counter(row.label for row in rows)
    few = len(labels) <= MAX_CLASSES and len(labels) <= max(2, len(rows) // 2)
    if name == "classification" or (name is None and few):
        if len(labels) > 10 * MAX_CLASSES:
            raise DataError(
                f"the data has {len(labels)} distinct labels; a classification task may have at most {10 * MAX_CLASSES}."
            )
        return Task("classification", labels=tuple(sorted(labels)))
    return Task("generation", label_name="Output")


def require_classes(task: Task, rows: Context) -> None:
    """Refuse a classification data set with one class only."""
    if task.labels and len({row.label for row in rows}) < 2:
        raise DataError(
            "all rows have one and the same label; a classification data set needs at least two classes. "
            "Check the label field, or choose --task generation."
        )


def fingerprint(rows: Context) -> str:
    """A hash of the rows, for provenance and resuming; it cannot be turned back into them."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([row.input, row.label]).encode())
    return digest.hexdigest()[:16]
