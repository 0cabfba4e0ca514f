"""The documents of a store: rows with or without a label."""

from __future__ import annotations

from functools import partial

from leakbound.auditing.prepare.rows import load_data, public_task, rows_and_task
from leakbound.auditing.spec.groups import Design
from leakbound.errors import DataError
from leakbound.tasks import Context, Example, Task
from leakbound.tasks.rows.fields import (
    INPUT_FIELDS,
    LABEL_FIELDS,
    EmptyField,
    first_usual,
    no_usual_name,
)
from leakbound.tasks.rows.row_checks import examples_of, warn_of_rows
from leakbound.tasks.rows.sources import SourceRow, source_rows

DOCUMENTS = Task("documents", input_name="Document", label_name="Answer")


def documents_and_task(
    design: Design, rows: Context | None, task: Task | None
) -> tuple[Context, Task]:
    """The rows of a store, and their task."""
    if rows is None:
        rows = _read(design)
    if rows is None:
        found, named = load_data(design)
        return found, task or named
    fixed = task or public_task(design, own_rows=True)
    if fixed is None and design.task is None and not any(row.label for row in rows):
        warn_of_rows(rows, DOCUMENTS)
        return rows, DOCUMENTS
    return rows_and_task(design.model_copy(update={"data": None}), rows, task)


def _read(design: Design) -> Context | None:
    """Rows of one field; None where a label is named, or has its usual name."""
    plain = design.task is None and design.label_field is None and design.input_template is None
    if design.data is None or not plain:
        return None
    rows, where = source_rows(design.data, design.delimiter, design.encoding), repr(design.data)
    names = [str(name) for name in rows[0].fields]
    if first_usual(LABEL_FIELDS, names) is not None:
        return None
    field = design.input_field or first_usual(INPUT_FIELDS, names)
    if field is None:
        raise no_usual_name(where, None, "", [names])
    return examples_of(where, rows, partial(_document, field), design.drop_empty)


def _document(field: str, row: SourceRow) -> Example:
    place, fields = row
    text = fields.get(field)
    blank = text is None or text != text  # tables say NaN of what is missing
    if field in fields and (blank or (isinstance(text, str) and not text.strip())):
        raise EmptyField(place, field)
    if not isinstance(text, str):
        raise DataError(f"{place} has no text in the field {field!r}; fill it in, or leave it out.")
    return Example(text, "")
