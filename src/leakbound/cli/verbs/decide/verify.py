"""leakbound verify: is a run what its audit wrote?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from leakbound.auditing.receipts import (
    Recomputed,
    Verification,
    is_store,
    recompute,
    verify_run,
)
from leakbound.cli.screen.finished_runs import runs_at
from leakbound.cli.screen.help_pages import cli_command, option
from leakbound.cli.screen.output import emit, say
from leakbound.errors import StoreError, UsageError


@cli_command("runs", "runs/NAME --anchor 3f0c9a1be2d47705")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@option(
    "--anchor",
    "digest that was kept elsewhere, of the commitment or of the finished run; may be given again",
    name="anchors",
    multiple=True,
)
@option("--digests-only", "compute no bound again; neither rows nor system are read", bool)
def command(runs: tuple[Path, ...], anchors: tuple[str, ...], digests_only: bool) -> int:
    """Compute every digest of finished RUNS again (folders, or folders of runs), and their bounds
    from the stored trials.

    No model is asked or loaded. Exits with 0 if every finished run is as its audit wrote it, and
    with 1 if something was edited or removed; with 3 if a named run is unfinished, or none is
    finished. Beside a `left-out-rows.json`, which holds the labels of rows that may not be passed
    on, no rows are read, and it exits with 2 where bounds cannot be computed.
    Whoever owns a run can rebuild its digests: against that, keep the commitment and the anchor of
    the run elsewhere, and give them with --anchor.
    """
    given = runs_at(runs)
    if anchors and len(given.all) > 1:
        raise UsageError(f"an anchor is of one run, and {len(given.all)} are given; name one.")
    shown, code = list[dict[str, object]](), given.exit_code
    for folder in given.all:
        try:
            found = verify_run(folder, anchors)
        except StoreError as error:
            if len(given.all) == 1:
                raise
            say(f"NOT AS WRITTEN: {folder.name}\n  {error}")
            code = 1
            shown.append({"run": folder.name, "error": str(error)})
            continue
        again = Recomputed(why_not="--digests-only") if digests_only else _again(folder, found)
        for line in _lines(found, again):
            say(line)
        failed = found.finished and again.why_not and not digests_only and is_store(folder.parent)
        code = 1 if found.problems or again.differ else code or (2 if failed else 0)
        shown.append({"verification": found, "recomputed": again})
    given.tell()
    emit({"exit_code": code, "runs": shown})
    return code


def _again(run: Path, found: Verification) -> Recomputed:
    """Of what was edited, nothing is computed."""
    if not found.finished:
        return Recomputed(why_not="the run is unfinished")
    return Recomputed(why_not="the run is not as written") if found.problems else recompute(run)


def _lines(found: Verification, again: Recomputed) -> Iterator[str]:
    written = "AS WRITTEN" if found.finished else "UNFINISHED"
    state = "NOT AS WRITTEN" if found.problems or again.differ else written
    yield f"{state}: {found.run}"
    yield from (f"  {problem}" for problem in found.problems)
    yield from (f"  computed again, {field} is another" for field in again.differ)
    if again.why_not:
        yield f"  bounds were not computed again: {again.why_not}"
    elif not again.differ:
        how = " (without rows, by their labels)" if again.without_rows else ""
        yield f"  bounds and verdict, computed again from the stored trials, are the same{how}"
    if found.commitment is None:
        yield "  commitment: none was made before the first call"
    else:
        yield f"  commitment: {found.commitment}"
    for name, digest in found.earlier.items():
        yield f"  earlier commitment for the same system: {digest} ({name})"
    if found.finished:
        yield f"  anchor: {found.anchor}"
