"""contextleak report: the page of finished runs."""

from __future__ import annotations

from pathlib import Path

import click

from contextleak.auditing import load_record
from contextleak.auditing.store import write_private
from contextleak.cli.screen import say
from contextleak.report import comparison_table, page, summary

__all__ = ["command"]


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), default=None, help="file to write [default: report.html of the first run]"
)
def command(runs: tuple[Path, ...], out: Path | None) -> int:
    """Write one HTML page of one or more finished runs (folders or record.json files), and print it in short."""
    records = [load_record(run) for run in runs]
    target = out or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(target, page(records, None if len(records) == 1 else "Audits side by side"))
    say(summary(records[0]) if len(records) == 1 else comparison_table(records))
    click.echo(f"Report: {target}")
    return 0
