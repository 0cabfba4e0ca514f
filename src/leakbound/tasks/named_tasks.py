"""Tasks by name, with their rows, that other packages bring: entry points `leakbound.tasks`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Protocol

from leakbound._catalogue import entries_of, load_entry
from leakbound.errors import IgnoredEntryPoint, UsageError
from leakbound.tasks.example import Context
from leakbound.tasks.rows.sources import SourceRows
from leakbound.tasks.task import Task


class NamedTask(Protocol):
    """A task with its sources."""

    @property
    def task(self) -> Task:
        """Its labels and the words of its prompt."""

    @property
    def about(self) -> str:
        """What its rows are, in a few words."""

    def examples(self, rows: SourceRows, drop_empty: bool = False) -> Context:
        """Rows as examples of this task."""

    def rows(
        self, data: str | None, folder: str | None, delimiter: str | None = None,
        drop_empty: bool = False, encoding: str | None = None,
    ) -> Context:  # fmt: skip
        """The rows of this task: in a file, in a folder of tasks, or where they are public."""


@cache
def tasks_by_name() -> Mapping[str, NamedTask]:
    """Every task by its name; of a name that two packages have, none is meant."""
    found: dict[str, NamedTask] = {}
    twice = set[str]()
    for entry in entries_of("leakbound.tasks"):
        try:
            made = load_entry("the set of tasks", entry)
            if not isinstance(made, Mapping):
                raise UsageError(
                    f"the entry point {entry.name} of leakbound.tasks is {type(made).__name__}; it "
                    "must lead to tasks by their names."
                )
            twice |= {name for name in found.keys() & made.keys() if found[name] is not made[name]}
            found |= made
        except UsageError as error:  # stops nobody who asks for another task
            warnings.warn(str(error), IgnoredEntryPoint, stacklevel=2)
    for name in sorted(twice):
        del found[name]
        many = f"the task {name!r} is that of several packages, so it names none; uninstall one."
        warnings.warn(many, IgnoredEntryPoint, stacklevel=2)
    return found


def task_by_name(name: str | None) -> NamedTask | None:
    """The task of a name, if a package brings it."""
    return None if name is None else tasks_by_name().get(name)
