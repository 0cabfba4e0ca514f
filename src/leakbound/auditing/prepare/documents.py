"""What an application answers from: documents, with or without a label; and its store."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from leakbound.auditing.design.pairs import FILLER, PLANTED
from leakbound.auditing.design.seeds import generator
from leakbound.auditing.prepare.rows import load_data, names_rows, public_task, rows_and_task
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.spec.groups import Design
from leakbound.errors import DataError, UsageError
from leakbound.systems import SharedStore, SystemMechanism, require_store
from leakbound.tasks import Context, Example, Mechanism, Task
from leakbound.tasks.rows.datasets import examples_of, warn_of_rows
from leakbound.tasks.rows.fields import (
    CHATS,
    INPUT_FIELDS,
    LABEL_FIELDS,
    EmptyField,
    answer_of,
    first_usual,
    no_usual_name,
    with_chats,
)
from leakbound.tasks.rows.sources import SourceRow, source_rows

DOCUMENTS = Task("documents", input_name="Document", label_name="Answer")


def documents_and_task(
    design: Design, rows: Context | None, task: Task | None
) -> tuple[Context, Task]:
    """The rows that an application gets, and their task."""
    if rows is not None and names_rows(design):
        return rows_and_task(design, rows, task)  # which refuses two sources
    rows = _rows_without_label(design) if rows is None else rows
    if rows is None:
        found, named = load_data(design)
        return found, task or named
    fixed = task or public_task(design, own_rows=True)
    if fixed is None and design.task is None and not any(row.label for row in rows):
        warn_of_rows(rows, DOCUMENTS)
        return rows, DOCUMENTS
    return rows_and_task(design.model_copy(update={"data": None}), rows, task)


def _rows_without_label(design: Design) -> Context | None:
    """Rows of one field; None where a label is named, or has its usual name."""
    free = design.task in (None, "generation")
    plain = free and design.label_field is None and design.input_template is None
    if design.data is None or not plain:
        return None
    read, where = source_rows(design.data, design.delimiter, design.encoding), repr(design.data)
    rows = [with_chats(row) for row in read]
    names = [str(name) for name in rows[0].fields]
    if first_usual((*LABEL_FIELDS, *map(answer_of, CHATS)), names) is not None:
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


def share_store(
    spec: AuditSpec, mechanism: Mechanism, rows: Context
) -> tuple[SystemMechanism, Context, Context]:
    """The store that is filled once, the rows left for canaries, and every context beside it."""
    shape, insertion = spec.design, spec.attack.insertion
    held_out = min(shape.pairs + shape.controls, (len(rows) + 1) // 2)
    documents = len(rows) - held_out if shape.documents is None else shape.documents
    if documents >= len(rows):
        raise DataError(
            f"documents is {documents}, and the data has {len(rows)} rows, at least one of which "
            "must be left for the canaries; use fewer --documents, or more data."
        )
    order = generator(shape.seed, "design").permutation(len(rows))
    adapter = require_system(mechanism, "session")
    store = require_store(adapter.system, adapter.name)
    kept = tuple(rows[i] for i in order[:documents])
    shared = SharedStore(store, kept, PLANTED, adapter.calls, adapter.name)
    if insertion == "append":
        raise UsageError(
            "insertion is append, and a session design plants whole records; use add, or replace "
            "(a fixed record takes the place of an absent canary)."
        )
    others = tuple(rows[i] for i in order[documents:])
    return replace(adapter, system=shared), others, (FILLER,) if insertion == "replace" else ()


def require_system(mechanism: Mechanism, layout: str) -> SystemMechanism:
    """Refuse what is not a system of a user."""
    application: SystemMechanism | None = mechanism.application
    if application is not None:
        return application
    raise UsageError(
        f"a {layout} design plants canaries in a store, and {mechanism.name} is a mechanism that "
        "is shown its examples anew for each answer; give a store with --system, or leave --design "
        "out."
    )
