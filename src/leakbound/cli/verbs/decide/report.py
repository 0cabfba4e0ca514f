"""leakbound report: the page of finished runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from leakbound.cli.screen.finished_runs import runs_at
from leakbound.cli.screen.help_pages import PATH, cli_command, option
from leakbound.cli.screen.output import emit, say, write_output
from leakbound.cli.screen.result import show, show_result
from leakbound.cli.screen.sweep_files import figures_option, write_sweep
from leakbound.errors import StoreError, UsageError
from leakbound.report import comparison_table, page
from leakbound.report.sweep.words import sweep_screen, sweep_summary
from leakbound.sweeping import load_sweep
from leakbound.sweeping.record import FILE


@cli_command("runs --html report.html")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("--html", "HTML page to write [default: report.html of the first run]", PATH)
@figures_option
def command(runs: tuple[Path, ...], html: Path | None, figures: tuple[str, ...]) -> int:
    """Write one HTML page of finished runs (their folders, a folder that holds them, or
    record.json files) or of one sweep (its folder), and print it in short.

    Unfinished runs are named and left out. Exits with 3 if one was named itself, or none is
    finished, and with 2 if one was edited or cannot be read, which is left out too.
    """
    if (runs[0] / FILE).is_file():
        return _sweep(runs, html, figures)
    if figures:
        raise UsageError(
            "--figures are those of a sweep; give its folder, or leave the option out."
        )
    given = runs_at(runs)
    records, refused = given.results(least=1)
    target = html or (runs[0] if runs[0].is_dir() else runs[0].parent) / "report.html"
    write_output(target, page(records, None if len(records) == 1 else "Audits side by side"),
                 "--html")  # fmt: skip
    one = len(records) == 1
    if one:
        show_result(records[0])
    else:
        say(comparison_table(records))
    click.echo(f"Report: {target}")
    emit({"report": target, "records": records, "unfinished": given.names, "refused": refused})
    return StoreError.exit_code if refused else given.exit_code


def _sweep(runs: tuple[Path, ...], html: Path | None, figures: tuple[str, ...]) -> int:
    if len(runs) > 1:
        raise UsageError(
            f"a report is of runs or of one sweep, and {len(runs)} folders are given; leave all "
            "but one out."
        )
    record, target = load_sweep(runs[0]), html or runs[0] / "sweep.html"
    files = write_sweep(record, target, figures, "--html")
    long = f"{sweep_summary(record)}\nReport: {target}"
    show(partial(sweep_screen, record, target), partial(say, long))
    emit({"report": target, "files": files, "record": record})
    return 0
