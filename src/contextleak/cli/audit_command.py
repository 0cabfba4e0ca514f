"""contextleak audit: one system over your rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import yaml

from contextleak.auditing import AuditSpec, load_spec, prepare, run_audit
from contextleak.auditing.store import write_private
from contextleak.cli.progress import progress
from contextleak.errors import UsageError
from contextleak.report import page, summary

__all__ = ["EXIT", "command"]

EXIT = {"consistent": 0, "violation": 1, "inconclusive": 3}


def _kind(annotation: Any) -> Any:
    """The click type of a spec field: its plain type, with None left out."""
    inner = [part for part in get_args(annotation) if part in (str, int, float)] or [annotation]
    return inner[0] if inner[0] in (str, int, float) else str


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """One option for every field of AuditSpec, so command line and configuration never drift apart."""
    for name, info in reversed(AuditSpec.model_fields.items()):
        shown = "" if info.default in (None, "") else f" [default: {info.default}]"
        text = f"{info.description}{shown}"
        flag = f"--{name.replace('_', '-')}"
        function = click.option(flag, name, type=_kind(info.annotation), default=None, help=text)(function)
    return function


@click.command(context_settings={"auto_envvar_prefix": "CONTEXTLEAK", "help_option_names": ["-h", "--help"]})
@spec_options
@click.option("--config", type=str, default=None, help="YAML file of these options; flags win over it")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="any configuration key, as in the file")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="where runs are kept"
)
@click.option("--fresh", is_flag=True, help="collect again, although a run of the same audit is there")
def command(config: str | None, assignments: tuple[str, ...], out: Path, fresh: bool, **flags: Any) -> int:
    """Audit one system: worlds with and without a canary, a bound, a verdict on the claim.

    Without --data the bundled help-desk task is used. Ends with 0 (no violation), 1 (violation) or 3 (inconclusive).
    """
    given = {name: value for name, value in flags.items() if value is not None}
    prepared = prepare(load_spec(config, {**dict(map(_assignment, assignments)), **given}))
    if fresh:
        _set_aside(out / prepared.name)
    with progress(prepared.name) as show:
        record, folder = run_audit(prepared, out, show)
    write_private(folder / "report.html", page([record]))
    click.echo(summary(record))
    click.echo(f"  Report: {folder / 'report.html'}")
    return EXIT[record.verdict]


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set got {text!r}; it must be KEY=VALUE, such as --set pairs=200.")
    return key.strip(), yaml.safe_load(value)


def _set_aside(folder: Path) -> None:
    """Nothing is deleted: the old run moves to the first free name beside it."""
    if folder.exists():
        number = next(i for i in range(1, 10_000) if not folder.with_name(f"{folder.name}.old{i}").exists())
        folder.rename(folder.with_name(f"{folder.name}.old{number}"))
