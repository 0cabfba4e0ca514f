"""Stored evidence chained by hashes: what is read is what was stored.

Each row has a digest. Each batch has a number in the order of storing, a digest of its rows, and a
link: a hash of the link before it and of the batch. The last number and link are kept apart, so
that a missing last batch shows too. Looks, the results that were computed from a run, come from
several runs in any order: they have one digest together. The digests are plain hashes: they show an
edit that does not rebuild the chain. Against an edit that rebuilds it, a result holds the head that
it was computed from. Each record.json that an audit wrote has its digest here, under that of the
looks, and so have the fields of record.json and manifest.json, so that an edit can be named.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TypeAlias

Packed: TypeAlias = tuple[int, str, str, str | None]  # pair, canary-in, canary-out, asked again
Entry: TypeAlias = tuple[int, int, int, str]  # first pair, model calls, pairs, digest of the rows
START = hashlib.sha256(b"leakbound evidence").hexdigest()  # the link before the first batch
NO_LOOKS = hashlib.sha256(  # the digest of a run without a result
    b'{"looks": [], "records": [], "fields": []}'
).hexdigest()
SCHEMA = f"""
CREATE TABLE IF NOT EXISTS evidence (
  pair INTEGER PRIMARY KEY, digest TEXT NOT NULL,
  member TEXT NOT NULL, nonmember TEXT NOT NULL, again TEXT) STRICT;
