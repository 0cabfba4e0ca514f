"""leakbound compare: finished runs side by side."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from leakbound.api.decisions import compare, kind_of_record
from leakbound.attribution import InfluenceComparison
from leakbound.cli.screen.finished_runs import runs_at
from leakbound.cli.screen.help_pages import FILE, cli_command, option
from leakbound.cli.screen.output import emit, say, write_output
from leakbound.cli.screen.result import show
from leakbound.errors import StoreError, UsageError
from leakbound.gating.compare import Comparison, compare_results
from leakbound.report.decisions.comparison import (
    comparison_page,
    comparison_screen,
    comparison_text,
    influences_screen,
    influences_text,
    sweeps_screen,
    sweeps_text,
)
from leakbound.sweeping import SweepComparison


@cli_command("runs/before runs/after", "runs --html comparison.html")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@option("--html", "HTML page to write", FILE)
def command(runs: tuple[Path, ...], html: Path | None) -> int:
    """Show finished runs (folders, folders of runs, or record.json files) in one table, with the
    settings in which they differ; or two sweeps, point by point; or two folders of influence.

    If the same attack was run on two systems over contexts of the same design, an interval shows
    whether its success rates differ by more than noise. Exits with 0 whatever the runs found, since
    `gate` decides; with 2 if a run was edited or cannot be read; and with 3 if a named run is
    unfinished, or fewer than two are finished.
    """
    kinds = {kind_of_record(run) for run in runs}
    if "influence" in kinds or (kinds == {"sweep"} and len(runs) == 2):
        return _show(compare(runs), html)
    given = runs_at(runs)
    records, refused = given.results(least=2)
    if len(records) < 2 and given.names:
        say(f"Nothing to compare beside {', '.join(given.names)}: give two finished runs or more.")
        emit({"unfinished": given.names})
        return given.exit_code
    if len(records) < 2:
        raise UsageError(
            f"compare got {len(records)} run; give two or more, or use report for one."
        )
    found = compare_results(records)
    if html is not None:
        write_output(html, comparison_page(found), "--html")
    code = StoreError.exit_code if refused else given.exit_code
    show(partial(comparison_screen, found, code=code), lambda: say(comparison_text(found)))
    emit({**json.loads(found.to_json()), "unfinished": given.names, "refused": refused})
    return code


def _show(found: Comparison | SweepComparison | InfluenceComparison, html: Path | None) -> int:
    if html is not None:
        raise UsageError("--html is for runs; use --json for sweeps and influence.")
    if isinstance(found, SweepComparison):
        show(partial(sweeps_screen, found, code=0), lambda: say(sweeps_text(found)))
    elif isinstance(found, InfluenceComparison):
        show(partial(influences_screen, found, code=0), lambda: say(influences_text(found)))
    emit(json.loads(found.to_json()))
    return 0
