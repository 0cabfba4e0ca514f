"""leakbound list: the catalogues."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import click

from leakbound._catalogue import Catalogue, schemes
from leakbound.auditing.spec.audit_spec import catalogues
from leakbound.cli.screen.help_pages import cli_command
from leakbound.cli.screen.output import emit, say
from leakbound.errors import unknown_name
from leakbound.models.address import ADDRESSES
from leakbound.tasks.named_tasks import tasks_by_name

SYSTEMS = {
    "python:file.py:object": "a callable (context, query), or an object with a method answer",
    "http:file.yaml": "an HTTP service that takes a context",
}
KINDS = ("mechanisms", "queries", "canaries", "scores", "estimators")
CATALOGUES: dict[str, Mapping[str, object]] = {
    **dict(zip(KINDS, catalogues().values(), strict=True)),
    "models": ADDRESSES,
    "systems": SYSTEMS,
    "tasks": {
        name: f"{one.about} [{', '.join(one.task.labels) or 'generation'}]"
        for name, one in tasks_by_name().items()
    },
}


@cli_command("mechanisms")
@click.argument("catalogue", required=False)
def command(catalogue: str | None) -> int:
    """Show one catalogue, or all: mechanisms, queries, canaries, scores, estimators, models,
    systems, tasks. What installed packages register is among them.
    """
    if catalogue is not None and catalogue not in CATALOGUES:
        raise unknown_name("the catalogue", catalogue, CATALOGUES)
    shown = {name: _lines(name) for name in ([catalogue] if catalogue else CATALOGUES)}
    for name, lines in shown.items():
        click.echo(name)
        for key, text in lines:
            say(f"  {key:<18} {text}")
    emit({name: dict(lines) for name, lines in shown.items()})
    return 0


def _lines(name: str) -> list[tuple[str, str]]:
    """Each entry with its first line, then what is wrong with entry points of other packages."""
    listed = CATALOGUES[name]
    if isinstance(listed, Catalogue):
        found: Mapping[str, object] = listed.usable
        wrong = [(key, f"not used: {why}") for key, why in listed.problems.items()]
    else:
        found, wrong = {**listed, **_register(name)}, []
    lines = {
        key: value if isinstance(value, str) else (inspect.getdoc(value) or "").split("\n")[0]
        for key, value in found.items()
    }
    return [*lines.items(), *wrong]


def _register(name: str) -> dict[str, str]:
    """Schemes of addresses that other packages open."""
    if name not in ("models", "systems"):
        return {}
    mark = "/" if name == "models" else ":"
    found = schemes(f"leakbound.{name}")
    others = {scheme: at for scheme, at in found.items() if not at.startswith("leakbound.")}
    return {f"{scheme}{mark}...": f"from {at}" for scheme, at in others.items()}
