"""The run folder: manifest.json, trials.sqlite, record.json, report.html.

A batch is committed whole or not at all, and chained by hashes to the batches before it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from leakbound.auditing.design.pairs import LATE, OTHERS
from leakbound.auditing.store import chain
from leakbound.auditing.store.chain import Packed
from leakbound.auditing.store.folder import (
    TRIALS,
    VERSION,
    Settings,
    damage_error,
    load_manifest,
    make_key,
    require_current,
    runs_beside,
    stable_json,
    write_private,
)
from leakbound.auditing.store.integrity import (
    PriorResults,
    has_tables,
    no_sqlite_errors,
    prior_results,
    require_chain,
    result_in,
)
from leakbound.errors import StoreError, reason_of
from leakbound.tasks import Aggregate
from leakbound.tasks import pack as _packed
from leakbound.tasks import unpack as _unpacked

SCHEMA = f"""
BEGIN IMMEDIATE;
{chain.SCHEMA}
CREATE TABLE IF NOT EXISTS shards (
  number INTEGER NOT NULL, total INTEGER NOT NULL, PRIMARY KEY (number, total)) STRICT;
PRAGMA user_version = {VERSION};
COMMIT;
"""
NEXT = (
    "SELECT pair, member, nonmember, again FROM evidence WHERE pair >= ? AND pair < ? "
    "ORDER BY pair LIMIT ?"
)
BLOCK = 512  # pairs read at once: a few MiB of aggregates, and few openings of the database
DIFFER = (
    "SELECT pair FROM evidence a JOIN other.evidence b USING (pair) WHERE a.digest <> b.digest "
    "ORDER BY pair < 0, pair",
    "SELECT first FROM batches a JOIN other.batches b USING (first) WHERE a.calls <> b.calls "
    "ORDER BY first < 0, first",
)
LACKING = (
    "SELECT first, calls, pairs, digest FROM other.batches "
    "WHERE first < ? AND first NOT IN (SELECT first FROM main.batches) ORDER BY number"
)
ROWS = "INSERT INTO evidence SELECT * FROM other.evidence WHERE pair >= ? AND pair < ?"
BESIDE = frozenset({"beside", "handed"})  # of a manifest: no part of what a run is
ALL = 1 << 62  # beyond any pair


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """The aggregates of a pair (PRIVATE; the folder is readable by its owner only)."""

    pair: int
    member: Aggregate
    nonmember: Aggregate
    again: Aggregate | None = None

    @property
    def both(self) -> tuple[Aggregate, Aggregate]:
        """(canary-in, canary-out)."""
        return self.member, self.nonmember


def _unpack_row(row: Packed) -> EvidenceRow:
    pair, member, nonmember, again = row
    repeated = None if again is None else _unpacked(again)
    return EvidenceRow(pair, _unpacked(member), _unpacked(nonmember), repeated)


def _pack_row(row: EvidenceRow) -> Packed:
    again = None if row.again is None else _packed(row.again)
    return row.pair, _packed(row.member), _packed(row.nonmember), again


def _difference(one: Settings, other: Settings) -> str:
    """The first key of a manifest that another disagrees on; empty if there is none."""
    keys = (key for key in one if key not in BESIDE and one[key] != other.get(key))
    found = next(keys, "")
    return _difference(one[found], other[found]) if found == "spec" else str(found)


class RunStore:
    """One run on disk. Killing the process at any moment loses at most the batch in flight."""

    def __init__(self, folder: Path, identity: Settings) -> None:
        """Open a run folder, or make it."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._manifest(identity)
            os.close(os.open(self.folder / TRIALS, os.O_RDWR | os.O_CREAT, 0o600))
            result = result_in(self.folder)  # before the trials are read: they are never fewer
            with self._database() as db:
                has_tables(db, self.folder)
                db.executescript(SCHEMA)
                db.execute("BEGIN")
                require_chain(db, self.folder, result)
            make_key(folder)
        except OSError as error:
            raise StoreError(
                f"the run folder {str(folder)!r} cannot be used ({reason_of(error)}); choose "
                "another with --out."
            ) from None

    @classmethod
    def open(
        cls, path: Path, identity: Settings, reuse: bool = False, own_test: bool = False,
        require: Callable[[PriorResults], None] = lambda prior: None,
    ) -> tuple[RunStore, PriorResults]:  # fmt: skip
        """The run at a path, made where there is none, and results from the same trials before it.

        Looks, chain, record and key are verified here, once. `require` may refuse earlier results
        before anything is written. With `reuse`, answers of other runs to the same questions are
        copied.
        """
        prior = prior_results(path, identity, own_test)
        require(prior)
        store = cls(path, identity)
        store.note_looks(prior.pairs)
        if reuse:
            store.adopt()
        return store, prior

    def _manifest(self, identity: Settings) -> None:
        path = self.folder / "manifest.json"
        begun = (self.folder / TRIALS).exists()  # before the manifest, which is written first
        text = stable_json({"schema_version": VERSION, **identity})
        if path.exists():
            found = load_manifest(self.folder)
            require_current(found, self.folder)
            if key := _difference(json.loads(text), found):
                raise damage_error(
                    path, f"its {key} is not that of the audit whose name the folder has"
                )
            return
        if begun:
            raise damage_error(path, "it is missing, and stored trials are there")
        write_private(path, text)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        with (
            no_sqlite_errors(self.folder),
            closing(sqlite3.connect(self.folder / TRIALS, timeout=30)) as db,
            db,
        ):
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            yield db

    def _attach(self, db: sqlite3.Connection, folder: Path) -> bool:
        """Begin to write, with the intact trials of another run beside; False if it has none."""
        db.execute("ATTACH ? AS other", (str(folder / TRIALS),))
        result = result_in(folder)
        db.execute("BEGIN")
        db.execute("UPDATE head SET link = link")  # nobody else writes between reading and writing
        if not has_tables(db, folder, "other"):
            return False
        require_chain(db, folder, result, "other")
        return True

    def adopt(self) -> None:
        """Copy the batches of other runs beside this one that asked the same, unless this run has
        begun.

        Every run folder keeps its own copy, so each stays whole if the others are deleted.
        """
        if self.batches():
            return
        mine = load_manifest(self.folder)
        spec = mine["spec"]
        size = "canaries" if spec["layout"] == "one_run" else "pairs"
        batch, pairs = spec["batch_pairs"], spec[size]
        for other, theirs in runs_beside(self.folder, "evidence", mine["evidence"]):
            had = theirs["spec"].get(size, 0)
            self._copy(other, pairs if had == pairs else min(had, pairs) // batch * batch)

    def _copy(self, other: Path, limit: int) -> None:
        """Whole batches of pairs below `limit`, at the end of the chain of this run."""
        with self._database() as db:
            lacking = db.execute(LACKING, (limit,)).fetchall() if self._attach(db, other) else []
            for entry in lacking:
                db.execute(ROWS, (entry[0], entry[0] + entry[2]))
                chain.append(db, entry)

    def join(self, other: RunStore) -> None:
        """Copy the batches of another store of the same run."""
        with self._database() as db:
            self._attach(db, other.folder)
            for query in DIFFER:
                if found := db.execute(query).fetchone():
                    raise StoreError(
                        f"{str(other.folder)!r} and {str(self.folder)!r} both hold pair "
                        f"{found[0]}, with different answers; leave one of them out."
                    )
            db.execute("INSERT OR IGNORE INTO shards SELECT * FROM other.shards")
            chain.note_looks(
                db, dict(db.execute("SELECT run, pairs FROM other.looks ORDER BY rowid"))
            )
        self._copy(other.folder, ALL)

    def note_looks(self, looks: Mapping[str, int]) -> None:
        """Record results that were computed from this evidence."""
        with self._database() as db:
            db.execute("BEGIN IMMEDIATE")
            chain.note_looks(db, looks)

    def head(self, pairs: int) -> str:
        """The head of the chain of the first pairs and the control pairs, in their order."""
        with self._database() as db:
            return chain.head_of(db, pairs)

    def belongs_to(self, number: int, total: int) -> None:
        """Record that the folder holds a shard."""
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

    @property
    def has_result(self) -> bool:
        """Whether a result was computed here, from everything that is stored."""
        return result_in(self.folder) is not None

    def batches(self) -> set[int]:
        """First pairs of the batches that are stored."""
        with self._database() as db:
            return {row[0] for row in db.execute("SELECT first FROM batches")}

    def order(self) -> dict[int, int]:
        """First pairs of the batches that are stored, with their places in the order of storing."""
        with self._database() as db:
            return dict(db.execute("SELECT first, number FROM batches"))

    def add(self, first: int, rows: Iterable[EvidenceRow], calls: int) -> None:
        """Store a batch in one transaction; a batch stored before stays as it is."""
        packed = [_pack_row(row) for row in rows]
        digests = [chain.row_digest(row) for row in packed]
        values = [(row[0], digest, *row[1:]) for row, digest in zip(packed, digests, strict=True)]
        with self._database() as db:
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT 1 FROM batches WHERE first = ?", (first,)).fetchone():
                db.executemany("INSERT INTO evidence VALUES (?, ?, ?, ?, ?)", values)
                chain.append(db, (first, calls, len(values), chain.rows_digest(digests)))

    def controls(self) -> list[EvidenceRow]:
        """The control pairs that are stored, in their order, without the late ones."""
        return [_unpack_row(row) for row in self._some(-LATE, 0, ALL)]

    def late_controls(self) -> list[EvidenceRow]:
        """The control pairs that were asked after the last pair, of all shards, in their order."""
        return [_unpack_row(row) for row in self._some(-(OTHERS - 1) * LATE, -LATE, ALL)]

    def others(self, place: int, number: int) -> list[EvidenceRow]:
        """The stored pairs of another attack, up to the first that is missing."""
        start = -(OTHERS + place) * LATE
        return self.without_gap(start, start + number)

    def evidence(self, start: int = 0, stop: int = ALL) -> Iterator[EvidenceRow]:
        """The stored pairs in their order, read as they are needed."""
        while rows := self._some(start, stop, BLOCK):
            yield from map(_unpack_row, rows)
            start = rows[-1][0] + 1

    def without_gap(self, start: int, stop: int) -> list[EvidenceRow]:
        """The stored pairs from `start` on, up to the first that is missing."""
        rows = enumerate(self._some(start, stop, stop - start), start)
        return [_unpack_row(row) for _, row in takewhile(lambda at: at[0] == at[1][0], rows)]

    def _some(self, start: int, stop: int, most: int) -> list[Packed]:
        with self._database() as db:
            return db.execute(NEXT, (start, stop, most)).fetchall()

    def calls(self, stop: int = ALL) -> int:
        """Count the model calls of the stored batches."""
        with self._database() as db:
            found = db.execute(
                "SELECT COALESCE(SUM(calls), 0) FROM batches "
                "WHERE first >= ? AND first < ? OR first < ?",
                (-2 * LATE, stop, -(OTHERS - 1) * LATE),
            ).fetchone()
        return int(found[0])

    def finish(self, pairs: int, record: str) -> Path:
        """Note a result of so many pairs, and write its record.

        The digest is stored before, so that an edit shows, and the fields after, so that a removal
        shows and an audit that is killed meanwhile is unfinished.
        """
        with self._database() as db:
            db.execute("BEGIN IMMEDIATE")
            chain.note_looks(db, {self.folder.name: pairs})
            chain.note_record(db, chain.text_digest(record.encode()))
        file = self.write("record.json", record)
        with self._database() as db:
            db.execute("BEGIN IMMEDIATE")
            manifest = (self.folder / "manifest.json").read_bytes()
            chain.note_fields(db, {"record.json": record.encode(), "manifest.json": manifest})
        return file

    def write(self, name: str, text: str) -> Path:
        """Write a file of the run, whole or not at all."""
        path = self.folder / name
        write_private(path, text)
        return path
