"""leakbound sweep: many audits over a grid, and what they trade for what."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from leakbound.auditing.config_file import read_config
from leakbound.auditing.prepare import open_models
from leakbound.auditing.spec import flat_keys, merge_keys
from leakbound.cli.collect_options import CollectOptions
from leakbound.cli.endpoint_options import endpoint_options
from leakbound.cli.local_options import local_options
from leakbound.cli.options import SETTINGS, overrides, pilot_check, spec_options
from leakbound.cli.progress import progress
from leakbound.cli.screen import say
from leakbound.cli.sweep_files import figures_option, write_sweep
from leakbound.cli.system_options import call_options, rate_option
from leakbound.errors import LeakboundError, UsageError
from leakbound.models import Endpoint, Local
from leakbound.report.sweep.terminal import sweep_summary
from leakbound.sweeping import (
    CachingOpener,
    Grid,
    Sweep,
    SweepRecord,
    merge_grids,
    parse_grid,
    plan_sweep,
)

__all__ = ["command"]


@click.command(context_settings=SETTINGS)
@spec_options
@endpoint_options
@local_options
@rate_option
@click.option(
    "--grid",
    "grids",
    multiple=True,
    metavar="KEY=VALUE,VALUE",
    help="values of a configuration key such as epsilon, or of an option such as "
    "mechanism.partitions; several make every combination",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="seeds of every setting, from --seed on",
)
@click.option(
    "--utility",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="held-out queries to measure utility on",
)
@click.option(
    "--skip-invalid",
    is_flag=True,
    help="leave out and list points that cannot be run, instead of refusing all",
)
@figures_option
@click.option(
    "--cache",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="as in audit",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("sweep"),
    show_default=True,
    help="where the runs are kept",
)
def command(
    config: str | None,
    assignments: tuple[str, ...],
    grids: tuple[str, ...],
    repeat: int,
    utility: int,
    skip_invalid: bool,
    figures: tuple[str, ...],
    cache: Path | None,
    out: Path,
    rate: float | None,
    endpoint: Endpoint,
    local: Local,
    **flags: object,
) -> int:
    """Audit every combination of a grid. The model is asked once for all that differs in noise or
    in statistics only.

    The grid is that of --config (a section `grid:`), changed by --grid. The same command resumes
    where it stopped. Exits with 1 if any point is a violation, else with the code of the first
    point that failed, else with 3 if any is inconclusive, else with 0.
    """
    values = read_config(Path(config)) if config else {}
    grid = merge_grids(values.pop("grid", {}), parse_grid(grids))
    base = flat_keys(values)
    base = merge_keys(base, flat_keys(overrides(assignments, flags, base)))
    calls = call_options(endpoint, config, rate)
    collecting = CollectOptions(out, None, cache, False, None, calls)
    opener = partial(open_models, endpoint=endpoint, local=local)
    caching = CachingOpener(collecting.opener(opener))
    _require_one_source(flags, grid)
    plan = plan_sweep(base, grid, caching, repeat, utility, skip_invalid, pilot_check(flags))
    sweep = Sweep(plan, out, caching, lambda prepared: collecting.runner(prepared, opener))
    with progress(lambda: sweep.label) as sweep.progress:
        record = sweep.run()
    write_sweep(record, out / "sweep.html", figures)
    say(sweep_summary(record, sweep.model_calls))
    click.echo(f"  Report: {out / 'sweep.html'}")
    return _exit_code(record, sweep.errors)


def _require_one_source(flags: Mapping[str, object], grid: Grid) -> None:
    """Refuse rates of a pilot beside rates of the grid."""
    given = [key for key in ("assume_hit", "assume_false_alarm") if key in grid]
    if flags.get("pilot") is not None and given:
        raise UsageError(
            f"--pilot reads both rates from a run, and the grid lists {' and '.join(given)}; leave "
            "one of them out."
        )


def _exit_code(record: SweepRecord, errors: list[LeakboundError]) -> int:
    verdicts = {point.verdict for point in record.points}
    if "violation" in verdicts:
        return 1
    if errors:
        return errors[0].exit_code
    return 3 if "inconclusive" in verdicts else 0
