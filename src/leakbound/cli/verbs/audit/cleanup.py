"""leakbound cleanup: what a killed audit left in a store is removed."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.auditing.prepare.build import build_mechanism
from leakbound.auditing.spec.audit_spec import make_spec
from leakbound.auditing.spec.staged import STAGED
from leakbound.auditing.store.folder import load_manifest
from leakbound.cli.screen.finished_runs import runs_at
from leakbound.cli.screen.help_pages import cli_command
from leakbound.cli.screen.output import emit, say
from leakbound.errors import TargetError, UsageError
from leakbound.systems import CallOptions, require_store
from leakbound.systems.journal import FILE, Journal
from leakbound.systems.planted import remove_left
from leakbound.systems.staged import as_staged


@cli_command("runs/NAME")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(runs: tuple[Path, ...]) -> int:
    """Remove the records that an audit planted in a store and, because it was killed, left there.

    RUNS are run folders, or folders of runs. The same audit does it, too, before it goes on. Ends
    with 0 if nothing stays, and with 4 if something does.
    """
    shown = list[dict[str, object]]()
    for folder in runs_at(runs).all:
        journal = Journal(folder / FILE)
        left = len(journal.left())
        if left:
            _remove(folder, journal)
        stay = len(Journal(folder / FILE).left())
        say(f"{folder.name}: {left - stay} of {left} records removed")
        shown.append({"run": folder.name, "left": left, "removed": left - stay})
    code = TargetError.exit_code if any(one["left"] != one["removed"] for one in shown) else 0
    emit({"exit_code": code, "runs": shown})
    return code


def _remove(folder: Path, journal: Journal) -> None:
    spec = make_spec(load_manifest(folder)["spec"])
    application = build_mechanism(spec).application if spec.system.address else None
    if application is None:
        raise UsageError(
            f"{folder.name!r} is an audit of an object of Python, which is gone; remove the "
            f"records by hand, by the ids in {str(journal.file)!r}, and delete that file."
        )
    system, name = application.system, application.name
    calls = CallOptions(disposable=True, journal=journal)
    if staged := STAGED.get(spec.design.layout):
        as_staged(system, name, calls, store=staged.deleted).called(calls).remove_left()
    else:
        remove_left(require_store(application.called(calls).system, name), journal, name)
