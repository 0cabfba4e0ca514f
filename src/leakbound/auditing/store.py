"""The run folder: manifest.json, trials.sqlite, record.json, report.html.

A batch is committed whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeAlias

from leakbound.errors import StoreError
from leakbound.tasks import Aggregate, GeneratedText, Vector, Votes

__all__ = [
    "VERSION", "EvidenceRow", "RunStore", "Settings", "read_manifest", "require_current", "run_id",
    "write_private",
]  # fmt: skip

SCHEMA = """
CREATE TABLE IF NOT EXISTS evidence (
  pair INTEGER PRIMARY KEY, member TEXT NOT NULL, nonmember TEXT NOT NULL, again TEXT) STRICT;
CREATE TABLE IF NOT EXISTS batches (first INTEGER PRIMARY KEY, calls INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS shards (
  number INTEGER NOT NULL, total INTEGER NOT NULL, PRIMARY KEY (number, total)) STRICT;
"""
NEXT = (
    "SELECT pair, member, nonmember, again FROM evidence WHERE pair >= ? AND pair < ? "
    "ORDER BY pair LIMIT ?"
)
BLOCK = 512  # pairs read at once: a few MiB of aggregates, and few openings of the database
DIFFER = {
    "evidence": "SELECT pair FROM evidence a JOIN other.evidence b USING (pair) "
    "WHERE a.member <> b.member OR a.nonmember <> b.nonmember OR a.again IS NOT b.again",
    "batches": "SELECT first FROM batches a JOIN other.batches b USING (first) "
    "WHERE a.calls <> b.calls",
}
Settings: TypeAlias = dict[str, Any]  # what a JSON or YAML file holds
ALL = 1 << 62  # beyond any pair
VERSION = 2  # of manifest and stored trials
Packed = tuple[int, str, str, str | None]


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """The aggregates of a pair (PRIVATE; the folder is readable by its owner only).

    Args:
        pair: Index of the pair; below 0 for control pairs.
        member: Aggregate of the canary-in context.
        nonmember: Aggregate of the canary-out context.
        again: Aggregate of the first query asked again, where the state check repeats it.
    """

    pair: int
    member: Aggregate
    nonmember: Aggregate
    again: Aggregate | None = None

    @property
    def both(self) -> tuple[Aggregate, Aggregate]:
        """(canary-in, canary-out)."""
        return self.member, self.nonmember


def _packed(aggregate: Aggregate) -> str:
    """A list of votes, or an object for the other kinds."""
    if isinstance(aggregate, Votes):
        return json.dumps(aggregate.counts)
    if isinstance(aggregate, GeneratedText):
        return json.dumps({"text": aggregate.text})
    return json.dumps(
        {"values": aggregate.values, "choices": aggregate.choices, "points": aggregate.points}
    )


def _unpacked(text: str) -> Aggregate:
    found = json.loads(text)
    if isinstance(found, list):
        return Votes(tuple(found))
    if "text" in found:
        return GeneratedText(found["text"])
    return Vector(
        tuple(found["values"]), tuple(found["choices"]), tuple(map(tuple, found["points"]))
    )


def _unpacked_row(row: Packed) -> EvidenceRow:
    pair, member, nonmember, again = row
    repeated = None if again is None else _unpacked(again)
    return EvidenceRow(pair, _unpacked(member), _unpacked(nonmember), repeated)


def _packed_row(row: EvidenceRow) -> Packed:
    again = None if row.again is None else _packed(row.again)
    return row.pair, _packed(row.member), _packed(row.nonmember), again


def run_id(name: str, identity: Settings) -> str:
    """Name a run, so that the same command finds it and resumes it.

    Args:
        name: Begins the id.
        identity: Whatever makes two runs the same run, as JSON values.

    Returns:
        The name with a hash of the identity.
    """
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]
    return f"{name}-{digest}"


def write_private(path: Path, text: str | bytes) -> None:
    """Write a file that only its owner can read, whole or not at all.

    Args:
        path: The file.
        text: Its content.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_manifest(folder: Path) -> Settings:
    """Read what a run folder says of itself.

    Args:
        folder: The run folder.

    Returns:
        The manifest; nothing if the folder is no run.
    """
    try:
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("spec"), dict) else {}


def require_current(manifest: Settings, folder: Path) -> None:
    """Refuse a run whose stored outputs were collected under an earlier schema.

    Args:
        manifest: What `read_manifest` found; nothing is no run, and is not refused.
        folder: The run folder.

    Raises:
        StoreError: If the run is of an earlier version.
    """
    if manifest and manifest.get("schema_version") != VERSION:
        raise StoreError(
            f"{str(folder)!r} is a run of schema version {manifest.get('schema_version')}, and "
            f"this version reuses outputs of version {VERSION} only. Its result still loads; run "
            "the audit again, without --replay, to collect new outputs."
        )


