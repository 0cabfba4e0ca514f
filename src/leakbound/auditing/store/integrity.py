"""Stored trials read as they are: of a known version, and as they were stored, or not at all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from leakbound.auditing.store import chain
from leakbound.auditing.store.folder import (
    KEY,
    TRIALS,
    VERSION,
    is_keyed,
    is_run,
    newer,
    require_current,
)
from leakbound.errors import StoreError, findable

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
        with reading(folder) as db:
            if db.execute("SELECT 1 FROM sqlite_master").fetchone():
                return not chain.has_fields(db, "record.json")
    return not (folder / KEY).is_file()  # it comes after the tables: they were removed


def require_intact(folder: Path, pairs: int, head: str, record: bytes) -> None:
    """Refuse a result whose evidence is not what it was computed from."""
    if not (folder / TRIALS).is_file():
        return
    with reading(folder) as db:
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
    with reading(folder) as db:
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
        raise StoreError(
            f"the trials of the run {str(folder)!r} cannot be read or written ({error}); nothing "
            f"was half-written.{_room(error)} {ADVICE}"
        ) from None


def _room(error: sqlite3.Error) -> str:
    """A full disk is an OperationalError; a damaged file is not."""
    return " Free disk space." if isinstance(error, sqlite3.OperationalError) else ""


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
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