CREATE TABLE IF NOT EXISTS batches (
  first INTEGER PRIMARY KEY, calls INTEGER NOT NULL, pairs INTEGER NOT NULL, digest TEXT NOT NULL,
  number INTEGER NOT NULL UNIQUE, link TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS head (
  id INTEGER PRIMARY KEY CHECK (id = 1), number INTEGER NOT NULL, link TEXT NOT NULL) STRICT;
INSERT OR IGNORE INTO head VALUES (1, 0, '{START}');
CREATE TABLE IF NOT EXISTS looks (run TEXT PRIMARY KEY, pairs INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS records (digest TEXT PRIMARY KEY) STRICT;
CREATE TABLE IF NOT EXISTS fields (
  file TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (file, name)) STRICT;
CREATE TABLE IF NOT EXISTS looks_digest (
  id INTEGER PRIMARY KEY CHECK (id = 1), digest TEXT NOT NULL) STRICT;
INSERT OR IGNORE INTO looks_digest SELECT 1, '{NO_LOOKS}'
  WHERE (SELECT user_version FROM pragma_user_version) = 0;
"""


def row_digest(row: Packed) -> str:
    return hashlib.sha256(json.dumps(row).encode()).hexdigest()


def rows_digest(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def append(db: sqlite3.Connection, entry: Entry) -> None:
    """Add a batch at the end of the chain; its rows are stored in the same transaction."""
    number, before = db.execute("SELECT number, link FROM head").fetchone()
    follows = (number + 1, _link(before, entry))
    db.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)", (*entry, *follows))
    db.execute("UPDATE head SET number = ?, link = ?", follows)


def note_looks(db: sqlite3.Connection, looks: Mapping[str, int]) -> None:
    """Add looks; one of a run that is noted stays as it is."""
    db.executemany("INSERT OR IGNORE INTO looks VALUES (?, ?)", looks.items())
    db.execute("UPDATE looks_digest SET digest = ?", (_looks_digest(db),))


def text_digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def note_record(db: sqlite3.Connection, digest: str) -> None:
    """Add a record that an audit is about to write."""
    db.execute("INSERT OR IGNORE INTO records VALUES (?)", (digest,))
    db.execute("UPDATE looks_digest SET digest = ?", (_looks_digest(db),))


def records_of(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute("SELECT digest FROM records ORDER BY digest")]


def note_fields(db: sqlite3.Connection, files: Mapping[str, bytes]) -> None:
    """Keep the digests of the fields of files, in place of those that were kept before."""
    for file, text in files.items():
        db.execute("DELETE FROM fields WHERE file = ?", (file,))
        rows = [(file, name, digest) for name, digest in _field_digests(text).items()]
        db.executemany("INSERT INTO fields VALUES (?, ?, ?)", rows)
    db.execute("UPDATE looks_digest SET digest = ?", (_looks_digest(db),))


def has_fields(db: sqlite3.Connection, file: str) -> bool:
    """Whether fields of a file are kept: it was written to its end."""
    query = "SELECT 1 FROM fields WHERE file = ?"
    return db.execute(query, (file,)).fetchone() is not None


def fields_changed(db: sqlite3.Connection, file: str, text: bytes) -> list[str]:
    """Fields of a file that are not as they were written."""
    kept = dict(db.execute("SELECT name, digest FROM fields WHERE file = ?", (file,)))
    found = _field_digests(text) if kept else {}
    return sorted(name for name in kept.keys() | found.keys() if kept.get(name) != found.get(name))


def whole_digest(db: sqlite3.Connection) -> str:
    """One digest of everything that is chained: what is kept elsewhere as an anchor."""
    head = db.execute("SELECT number, link FROM head").fetchone()
    return text_digest(json.dumps([head, _looks_digest(db)]).encode())


def _field_digests(text: bytes) -> dict[str, str]:
    """Digests of the fields of an object, and of the fields of those that are objects."""
    found: dict[str, object] = {}
    for name, value in json.loads(text).items():
        inner = value if isinstance(value, dict) and value else None
        found |= {name: value} if inner is None else {f"{name}.{k}": v for k, v in inner.items()}
    return {name: text_digest(json.dumps(v, sort_keys=True).encode()) for name, v in found.items()}


def head_of(db: sqlite3.Connection, stop: int, schema: str = "main") -> str:
    """The head of the chain of some batches in the order of their pairs, whenever they came."""
    link, columns = START, "first, calls, pairs, digest"
    query = f"SELECT {columns} FROM {schema}.batches WHERE first < ? ORDER BY first"
    for entry in db.execute(query, (stop,)):
        link = _link(link, entry)
    return link


def fault(db: sqlite3.Connection, schema: str = "main") -> str | None:
    """Recompute every hash; no aggregate is decoded."""
    return next(chain(_rows(db, schema), _links(db, schema)), None) or looks_fault(db, schema)


def looks_fault(db: sqlite3.Connection, schema: str = "main") -> str | None:
    tables = {name for (name,) in db.execute(f"SELECT name FROM {schema}.sqlite_master")}
    if "looks_digest" not in tables:
        return "the digest of its looks is missing"
    edited = "the list of the results that were computed from it was edited"
    if not {"looks", "records", "fields"} <= tables:
        return edited
    kept = db.execute(f"SELECT digest FROM {schema}.looks_digest").fetchone()
    return None if kept == (_looks_digest(db, schema),) else edited


def _looks_digest(db: sqlite3.Connection, schema: str = "main") -> str:
    tables = ("run, pairs", "looks"), ("digest", "records"), ("file, name, digest", "fields")
    kept = {
        table: db.execute(f"SELECT {columns} FROM {schema}.{table} ORDER BY {columns}").fetchall()
        for columns, table in tables
    }
    return text_digest(json.dumps(kept).encode())


def _link(before: str, entry: Entry) -> str:
    return hashlib.sha256(json.dumps([before, *entry]).encode()).hexdigest()


def _rows(db: sqlite3.Connection, schema: str) -> Iterator[str]:
    rows = db.execute(
        f"SELECT pair, member, nonmember, again, digest FROM {schema}.evidence ORDER BY pair"
    )
    batches = f"SELECT first, pairs, digest FROM {schema}.batches ORDER BY first"
    for first, pairs, digest in db.execute(batches):
        found = []
        for pair in range(first, first + pairs):
            row = rows.fetchone()
            if (problem := _change(row, pair)) is not None:
                yield problem
            found.append(row[-1])
        if rows_digest(found) != digest:
            yield f"pairs {first} to {first + pairs - 1} were replaced together"
    if (row := rows.fetchone()) is not None:
        yield f"pair {row[0]} belongs to no batch"


def _change(row: tuple[int, str, str, str | None, str] | None, pair: int) -> str | None:
    if row is None or row[0] > pair:
        return f"pair {pair} is missing"
    if row[0] < pair:
        return f"pair {row[0]} belongs to no batch"
    return f"pair {pair} was edited" if row_digest(row[:-1]) != row[-1] else None


def _links(db: sqlite3.Connection, schema: str) -> Iterator[str]:
    """Batches against the chain, in the order in which they were stored."""
    number, link = 0, START
    columns = "first, calls, pairs, digest, number, link"
    for *entry, place, found in db.execute(
        f"SELECT {columns} FROM {schema}.batches ORDER BY number"
    ):
        number += 1
        if place != number:
            yield f"batch number {number}, in the order of storing, is missing"
        link = _link(link, tuple(entry))
        if link != found:
            yield f"the batch of pair {entry[0]}, or its number of model calls, was edited"
    last = db.execute(f"SELECT number, link FROM {schema}.head").fetchone()
    if last is not None and last[0] > number:
        yield f"batch number {number + 1}, in the order of storing, is missing"
    elif last != (number, link):
        yield "the head of the chain was edited"