class RunStore:
    """One run on disk. Killing the process at any moment loses at most the batch in flight."""

    def __init__(self, folder: Path, identity: Settings) -> None:
        """Open a run folder, or make it.

        Args:
            folder: Where it is.
            identity: What the manifest of a new folder says; one that is there keeps its own.

        Raises:
            StoreError: If the folder cannot be used.
        """
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._manifest(identity)
            self._open()
        except OSError as error:
            raise StoreError(
                f"the run folder {str(folder)!r} cannot be used ({error}); choose another with "
                "--out."
            ) from None

    def _manifest(self, identity: Settings) -> None:
        path = self.folder / "manifest.json"
        text = json.dumps({"schema_version": VERSION, **identity}, indent=2, sort_keys=True) + "\n"
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
                f"the trials of the run {str(self.folder)!r} cannot be read or written ({error}); "
                "nothing was half-written. "
                "Free disk space, or collect again with --fresh."
            ) from None

    def adopt(self, batch: int, pairs: int) -> None:
        """Copy the batches of other runs beside this one that asked the same, unless this run has
        begun.

        Every run folder keeps its own copy, so each stays whole if the others are deleted.

        Args:
            batch: Pairs in a batch.
            pairs: Pairs of this run; batches beyond them are left out.
        """
        mine = read_manifest(self.folder).get("evidence")
        for other in sorted(self.folder.parent.iterdir()) if mine and not self.batches() else ():
            theirs = read_manifest(other)
            if (
                other != self.folder
                and theirs.get("evidence") == mine
                and (other / "trials.sqlite").is_file()
            ):
                had = theirs["spec"]["pairs"]
                self._copy(
                    other / "trials.sqlite",
                    pairs if had == pairs else min(had, pairs) // batch * batch,
                )

    def _copy(self, source: Path, limit: int) -> None:
        """Whole batches of pairs below `limit`."""
        with self._database() as db:
            db.execute("ATTACH ? AS other", (str(source),))
            for table, key in (("evidence", "pair"), ("batches", "first")):
                db.execute(
                    f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table} WHERE {key} < ?",
                    (limit,),
                )

    def join(self, other: RunStore) -> None:
        """Copy the batches of another store of the same run.

        Args:
            other: The other store.

        Raises:
            StoreError: If both hold a batch, with different answers.
        """
        with self._database() as db:
            db.execute("ATTACH ? AS other", (str(other.folder / "trials.sqlite"),))
            for table in ("evidence", "batches"):
                if found := db.execute(DIFFER[table]).fetchone():
                    raise StoreError(
                        f"{str(other.folder)!r} and {str(self.folder)!r} both hold pair "
                        f"{found[0]}, with different answers; "
                        "leave one of them out."
                    )
            for table in ("evidence", "batches", "shards"):
                db.execute(f"INSERT OR IGNORE INTO {table} SELECT * FROM other.{table}")

    def belongs_to(self, number: int, total: int) -> None:
        """Record that the folder holds a shard.

        Args:
            number: Number of the shard, from 1.
            total: Number of shards.
        """
        with self._database() as db:
            db.execute("INSERT OR IGNORE INTO shards VALUES (?, ?)", (number, total))

    def shards(self) -> list[tuple[int, int]]:
        """(number, total) of every shard that was collected here."""
        with self._database() as db:
            return [
                (n, total)
                for n, total in db.execute(
                    "SELECT number, total FROM shards ORDER BY total, number"
                )
            ]

    def batches(self) -> set[int]:
        """First pairs of the batches that are stored."""
        with self._database() as db:
            return {row[0] for row in db.execute("SELECT first FROM batches")}

    def add(self, first: int, rows: Iterable[EvidenceRow], calls: int) -> None:
        """Store a batch in one transaction; a batch stored before stays as it is.

        Args:
            first: First pair of the batch.
            rows: Its aggregates (PRIVATE).
            calls: Model calls that it took.
        """
        values = [_packed_row(row) for row in rows]
        with self._database() as db:
            if db.execute("INSERT OR IGNORE INTO batches VALUES (?, ?)", (first, calls)).rowcount:
                db.executemany("INSERT INTO evidence VALUES (?, ?, ?, ?)", values)

    def controls(self) -> list[EvidenceRow]:
        """The control pairs that are stored, in their order."""
        return [_unpacked_row(row) for row in self._some(-ALL, 0, ALL)]

    def evidence(self, start: int = 0, stop: int = ALL) -> Iterator[EvidenceRow]:
        """The stored pairs in their order, read as they are needed.

        Args:
            start: First pair.
            stop: Pair before which to stop.

        Yields:
            Aggregates of each stored pair; each is decoded once.
        """
        while rows := self._some(start, stop, BLOCK):
            yield from map(_unpacked_row, rows)
            start = rows[-1][0] + 1

    def without_gap(self, start: int, stop: int) -> list[EvidenceRow]:
        """The stored pairs from `start` on, up to the first that is missing.

        Args:
            start: First pair.
            stop: Pair before which to stop.

        Returns:
            Aggregates of the pairs; what lies behind a gap is not decoded.
        """
        rows = enumerate(self._some(start, stop, stop - start), start)
        return [_unpacked_row(row) for _, row in takewhile(lambda at: at[0] == at[1][0], rows)]

    def _some(self, start: int, stop: int, most: int) -> list[Packed]:
        with self._database() as db:
            return db.execute(NEXT, (start, stop, most)).fetchall()

    def calls(self, stop: int = ALL) -> int:
        """Count the model calls of the stored batches.

        Args:
            stop: Batches that begin at this pair or later are left out.

        Returns:
            A number of calls.
        """
        with self._database() as db:
            found = db.execute(
                "SELECT COALESCE(SUM(calls), 0) FROM batches WHERE first < ?", (stop,)
            ).fetchone()
        return int(found[0])

    def write(self, name: str, text: str) -> Path:
        """Write a file of the run, whole or not at all.

        Args:
            name: Name of the file.
            text: Its content.

        Returns:
            The file.
        """
        path = self.folder / name
        write_private(path, text)
        return path
