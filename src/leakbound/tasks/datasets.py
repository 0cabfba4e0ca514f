"""Private rows as examples, from any source, with a field map; every bad row gets a sentence before
any model call.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from leakbound.errors import DataError
from leakbound.models.content import content_key
from leakbound.tasks.example import Context
from leakbound.tasks.fields import IMAGE, guess
from leakbound.tasks.images import image_below
from leakbound.tasks.sources import Row, source_rows
from leakbound.tasks.task import Task

__all__ = [
    "TASKS",
    "as_examples",
    "fingerprint",
    "infer_task",
    "inline_rows",
    "read_rows",
    "require_classes",
]

TASKS = ("classification", "generation")
MAX_CLASSES = 20


def read_rows(
    path: str | Path,
    input_field: str | None = None,
    label_field: str | None = None,
    input_template: str | None = None,
) -> Context:
    """All rows of a source (a file's path, or `hf:...`) as examples.

    Fields not named are found by their usual names.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    return as_examples(
        source_rows(str(path)), repr(str(path)), input_field, label_field, input_template, folder
    )


def as_examples(
    rows: list[Row], where: str, input_field: str | None = None, label_field: str | None = None,
    input_template: str | None = None, folder: Path = Path(),
) -> Context:  # fmt: skip
    """Rows of fields as examples; the fields of the first row are looked through for usual names.

    The field `image` holds the path of an image below `folder`.
    """
    fields = guess(
        [str(key) for key in rows[0][1]], where, input_field, label_field, input_template
    )
    found = (_with_image(row, folder) for row in rows) if IMAGE in fields.names else rows
    return tuple(fields.example(row) for row in found)


def _with_image(row: Row, folder: Path) -> Row:
    place, fields = row
    name = fields.get(IMAGE)
    if not isinstance(name, str | int | float) or name == "":
        return row  # what is empty or no name has its own sentence
    return place, {**fields, IMAGE: image_below(folder, str(name), place)}


def inline_rows(rows: Any) -> list[Row]:
    """Rows that stand in a configuration: a list of objects with named fields."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            "rows must be a list of objects with named fields, such as 'rows: [{text: ..., label: "
            "...}, ...]', and not empty."
        )
    return [(f"row {number} of the configuration", row) for number, row in enumerate(rows, 1)]


def infer_task(rows: Context, name: str | None = None) -> Task:
    """Classification where the labels are few and recur, else generation; `name` decides instead."""
    labels = Counter(row.label for row in rows)
    few = len(labels) <= MAX_CLASSES and len(labels) <= max(2, len(rows) // 2)
    if name == "classification" or (name is None and few):
        if len(labels) > 10 * MAX_CLASSES:
            raise DataError(
                f"the data has {len(labels)} distinct labels; a classification task may have at "
                f"most {10 * MAX_CLASSES}."
            )
        return Task("classification", labels=tuple(sorted(labels)))
    return Task("generation", label_name="Output")


def require_classes(task: Task, rows: Context) -> None:
    """Refuse a classification data set with one class only."""
    if task.labels and len({row.label for row in rows}) < 2:
        raise DataError(
            "all rows have one and the same label; a classification data set needs at least two "
            "classes. "
            "Check the label field, or choose --task generation."
        )


def fingerprint(rows: Context) -> str:
    """A hash of the rows, for provenance and resuming; it cannot be turned back into them."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([content_key(row.input), row.label]).encode())
    return digest.hexdigest()[:16]
