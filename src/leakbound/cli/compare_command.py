"""leakbound compare: finished runs beside each other."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.auditing.store import write_private
from leakbound.cli.finished_runs import finished
from leakbound.cli.options import SETTINGS
from leakbound.cli.screen import say
from leakbound.errors import UsageError
from leakbound.gating.compare import compare_results
from leakbound.report.comparison import comparison_page, comparison_text

__all__ = ["command"]


@click.command(context_settings=SETTINGS)
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--html",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="write one HTML page as well",
)
@click.option("--json", "as_json", is_flag=True, help="print the comparison as JSON")
def command(runs: tuple[Path, ...], html: Path | None, as_json: bool) -> int:
    """Show finished runs (folders, folders of runs, or record.json files) in one table, with the
    settings in which they differ.

    Where the same attack was run on two systems over contexts of the same design, an interval for
    the difference of its success rates says whether it is more than noise. Ends with 0 whatever the
    runs found; `gate` decides.
    """
    records = finished(runs)
    if len(records) < 2:
        raise UsageError(
            f"compare got {len(records)} run; give two or more, or use report for one."
        )
    found = compare_results(records)
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(html, comparison_page(found))
    say(found.to_json().rstrip() if as_json else comparison_text(found))
    return 0
