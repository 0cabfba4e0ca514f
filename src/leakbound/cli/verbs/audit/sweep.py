"""leakbound sweep: many audits over a grid, and what they trade for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import click

from leakbound.auditing.prepare.build import open_models
from leakbound.auditing.spec.audit_spec import flat_keys, load_config, merge_keys
from leakbound.cli.init.sources import with_sources
from leakbound.cli.options.collect import (
    CollectOptions,
    call_options,
    cluster_of,
    cluster_options,
    rate_option,
    shared_work_options,
)
from leakbound.cli.options.endpoint import endpoint_options, local_options
from leakbound.cli.options.spec import keys_of_set, overrides, pilot_check, spec_options
from leakbound.cli.options.takers import require_taken
from leakbound.cli.screen.help_pages import COUNT, PATH, WHOLE_NUMBER, cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.cli.screen.progress import progress
from leakbound.cli.screen.result import show
from leakbound.cli.screen.sweep_files import figures_option, write_sweep
from leakbound.errors import LeakboundError, UsageError
from leakbound.models import Endpoint, Local
from leakbound.report.sweep.words import sweep_screen, sweep_summary
from leakbound.sweeping import (
    CachingOpener,
    Grid,
    Sweep,
    SweepRecord,
    merge_grids,
    parse_grid,
    plan_sweep,
    shard_file,
)
from leakbound.sweeping.record import FILE as RECORD


@cli_command(
    "--mechanism report_noisy_max --grid epsilon=1,2,4,8 --pairs 100",
    first="--data --labels --system --model --mechanism --grid --pairs --out",
)
@click.argument("sources", nargs=-1, metavar="[ROWS] [SYSTEM or MODEL]")
@spec_options
@endpoint_options
@local_options
@rate_option
@option(
    "--grid",
    "values of a configuration key such as epsilon, or of an option such as "
    "mechanism.partitions; repeat the option to audit every combination",
    name="grids",
    multiple=True,
    metavar="KEY=VALUE,VALUE",
)
@option("--repeats", "repetitions: seeds of each setting, from --seed on", COUNT, 1)
@option("--queries", "held-out queries that utility is measured on", WHOLE_NUMBER, 0)
@option(
    "--skip-invalid", "skip and list points that cannot be run, instead of refusing the sweep", bool
)
@figures_option
@shared_work_options
@cluster_options
@option("--out", "folder to write into: the runs", PATH, Path("sweep"))
def command(
    sources: tuple[str, ...], config: str | None, assignments: tuple[str, ...],
    grids: tuple[str, ...], repeats: int, queries: int, skip_invalid: bool,
    figures: tuple[str, ...], cache: Path | None, shard: tuple[int, int] | None, ray: str | None,
    workers: int | None, out: Path, rate: float | None, disposable_store: bool, endpoint: Endpoint,
    local: Local, **flags: object,
) -> int:  # fmt: skip
    """Audit every combination of a grid. Points that differ only in noise or in statistics share
    their model calls.

    The grid is that of --config (a section `grid:`), changed by --grid. The same command resumes
    where it stopped. Exits with 1 if any point is a violation, else with the code of the first
    point that failed, else with 3 if any is inconclusive, else with 0.
    """
    values = load_config(Path(config)) if config else {}
    grid = merge_grids(values.pop("grid", {}), parse_grid(grids))
    base = flat_keys(values)
    base = merge_keys(base, flat_keys(overrides(assignments, with_sources(sources, flags), base)))
    calls = call_options(endpoint, config, rate, disposable_store)
    collecting = CollectOptions(out, None, cache, False, cluster_of(ray, workers), calls)
    collecting.require(False, endpoint)
    opener = partial(open_models, endpoint=endpoint, local=local)
    caching = CachingOpener(collecting.opener(opener))
    _require_one_source(flags, grid)
    _require_taken(base, grid, config, keys_of_set(assignments))
    plan = plan_sweep(base, grid, caching, repeats, queries, skip_invalid, pilot_check(flags))
    plan = plan if shard is None else plan.shard(*shard)
    sweep = Sweep(plan, out, caching, lambda prepared: collecting.runner(prepared, opener))
    sweep.file = RECORD if shard is None else shard_file(*shard)
    one_session = collecting.cluster.connected() if collecting.cluster else nullcontext()
    with progress(lambda: sweep.label) as sweep.progress, one_session:
        record = sweep.run()
    if shard is not None:
        say(sweep_summary(record, sweep.model_calls))
        return _partly(record, out, shard, _exit_code(record, sweep.errors))
    return finish_sweep(record, out, figures, sweep.model_calls, sweep.errors)


def finish_sweep(
    record: SweepRecord, out: Path, figures: tuple[str, ...] = (), model_calls: int = 0,
    errors: Sequence[LeakboundError] = (),
) -> int:  # fmt: skip
    """Write the files of a whole sweep, say what was found, and give the exit code."""
    page, code = out / "sweep.html", _exit_code(record, errors)
    write_sweep(record, page, figures)
    long = f"{sweep_summary(record, model_calls)}\n  Report: {page}"
    show(partial(sweep_screen, record, page, code=code), partial(say, long))
    emit({"exit_code": code, "report": page, "record": record})
    return code


def _require_taken(
    base: Mapping[str, object], grid: Grid, config: str | None, keys: Sequence[str]
) -> None:
    """Refuse options that no point takes; a system is asked in its own way."""
    named = grid.get("address") or [base.get("address")]
    addresses = [one for one in named if isinstance(one, str)]
    if addresses and len(addresses) == len(named):
        require_taken((), addresses[0], config, [*keys, *grid])
    elif not addresses:
        models = grid.get("model") or [base.get("model", "pocket")]
        judges = grid.get("judge_model") or [base.get("judge_model")]
        require_taken([one for one in (*models, *judges) if isinstance(one, str)])


def _partly(record: SweepRecord, out: Path, shard: tuple[int, int], code: int) -> int:
    number, total = shard
    click.echo(f"  Shard {number}/{total} of the sweep is in {out}.")
    click.echo(f"  When all {total} are: leakbound merge FOLDER... --out DIR, with each --out.")
    emit({"exit_code": code, "folder": out, "shard": shard, "record": record})
    return code


def _require_one_source(flags: Mapping[str, object], grid: Grid) -> None:
    given = [key for key in ("assume_hit", "assume_false_alarm") if key in grid]
    if flags.get("pilot") is not None and given:
        raise UsageError(
            f"--pilot reads both rates from a run, and the grid lists {' and '.join(given)}; leave "
            "one of them out."
        )


def _exit_code(record: SweepRecord, errors: Sequence[LeakboundError]) -> int:
    verdicts = {point.verdict for point in record.points}
    if "violation" in verdicts:
        return 1
    if errors:
        return errors[0].exit_code
    if any(point.cause == "failed" for point in record.missing):
        return LeakboundError.exit_code  # a merged sweep knows the sentence, not its kind
    return 3 if "inconclusive" in verdicts else 0
