"""Private rows as examples, from any source, with a field map.

Every bad row gets a sentence before any model call.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from leakbound.errors import DataError
from leakbound.models.content import content_key
from leakbound.tasks.chat import with_chats
from leakbound.tasks.example import Context
from leakbound.tasks.images import image_below
from leakbound.tasks.rows.fields import IMAGE, guess
from leakbound.tasks.rows.row_checks import LOG, examples_of
from leakbound.tasks.rows.sources import SourceRow, source_rows
from leakbound.tasks.task import Task

TASKS = ("classification", "generation")
MAX_CLASSES = 20  # with more distinct labels, answers are taken for free texts


def load_rows(
    path: str | Path, input_field: str | None = None, label_field: str | None = None,
    input_template: str | None = None, drop_empty: bool = False, delimiter: str | None = None,
    encoding: str | None = None,
) -> Context:  # fmt: skip
    """All rows of a source as examples."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    rows = source_rows(str(path), delimiter, encoding)
    return as_examples(
        rows, repr(str(path)), input_field, label_field, input_template, folder, drop_empty
    )


def as_examples(
    rows: Sequence[SourceRow], where: str, input_field: str | None = None,
    label_field: str | None = None, input_template: str | None = None, folder: Path = Path(),
    drop_empty: bool = False,
) -> Context:  # fmt: skip
    """Rows of a source as examples; fields that are not named have the same usual names in each.

    Which fields were found is logged under the name leakbound.data, and so is what is left out.
    """
    rows = [with_chats(row) for row in rows]
    names = ([str(key) for key in row.fields] for row in rows)
    fields = guess(names, where, input_field, label_field, input_template)
    if label_field is None or not (input_field or input_template):
        LOG.info(
            "%s: the input is %s and the label is %s, %s; choose others with --input-field (or "
            "--input-template) and --label-field.",
            where, fields.template.replace("\n", "\\n"), fields.label,
            "the first as named, the second by a usual name" if input_field or input_template
            else "the second as named, the first by a usual name" if label_field
            else "found by the usual names of fields",
        )  # fmt: skip
    found = [_with_image(row, folder) for row in rows] if IMAGE in fields.names else rows
    return examples_of(where, found, fields.example, drop_empty)


def _with_image(row: SourceRow, folder: Path) -> SourceRow:
    name = row.fields.get(IMAGE)
    if not isinstance(name, str | int | float) or name == "":
        return row  # what is empty or no name has its own sentence
    image = image_below(folder, str(name), row.place)
    return SourceRow(row.place, {**row.fields, IMAGE: image})


def inline_rows(rows: object) -> list[SourceRow]:
    """Rows that stand in a configuration."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(
            "rows must be a list of objects with named fields, such as 'rows: [{text: ..., label: "
            "...}, ...]', and not empty."
        )
    places = (f"row {number} of the configuration" for number in range(1, len(rows) + 1))
    return [SourceRow(place, row) for place, row in zip(places, rows, strict=True)]


def infer_task(rows: Context, name: str | None = None) -> Task:
    """Classification where the labels are few and recur, else generation."""
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
            "all rows have the same label; a classification data set needs at least two "
            "classes. Check the label field, or choose --task generation."
        )


def fingerprint(rows: Context) -> str:
    """A hash of the rows, for provenance and resuming."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([content_key(row.input), row.label]).encode())
    return digest.hexdigest()[:16]
