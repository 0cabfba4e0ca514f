"""The run folder: manifest.json, trials.sqlite, record.json, report.html. A batch is committed whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contextleak.errors import StoreError
from contextleak.icl import Clean, Spoken, Vector, Votes

__all__ = ["EvidenceRow", "RunStore", "run_id", "write_private"]

SCHEMA = """
CREATE TABLE IF NOT EXISTS evidence (pair INTEGER PRIMARY KEY, member TEXT NOT NULL, nonmember TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS batches (first INTEGER PRIMARY KEY, calls INTEGER NOT NULL) STRICT;
"""


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """The clean aggregates of both worlds of a pair (PRIVATE; the folder is readable by its owner only)."""

    pair: int
    member: Clean
    nonmember: Clean


def _packed(clean: Clean) -> str:
    """A list of votes, or an object for the other kinds."""
    if isinstance(clean, Votes):
        return json.dumps(clean.counts)
    if isinstance(clean, Spoken):
        return json.dumps({"text": clean.text})
    return json.dumps({"values": clean.values, "choices": clean.choices, "points": clean.points})


def _unpacked(text: str) -> Clean:
    found = json.loads(text)
    if isinstance(found, list):
        return Votes(tuple(found))
    if "text" in found:
        return Spoken(found["text"])
    return Vector(tuple(found["values"]), tuple(found["choices"]), tuple(map(tuple, found["points"])))


def run_id(name: str, identity: dict[str, Any]) -> str:
    """The same audit of the same data and model has the same id, so the same command goes on where it stopped."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
    return f"{name}-{digest}"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _read_manifest(folder: Path) -> dict[str, Any]:
    """What a run folder says of itself; nothing if it is none."""
    try:
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("spec"), dict) else {}


class RunStore:
    """One run on disk. Killing the process at any moment loses at most the batch in flight."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._manifest(identity)
            self._open()
        except OSError as error:
            raise StoreError(
                f"the run folder {str(folder)!r} cannot be used ({error}); choose another with --out."
            ) from None

    def _manifest(self, identity: dict[str, Any]) -> None:
        path = self.folder / "manifest.json"
        text = json.dumps({"schema_version": 1, **identity}, indent=2, sort_keys=True) + "\n"
        if not path.exists():
            write_private(path, text)

    def _open(self) -> None:
        os.close(os.open(self.folder / "trials.sqlite", os.O_RDWR | os.O_CREAT, 0o600))
        with self._database() as db:
            db.executescript(SCHEMA)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """One transaction; whatever goes wrong with the file becomes a sentence."""
        try:
            with closing(sqlite3.connect(self.folder / "trials.sqlite", timeout=30)) as db, db:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute("PRAGMA synchronous=FULL")
                yield db
        except sqlite3.Error as error:
            raise StoreError(
                f"the trials of the run {str(self.folder)!r} cannot be read or written ({error}); nothing was half-written. "
                "Free disk space, or collect again with --fresh."
            ) from None

    def adopt(self, batch: int, pairs: int) -> None:
        """Take over the batches of another run beside this one that asked the same, unless this run has begun.

        Every run folder keeps its own copy, so each stays whole if the other is deleted.
        """
        mine = _read_manifest(self.folder).get("evidence")
        for other in sorted(self.folder.parent.iterdir()) if mine else ():
            theirs = _read_manifest(other)
            if not self.done() and theirs.get("evidence") == mine and (other / "trials.sqlite").is_file():
                had = theirs["spec"]["pairs"]
                self._copy(other / "trials.sqlite", pairs if had == pairs else min(had, pairs) // batch * batch)

    def _copy(self, source: Path, limit: int) -> None:
        """Whole batches of pairs below `limit`."""
        with self._database() as db:
            db.execute("ATTACH ? AS other", (str(source),))
            for table, key in (("evidence", "pair"), ("batches", "first")):
                db.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table} WHERE {key} < ?", (limit,))

    def done(self) -> set[int]:
        """Indices of the pairs that are stored."""
        with self._database() as db:
            return {row[0] for row in db.execute("SELECT pair FROM evidence")}

    def add(self, first: int, rows: Iterable[EvidenceRow], calls: int) -> None:
        """Store a batch with the model calls it took, in one transaction; a batch stored before stays as it is."""
        values = [(row.pair, _packed(row.member), _packed(row.nonmember)) for row in rows]
        with self._database() as db:
            if db.execute("INSERT OR IGNORE INTO batches VALUES (?, ?)", (first, calls)).rowcount:
                db.executemany("INSERT INTO evidence VALUES (?, ?, ?)", values)

    def evidence(self) -> list[EvidenceRow]:
        """All stored pairs in order."""
        with self._database() as db:
            rows = db.execute("SELECT pair, member, nonmember FROM evidence ORDER BY pair").fetchall()
        return [EvidenceRow(p, _unpacked(m), _unpacked(n)) for p, m, n in rows]

    def calls(self) -> int:
        """Model calls that the stored batches took."""
        with self._database() as db:
            return int(db.execute("SELECT COALESCE(SUM(calls), 0) FROM batches").fetchone()[0])

    def write(self, name: str, text: str) -> Path:
        """Write a file of the run, whole or not at all."""
        path = self.folder / name
        write_private(path, text)
        return path
