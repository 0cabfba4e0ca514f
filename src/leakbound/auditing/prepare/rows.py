"""The private rows that a spec names, and their task."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from leakbound.auditing.design.pairs import FILLER, PLANTED, ROLES, generator
from leakbound.auditing.spec.audit_spec import AuditSpec
from leakbound.auditing.spec.groups import Design
from leakbound.auditing.spec.staged import STAGED
from leakbound.errors import DataError, UsageError
from leakbound.privacy import NonPrivate
from leakbound.systems import SharedStore, SystemMechanism, require_store
from leakbound.systems.staged import as_staged
from leakbound.tasks import Context, Example, Mechanism, Task, as_context
from leakbound.tasks.named_tasks import NamedTask, task_by_name
from leakbound.tasks.rows.datasets import (
    as_examples,
    examples_of,
    infer_task,
    inline_rows,
    load_rows,
    require_classes,
    table_rows,
    warn_of_rows,
)
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
from leakbound.tasks.synthetic import HELP_DESK, help_desk
from leakbound.tasks.synthetic_images import PSEUDO_NAMES, pseudo_names

LOG = logging.getLogger("leakbound.data")
FIELD_KEYS = ("input_field", "label_field", "input_template", "drop_empty")
SYNTHETIC_ROWS = 400
GENERATION = infer_task((), "generation")


def load_data(design: Design) -> tuple[Context, Task]:
    _one_source(design)
    rows, task = _load(design)
    return rows, _with_messages(task, design)


def _load(design: Design) -> tuple[Context, Task]:
    fixed = public_task(design)
    if (named := task_by_name(design.task)) is not None:
        rows = _name_of(design, named)
    elif design.rows is not None:
        rows = as_examples(
            inline_rows(design.rows), "the configuration", *_fields(design),
            drop_empty=design.drop_empty,
        )  # fmt: skip
    elif design.data is not None:
        rows = load_rows(design.data, *_fields(design), design.drop_empty, design.delimiter,
                         design.encoding)  # fmt: skip
    elif design.task in (None, "help_desk"):
        return help_desk(SYNTHETIC_ROWS, generator(design.seed, "data")), HELP_DESK
    elif design.task == "pseudo_names":
        return pseudo_names(SYNTHETIC_ROWS, generator(design.seed, "data")), PSEUDO_NAMES
    else:
        raise UsageError(
            f"the task {design.task!r} needs data; give a file with --data, or --task help_desk."
        )
    return rows, task_of(rows, design.task, fixed)


def rows_and_task(
    design: Design, rows: Context | None = None, task: Task | None = None
) -> tuple[Context, Task]:
    """Rows and their task, where a caller may hand over either; what looks odd is logged."""
    if rows is None:
        found, named = load_data(design)
    elif design.data or design.data_dir:
        raise UsageError("rows are handed over, and data names others; leave one of them out.")
    else:
        found, named = rows, task or task_of(rows, design.task, public_task(design, own_rows=True))
    if rows is not None or names_rows(design):
        warn_of_rows(found, task or named)
    return found, _with_messages(task or named, design)


def _with_messages(task: Task, design: Design) -> Task:
    """The task as the design shows it to an instruct model."""
    shown = design.system_message
    return task if shown is None else replace(task, system_message=shown)


def names_rows(design: Design) -> bool:
    """Whether a configuration names rows, or a task that knows where its rows are."""
    given = (design.data, design.rows, design.data_dir)
    return task_by_name(design.task) is not None or any(one is not None for one in given)


def public_task(design: Design, own_rows: bool = False) -> Task | None:
    """The task as far as the configuration fixes it, before a row is read."""
    own_rows = own_rows or design.rows is not None or design.data is not None
    name = design.task or (None if own_rows else "help_desk")
    if design.labels is not None:
        if name == "help_desk" and design.task is None:
            raise UsageError(
                "labels are given, and the bundled help-desk rows have labels of their own; name "
                "your rows with --data, or leave --labels out."
            )
        if name not in (None, "classification"):
            raise UsageError(
                f"labels are given, and the task {name} fixes what is answered; leave one of them "
                "out."
            )
        return Task("classification", tuple(design.labels))
    if (named := task_by_name(name)) is not None:
        return named.task
    return {"help_desk": HELP_DESK, "pseudo_names": PSEUDO_NAMES, "generation": GENERATION}.get(
        name or ""
    )


def public_fields(design: Design) -> tuple[str | None, str | None]:
    """The fields as far as the configuration names them, before a row is read."""
    field, label, template = _fields(design)
    return template or (f"{{{field}}}" if field else None), label


def require_public(task: Task | None, mechanism: Mechanism) -> None:
    """Refuse to infer labels where something is guaranteed: every prompt would show them."""
    guaranteed = mechanism.needs and not isinstance(mechanism.guarantee, NonPrivate)
    if task is None and guaranteed:
        raise UsageError(
            f"{mechanism.name} gives a guarantee, so its labels have to be public. Labels taken "
            "from the private rows would be in every prompt and might be released. Name public "
            "ones (--labels work,home), or the task (--task generation, or one by name)."
        )


def task_of(rows: Context, name: str | None, fixed: Task | None = None) -> Task:
    """Find the task of a name, or the one that the labels speak for."""
    named = task_by_name(name)
    task = fixed or (infer_task(rows, name) if named is None else named.task)
    if task.labels and not {row.label for row in rows} <= set(task.labels):
        raise DataError(_unknown_labels(name, task))
    if fixed is None:  # of public labels, no row decides
        require_classes(task, rows)
    return task


def _unknown_labels(name: str | None, task: Task) -> str:
    # names no label of a row: it is private
    known = ",".join(task.labels)
    if name in (None, "classification"):
        return (
            f"some rows have a label that is none of those given with --labels ({known}), which "
            "must name every label of the data, spelled the same; name the others too, or leave "
            "their rows out."
        )
    return (
        f"some rows have a label that the task {name} does not know; its labels are {known}. Leave "
        "these rows out, or name the labels of the data with --labels and without this --task."
    )


def _one_source(design: Design) -> None:
    # the bundled rows have no fields to name
    flags = {
        "--input-field": design.input_field, "--input-template": design.input_template,
        "--label-field": design.label_field, "--delimiter": design.delimiter,
        "--encoding": design.encoding,
    }  # fmt: skip
    given = next((flag for flag, value in flags.items() if value is not None), None)
    if given is not None and not names_rows(design):
        raise UsageError(
            f"{given} says how your rows are read, and none are given; name them with --data, or "
            f"leave {given} out."
        )
    if design.data == "":
        raise UsageError("data is empty; it must be a file or folder of rows, or hf:<id>.")
    places = [name for name in ("data", "rows", "data_dir") if getattr(design, name) is not None]
    if len(places) > 1:
        raise UsageError(
            f"rows come from one place, and {' and '.join(places)} are given; leave all but one "
            "out."
        )
    if design.data_dir is not None and task_by_name(design.task) is None:
        raise UsageError(
            "--data-dir holds the rows of named tasks; add --task NAME (leakbound list tasks), or "
            "use --data."
        )
    if task_by_name(design.task) is not None and any(_fields(design)):
        raise UsageError(
            f"the task {design.task} knows its fields; leave --input-field, --label-field and "
            "--input-template out."
        )


def rows_given(rows: object, design: Design) -> Context:
    """Rows that a caller hands over: examples, pairs, or a table with named columns."""
    # an iterator is read once
    given = [*rows] if isinstance(rows, Iterator) else rows
    table = table_rows(given)
    if table is None:
        return as_context(cast("Iterable[Example]", given))
    return as_examples(table, "rows", *_fields(design), drop_empty=design.drop_empty)


def _fields(design: Design) -> tuple[str | None, str | None, str | None]:
    # of the field map; a line break is written \n on the command line
    template = (
        design.input_template.replace("\\n", "\n") if design.input_template is not None else None
    )
    return design.input_field, design.label_field, template


def _name_of(design: Design, named: NamedTask) -> Context:
    if design.rows is not None:
        return named.examples(inline_rows(design.rows), design.drop_empty)
    return named.rows(design.data, design.data_dir, design.delimiter, design.drop_empty,
                      design.encoding)  # fmt: skip


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
    names = [str(name) for name in with_chats(next(iter(read))).fields]
    if first_usual((*LABEL_FIELDS, *map(answer_of, CHATS)), names) is not None:
        return None
    field = design.input_field or first_usual(INPUT_FIELDS, names)
    if field is None:
        raise no_usual_name(where, None, "", [names])
    return examples_of(where, map(with_chats, read), partial(_document, field), design.drop_empty)


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
    beside = (FILLER,) if insertion == "replace" else ()
    return replace(adapter, system=shared, shared=True), others, beside


def share_staged(
    spec: AuditSpec, mechanism: Mechanism, rows: Context
) -> tuple[SystemMechanism, Context, Context]:
    layout = spec.design.layout
    adapter = require_system(mechanism, layout)
    system = as_staged(
        adapter.system, adapter.name, adapter.calls, store=STAGED[layout].deleted
    )  # fmt: skip
    if len(rows) < ROLES:
        raise DataError(
            f"a pair of a {layout} design takes {ROLES} rows, and the data has {len(rows)}; use "
            "more data."
        )
    needed = ROLES * (spec.design.pairs + 3 * spec.design.controls)
    if len(rows) < needed:
        LOG.warning(
            "the data has %d rows, and %d pairs of a %s design take %d: rows are used again, and "
            "a cache of the system may answer from before, which can hide a leak. Use more rows, "
            "or fewer --pairs.", len(rows), spec.design.pairs, layout, needed,
        )  # fmt: skip
    return replace(adapter, system=system, shared=True), rows, ()


def require_system(mechanism: Mechanism, layout: str) -> SystemMechanism:
    application: SystemMechanism | None = mechanism.application
    if application is not None:
        return application
    raise UsageError(
        f"a {layout} design plants canaries in a store, and {mechanism.name} is a mechanism that "
        "is shown its examples anew for each answer; give a store with --system, or leave --design "
        "out."
    )
