"""The runs of a command: run folders, record.json files, or a folder (an --out) of runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from leakbound.auditing import AuditResult, load_result
from leakbound.auditing.store.folder import is_run
from leakbound.auditing.store.run_store import UnfinishedRun, is_unfinished
from leakbound.cli.screen.output import say
from leakbound.errors import StoreError, UsageError

SET_ASIDE = re.compile(r".*\.old\d+")  # by audit --fresh


@dataclass(frozen=True, slots=True)
class _GivenRuns:
    """Runs in the order in which they were given."""

    all: tuple[Path, ...]
    unfinished: tuple[Path, ...]
    needed: bool

    @property
    def names(self) -> list[str]:
        return [run.name for run in self.unfinished]

    @property
    def exit_code(self) -> int:
        """3 where an unfinished run is needed; a gate needs every run."""
        return UnfinishedRun.exit_code if self.needed else 0

    def results(self, least: int = 0) -> tuple[list[AuditResult], dict[str, str]]:
        """Of the finished runs, and why others have none, by name; standard error says both."""
        self.tell()
        found, refused = list[AuditResult](), dict[str, str]()
        for run in self.all:
            if run in self.unfinished:
                continue
            try:
                found.append(load_result(run))
            except StoreError as error:
                if len(self.all) == 1:
                    raise
                refused[run.name] = str(error)
        if refused and len(found) < least:
            raise StoreError(" ".join(refused.values()))
        for why in refused.values():
            say(f"leakbound: {why}", err=True)
        if self.unfinished and len(found) < least <= len(self.all):
            load_result(self.unfinished[0])
        return found, refused

    def tell(self) -> None:
        if self.unfinished:
            number = f"{len(self.unfinished)} of {len(self.all)}"
            say(f"leakbound: {number} unfinished: {', '.join(self.names)}", err=True)


def runs_at(paths: Iterable[Path]) -> _GivenRuns:
    """The runs at the paths and in them; those that --fresh has set aside are none."""
    paths = list(paths)
    found = tuple(run for path in paths for run in _runs_in(path))
    unfinished = tuple(run for run in found if _is_unfinished(run))
    needed = found == unfinished or any(run in paths for run in unfinished)
    return _GivenRuns(found, unfinished, needed)


# of one whose trials cannot be read, whoever reads it says why
def _is_unfinished(run: Path) -> bool:
    try:
        return is_unfinished(run)
    except StoreError:
        return False


def one_result(path: Path, flag: str = "") -> AuditResult:
    """That of the one finished run at a path."""
    found = runs_at([path]).all
    if len(found) > 1:
        raise UsageError(f"{flag}{str(path)!r} holds {len(found)} runs; name the folder of one.")
    return load_result(found[0])


def _runs_in(path: Path) -> list[Path]:
    if not path.is_dir() or is_run(path):
        return [path]
    found = [one for one in sorted(path.iterdir()) if is_run(one)]
    return [one for one in found if not SET_ASIDE.fullmatch(one.name)] or [path]
