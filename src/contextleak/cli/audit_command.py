"""contextleak audit: one system over your rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from contextleak.auditing import prepare, run_audit
from contextleak.auditing.store import write_private
from contextleak.cli.options import SETTINGS, spec_from, spec_options
from contextleak.cli.progress import progress
from contextleak.report import page, summary

__all__ = ["command"]

EXIT = {"consistent": 0, "violation": 1, "inconclusive": 3}


@click.command(context_settings=SETTINGS)
@spec_options
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="where runs are kept"
)
@click.option("--fresh", is_flag=True, help="collect again, although a run of the same audit is there")
def command(config: str | None, assignments: tuple[str, ...], out: Path, fresh: bool, **flags: Any) -> int:
    """Audit one system: worlds with and without a canary, a bound, a verdict on the claim.

    Without --data the bundled help-desk task is used. Ends with 0 (no violation), 1 (violation) or 3 (inconclusive).
    """
    prepared = prepare(spec_from(config, assignments, flags))
    if fresh:
        _set_aside(out / prepared.name)
    with progress(prepared.name) as show:
        record, folder = run_audit(prepared, out, show, reuse=not fresh)
    write_private(folder / "report.html", page([record]))
    click.echo(summary(record))
    click.echo(f"  Report: {folder / 'report.html'}")
    return EXIT[record.verdict]


def _set_aside(folder: Path) -> None:
    """Nothing is deleted: the old run moves to the first free name beside it."""
    if folder.exists():
        number = next(i for i in range(1, 10_000) if not folder.with_name(f"{folder.name}.old{i}").exists())
        folder.rename(folder.with_name(f"{folder.name}.old{number}"))
