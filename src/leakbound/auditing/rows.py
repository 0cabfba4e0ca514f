"""The private rows that a spec names, and their task."""

from __future__ import annotations

from leakbound.auditing.seeds import generator
from leakbound.auditing.spec import AuditSpec
from leakbound.errors import DataError, UsageError
from leakbound.tasks import Context, Task
from leakbound.tasks.datasets import (
    as_examples,
    infer_task,
    inline_rows,
    read_rows,
    require_classes,
)
from leakbound.tasks.named_tasks import NAMED_TASKS, NamedTask
from leakbound.tasks.synthetic import HELP_DESK, help_desk
from leakbound.tasks.synthetic_images import PSEUDO_NAMES, pseudo_names

__all__ = ["load_data", "task_of"]

SYNTHETIC_ROWS = 400


def load_data(spec: AuditSpec) -> tuple[Context, Task]:
    """The private rows and their task, checked. Raises UsageError or DataError with a sentence."""
    _one_source(spec)
    if spec.task in NAMED_TASKS:
        rows = _named(spec, NAMED_TASKS[spec.task])
    elif spec.rows is not None:
        rows = as_examples(inline_rows(spec.rows), "the configuration", *_fields(spec))
    elif spec.data is not None:
        rows = read_rows(spec.data, *_fields(spec))
    elif spec.task in (None, "help_desk"):
        return help_desk(SYNTHETIC_ROWS, generator(spec.seed, "data")), HELP_DESK
    elif spec.task == "pseudo_names":
        return pseudo_names(SYNTHETIC_ROWS, generator(spec.seed, "data")), PSEUDO_NAMES
    else:
        raise UsageError(
            f"the task {spec.task!r} needs data; give a file with --data, or --task help_desk."
        )
    return rows, task_of(rows, spec.task)


def task_of(rows: Context, name: str | None) -> Task:
    """The task of a name, or the one that the labels speak for; refused where they cannot be its
    labels.
    """
    task = NAMED_TASKS[name].task if name in NAMED_TASKS else infer_task(rows, name)
    if task.labels and not {row.label for row in rows} <= set(task.labels):
        raise DataError(
            f"the rows have labels that {name} does not know; its labels are "
            f"{', '.join(task.labels)}."
        )
    require_classes(task, rows)
    return task


def _one_source(spec: AuditSpec) -> None:
    given = [name for name in ("data", "rows", "data_dir") if getattr(spec, name) is not None]
    if len(given) > 1:
        raise UsageError(
            f"rows come from one place, and {' and '.join(given)} are given; leave all but one out."
        )
    if spec.data_dir is not None and spec.task not in NAMED_TASKS:
        raise UsageError(
            "--data-dir holds the rows of named tasks; add --task NAME (leakbound list tasks), or "
            "use --data."
        )
    if spec.task in NAMED_TASKS and any(_fields(spec)):
        raise UsageError(
            f"the task {spec.task} knows its fields; leave --input-field, --label-field and "
            "--input-template out."
        )


def _fields(spec: AuditSpec) -> tuple[str | None, str | None, str | None]:
    """Of the field map; a line break is written \\n on the command line."""
    template = spec.input_template.replace("\\n", "\n") if spec.input_template is not None else None
    return spec.input_field, spec.label_field, template


def _named(spec: AuditSpec, named: NamedTask) -> Context:
    if spec.rows is not None:
        return named.examples(inline_rows(spec.rows))
    return named.rows(spec.data, spec.data_dir)
