"""leakbound list: the catalogues."""

from __future__ import annotations

import inspect
from typing import Any

import click

from leakbound.attacks import CANARIES, QUERIES, SCORES
from leakbound.errors import unknown_name
from leakbound.mechanisms import MECHANISMS
from leakbound.models.address import ADDRESSES
from leakbound.tasks.named_tasks import NAMED_TASKS, NamedTask

__all__ = ["command"]

CATALOGUES: dict[str, dict[str, Any]] = {
    "mechanisms": MECHANISMS, "attacks": QUERIES, "canaries": CANARIES, "scores": SCORES, "models": ADDRESSES,
    "tasks": NAMED_TASKS,
}  # fmt: skip


@click.command()
@click.argument("catalogue", required=False)
def command(catalogue: str | None) -> int:
    """Show one catalogue, or all: mechanisms, attacks, canaries, scores, models, tasks."""
    if catalogue is not None and catalogue not in CATALOGUES:
        raise unknown_name("the catalogue", catalogue, CATALOGUES)
    for name in [catalogue] if catalogue else CATALOGUES:
        click.echo(name)
        for key, value in CATALOGUES[name].items():
            click.echo(f"  {key:<18} {_line(value)}")
    return 0


def _line(value: Any) -> str:
    if isinstance(value, NamedTask):
        return f"{value.about} [{', '.join(value.task.labels) or 'generation'}]"
    text = value if isinstance(value, str) else (inspect.getdoc(value) or "").split("\n")[0]
    access = getattr(value, "access", None)
    shown = (
        ", ".join(sorted(access))
        if isinstance(access, frozenset)
        else access
        if isinstance(access, str)
        else ""
    )
    notes = "; ".join(
        note for note in (getattr(value, "tasks", ""), shown) if isinstance(note, str) and note
    )
    return f"{text} [{notes}]" if notes else text
