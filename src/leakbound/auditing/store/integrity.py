"""What is stored, read as it was stored or not at all, and the results that came before."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from leakbound.auditing.store import chain
from leakbound.auditing.store.folder import (
    KEY,
    TRIALS,
    VERSION,
    Settings,
    first_day,
    is_keyed,
    is_run,
    newer,
    require_current,
    runs_beside,
)
from leakbound.errors import StoreError, UsageError, findable
from leakbound.estimators import Estimator

ADVICE = "Restore the file from a copy, or collect again with --fresh or another --out."


class EditedEvidence(StoreError):
    """What is stored is not what was stored."""


class UnfinishedRun(StoreError):
    """A run without a result yet: nothing is wrong with it, and nothing is known by it."""

    exit_code = 3


def is_unfinished(folder: Path) -> bool:
    """Whether an audit began here and wrote no result; one that was removed is in the store."""
    if (findable(folder) / "record.json").is_file() or not is_run(folder):
        return False
    if (folder / TRIALS).is_file():
        with open_trials(folder) as db:
            if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                return not chain.has_fields(db, "record.json")
    return not (folder / KEY).is_file()  # it comes after the tables: they were removed


def require_intact(folder: Path, pairs: int, head: str, record: bytes) -> None:
    """Refuse a result whose evidence is not what it was computed from."""
    if not (folder / TRIALS).is_file():
        return
    with open_trials(folder) as db:
        if not has_tables(db, folder):
            raise _change(folder, "pair 0 is missing")
        require_chain(db, folder, (pairs, head))
        written = chain.records_of(db)
    if written and chain.text_digest(record) not in written:
        raise EditedEvidence(
            f"{str(folder / 'record.json')!r} is not what the audit wrote: it was edited. Restore "
            "it from a copy, or run the audit again, which writes it anew."
        )


def results_of(folder: Path) -> dict[str, int]:
    """Results that were computed from the evidence of a run."""
    if not (folder / TRIALS).is_file():
        return {}
    with open_trials(folder) as db:
        if not has_tables(db, folder):
            return {}
        if (what := chain.looks_fault(db)) is not None:
            raise _change(folder, what)
        return dict(db.execute("SELECT run, pairs FROM looks ORDER BY rowid"))


def _change(folder: Path, what: str) -> EditedEvidence:
    return EditedEvidence(
        f"the evidence of the run {str(folder)!r} is not what was stored: {what}. {ADVICE}"
    )


@contextmanager
def no_sqlite_errors(folder: Path) -> Iterator[None]:
    """Whatever goes wrong with the stored trials becomes a sentence."""
    try:
        yield
    except sqlite3.Error as error:
        # a full disk is an OperationalError; a damaged file is not
        room = " Free disk space." if isinstance(error, sqlite3.OperationalError) else ""
        raise StoreError(
            f"the trials of the run {str(folder)!r} cannot be read or written ({error}); nothing "
            f"was half-written.{room} {ADVICE}"
        ) from None


@contextmanager
def open_trials(folder: Path) -> Iterator[sqlite3.Connection]:
    """One moment of the stored trials, also where nothing can be written."""
    with no_sqlite_errors(folder), closing(_readable(folder / TRIALS)) as db:
        db.execute("BEGIN")
        yield db


def _readable(file: Path) -> sqlite3.Connection:
    """A connection that has read; a log that was not merged cannot be left out."""
    address = file.resolve().as_uri()
    db = sqlite3.connect(f"{address}?mode=rw", timeout=30, uri=True)
    try:
        db.execute("SELECT * FROM sqlite_master").fetchone()
    except sqlite3.Error:
        db.close()
        if file.with_name(f"{file.name}-wal").exists():
            raise
        db = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)
    return db


def has_tables(db: sqlite3.Connection, folder: Path, schema: str = "main") -> bool:
    """Whether trials may be stored; refuses tables of another version."""
    (version,) = db.execute(f"PRAGMA {schema}.user_version").fetchone()
    if not version and not db.execute(f"SELECT * FROM {schema}.sqlite_master").fetchone():
        return False
    if version > VERSION:
        raise newer(folder / TRIALS, version)
    if version < VERSION:
        require_current({"schema_version": version or 1}, folder)
    return True


def require_chain(
    db: sqlite3.Connection, folder: Path, result: tuple[int, str] | None, schema: str = "main"
) -> None:
    """Refuse evidence that is not as it was stored, or not what its result was computed from."""
    if (what := chain.fault(db, schema)) is not None:
        raise _change(folder, what)
    if result is not None and not is_keyed(folder, chain.head_of(db, result[0], schema), result[1]):
        raise _change(folder, "its hashes fit each other, and not those of record.json")


def result_in(folder: Path) -> tuple[int, str] | None:
    """What the result in a run folder was computed from."""
    try:
        found = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        return found["counts"]["pairs"], found["provenance"]["evidence"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class PriorResults:
    """Earlier results from the same evidence.

    A bound for a number of pairs fixed beforehand is none where an earlier result was computed from
    another number of the same pairs: whoever has seen that result may have chosen this number by
    it. Bounds that are anytime-valid do not depend on how the number was chosen.
    """

    pairs: Mapping[str, int] = field(default_factory=dict)
    own_test: bool = False
    day: str | None = None  # on which the first of the stored outputs began

    def __len__(self) -> int:
        return len(self.pairs)

    def other_sizes(self, pairs: int) -> list[int]:
        """Numbers of pairs of earlier results, other than that of this one."""
        return [] if self.own_test else sorted({*self.pairs.values()} - {pairs})

    def first(self, pairs: int) -> int | None:
        """Pairs of the first result, where stakes must not aim at another number."""
        return max(0, next(iter(self.pairs.values()))) if self.other_sizes(pairs) else None

    def require_fixed_size(self, estimator: Estimator, pairs: int) -> None:
        """Refuse an estimator whose bounds need a number of pairs fixed before any look."""
        sizes = self.other_sizes(pairs)
        if sizes and not estimator.anytime:
            raise UsageError(
                f"{estimator.name} needs a number of pairs that is fixed before any result is "
                f"seen; it is {pairs} here, and a result was computed from {abs(sizes[0])} of "
                "these pairs before. Use --estimator e_process, which holds at any number of "
                "pairs, or another --seed, which asks about other pairs."
            )

    def several(self, trials: str) -> tuple[str, ...]:
        """What to know of a bound for a fixed number that is one of several."""
        if not self.pairs or self.own_test:
            return ()
        results = "1 result was" if len(self) == 1 else f"{len(self)} results were"
        return (
            f"{results} computed from the same {trials} before: the confidence holds for this "
            "result alone, not for the largest of several bounds.",
        )


def prior_results(folder: Path, identity: Settings, own_test: bool = False) -> PriorResults:
    """Results that were computed from what a run and those beside it asked.

    Those of runs beside this one count too, whether their answers are reused or asked for again:
    a system may give the same answers again. Once the run has a result, no further ones are added,
    so that the same command gives the same result.
    """
    found = results_of(folder)
    others = () if folder.name in found else runs_beside(folder, "looks", identity["looks"])
    for other, _ in others:
        try:
            found = results_of(other) | found
        except EditedEvidence:
            raise
        except StoreError:  # of a damaged run, nothing is known
            continue
    others_only = {name: pairs for name, pairs in found.items() if name != folder.name}
    return PriorResults(others_only, own_test, first_day(folder, identity["evidence"]))
