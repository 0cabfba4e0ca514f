"""leakbound audit: one system over your rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leakbound._files import write_private
from leakbound.cli.init.sources import with_sources
from leakbound.cli.options.collect import CollectOptions, collect_options
from leakbound.cli.options.endpoint import endpoint_options, local_options
from leakbound.cli.options.spec import spec_from, spec_options
from leakbound.cli.screen.help_pages import cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.cli.screen.progress import progress
from leakbound.cli.screen.result import show_result

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult, AuditSpec
    from leakbound.models import Endpoint, Local

DEBUG = "debug.txt"  # in a run folder
EXIT = {"no_violation": 0, "violation": 1, "inconclusive": 3}


@cli_command(
    "private.jsonl app.py:answer",
    "private.jsonl hf/path/to/model --epsilon 1 --pairs 100",
    "--system python:app.rag:answer --data private.jsonl --labels yes,no",
    "--mechanism report_noisy_max:partitions=10 --epsilon 4",
    first="--data --labels --system --model --mechanism --epsilon --pairs --config",
)
@click.argument("sources", nargs=-1, metavar="[ROWS] [SYSTEM or MODEL]")
@spec_options
@endpoint_options
@local_options
@collect_options
@option(
    "--debug",
    "if a --system raises an error, keep the query and traceback, which may hold private "
    "text, in the run folder",
    bool,
)
@option("--fresh", "collect again, even if a run of the same audit exists", bool)
def command(
    sources: tuple[str, ...], config: str | None, assignments: tuple[str, ...],
    collecting: CollectOptions, fresh: bool, debug: bool, endpoint: Endpoint, local: Local,
    **flags: object,
) -> int:  # fmt: skip
    """Audit one system with and without a planted record (a canary): a lower bound and a verdict.

    ROWS is a file of rows (as --data), SYSTEM an object such as app.py:answer or app.rag:answer (as
    --system), MODEL an address (as --model). Without ROWS the bundled help-desk task is used. Exits
    with 0 (no violation, or a shard, which has no verdict), 1 (violation) or 3 (inconclusive).
    """
    from leakbound.auditing import prepare, run_audit  # here and below: what help does not need
    from leakbound.auditing.prepare.build import open_models
    from leakbound.auditing.shards import run_shard

    collecting.require(fresh, endpoint)
    opener = partial(open_models, endpoint=endpoint, local=local)
    spec = spec_from(config, assignments, with_sources(sources, flags))
    if spec.design.layout == "one_run":
        return _one_run(spec, collecting, fresh, debug)
    prepared = prepare(spec, opener=collecting.opener(opener))
    ask = collecting.runner(prepared, opener)
    if fresh:
        _set_aside(prepared.folder(collecting.out))
    kept = prepared.folder(collecting.out) if debug else None
    begun = time.monotonic()
    with _tell(ask), _debug(kept), progress(prepared.name) as show:
        if collecting.shard is None:
            record, folder = run_audit(prepared, collecting.out, show, not fresh, ask)
        else:
            folder = run_shard(prepared, collecting.shard, collecting.out, show, not fresh, ask)
    if collecting.shard is not None:
        return _partly(folder, *collecting.shard)
    return finish(record, folder, time.monotonic() - begun)


@contextmanager
def _tell(ask: object) -> Iterator[None]:
    """At the end, one line says which calls of a system were tried again or lost."""
    from leakbound.auditing.collect.collect import SystemRunner

    try:
        yield
    finally:
        if isinstance(ask, SystemRunner) and ask.line:
            say(f"leakbound: {ask.line}", err=True)


@contextmanager
def _debug(folder: Path | None) -> Iterator[None]:
    """What a system raised is kept in the folder, if there is one, for its owner alone."""
    from leakbound.systems import SystemFailed

    try:
        yield
    except SystemFailed as failure:
        if folder is None or not failure.details:
            raise
        write_private(folder / DEBUG, failure.details)
        raise SystemFailed(
            f"{failure.short}; query and traceback, which may hold private text, are in "
            f"{folder / DEBUG}."
        ) from None


def _one_run(spec: AuditSpec, collecting: CollectOptions, fresh: bool, debug: bool) -> int:
    """One store in this process: no part of it could be asked elsewhere."""
    from leakbound.auditing.one_run import prepare_one_run, run_one_run

    collecting.require_one_process()
    prepared = prepare_one_run(spec)
    folder = prepared.folder(collecting.out)
    calls = collecting.calls.kept_at(folder)
    prepared = replace(prepared, mechanism=prepared.mechanism.called(calls))
    kept = folder if debug else None
    if fresh:
        _set_aside(folder)
    begun = time.monotonic()
    with _debug(kept), progress(prepared.name) as show:
        found = run_one_run(prepared, collecting.out, show, collecting.replay, not fresh)
    return finish(*found, time.monotonic() - begun)


def finish(record: AuditResult, folder: Path, seconds: float | None = None) -> int:
    """Write the report of a finished run, say what was found, and give the exit code."""
    from leakbound.report import page

    write_private(folder / "report.html", page([record]))
    code = EXIT[record.verdict]
    show_result(record, code, seconds)
    say(f"   {'report':<17}{folder / 'report.html'}")
    emit({"exit_code": code, "folder": folder, "record": record})
    return code


def _partly(folder: Path, number: int, total: int) -> int:
    click.echo(f"Shard {number}/{total} is collected in {folder}; it has no verdict.")
    click.echo(
        f"When all {total} are: leakbound merge FOLDER... --out DIR, with the folder of each."
    )
    emit({"exit_code": 0, "folder": folder, "shard": (number, total)})
    return 0


def _set_aside(folder: Path) -> None:
    """Nothing is deleted: the old run moves to the first free name beside it."""
    if folder.exists():
        number = next(
            i for i in range(1, 10_000) if not folder.with_name(f"{folder.name}.old{i}").exists()
        )
        folder.rename(folder.with_name(f"{folder.name}.old{number}"))
