"""The run folder: manifest.json, trials.sqlite, record.json, report.html.

A batch is committed whole or not at all, and chained by hashes to the batches before it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from leakbound._files import write_private
from leakbound.auditing.design.pairs import LATE, OTHERS
from leakbound.auditing.store import chain
from leakbound.auditing.store.chain import Packed
from leakbound.auditing.store.folder import (
    KEY,
    TRIALS,
    VERSION,
    Settings,
    damage_error,
    first_day,
    is_keyed,
    is_run,
    load_manifest,
    make_key,
    newer,
    require_current,
    runs_beside,
    stable_json,
)
from leakbound.errors import StoreError, UsageError, findable, reason_of
from leakbound.estimators import Estimator
from leakbound.tasks import Aggregate
from leakbound.tasks import pack as _packed
from leakbound.tasks import unpack as _unpacked

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
        written, file = chain.records_of(db), folder / "manifest.json"
        manifest = not file.is_file() or chain.fields_changed(db, file.name, file.read_bytes())
    edited = bool(written) and chain.text_digest(record) not in written
    for name, other, how in (("record.json", edited, ""), (file.name, manifest, " with --fresh")):
        if other:
            raise EditedEvidence(
                f"{str(folder / name)!r} is not what the audit wrote: it was edited or removed. "
                f"Restore it from a copy, or run the audit again{how}, which writes it anew."
            )


def results_of(folder: Path) -> dict[str, int]:
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
    others = f"SELECT 1 FROM {schema}.sqlite_master WHERE type IN ('view', 'trigger')"
    if db.execute(others).fetchone():  # a view in place of a table may have rows without end
        raise _change(folder, "a view or a trigger was added")
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
    """Earlier results from the same evidence: whoever has seen one may have chosen another number
    of pairs by it, so bounds for a fixed number are none then."""

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


def prior_results(folder: Path, identity: Settings) -> PriorResults:
    """Results from what a run and those beside it asked, as answers may come again; none are added
    once the run has a result, so that it stays the same."""
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
    own_test = identity.get("own_test", False)
    return PriorResults(others_only, own_test, first_day(folder, identity["evidence"]))


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
        cls, path: Path, identity: Settings, reuse: bool = False,
        require: Callable[[PriorResults], None] = lambda prior: None,
    ) -> tuple[RunStore, PriorResults]:  # fmt: skip
        """The run at a path, made and verified once, and results from the same trials before it,
        which `require` may refuse; with `reuse`, equal answers of other runs are copied."""
        prior = prior_results(path, identity)
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
        """Copy the batches of other runs that asked the same, so that each folder stays whole."""
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
            if self.has_result:  # computed from everything that is stored, so nothing is added
                if db.execute(LACKING, (ALL,)).fetchone():
                    raise StoreError(
                        f"{str(self.folder)!r} holds the finished run of this command already, "
                        f"without some of what {str(other.folder)!r} holds; give another --out."
                    )
                return
            db.execute("INSERT OR IGNORE INTO shards SELECT * FROM other.shards")
            chain.note_looks(
                db, dict(db.execute("SELECT run, pairs FROM other.looks ORDER BY rowid"))
            )
        self._copy(other.folder, ALL)

    def note_looks(self, looks: Mapping[str, int]) -> None:
        with self._database() as db:
            db.execute("BEGIN IMMEDIATE")
            chain.note_looks(db, looks)

    def head(self, pairs: int) -> str:
        """The head of the chain of the first pairs and the control pairs, in their order."""
        with self._database() as db:
            return chain.head_of(db, pairs)

    def belongs_to(self, number: int, total: int) -> None:
        with self._database() as db:
            db.execute("INSERT OR IGNORE INTO shards VALUES (?, ?)", (number, total))

    def shards(self) -> list[tuple[int, int]]:
        with self._database() as db:
            return db.execute("SELECT number, total FROM shards ORDER BY total, number").fetchall()

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
        with self._database() as db:
            found = db.execute(
                "SELECT COALESCE(SUM(calls), 0) FROM batches "
                "WHERE first >= ? AND first < ? OR first < ?",
                (-2 * LATE, stop, -(OTHERS - 1) * LATE),
            ).fetchone()
        return int(found[0])

    def finish(self, pairs: int, record: str) -> Path:
        """Note a result of so many pairs: the digest before its record, so that any edit shows."""
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
        path = self.folder / name
        write_private(path, text)
        return path
