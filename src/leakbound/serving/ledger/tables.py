"""The tables of a ledger, the same on every storage."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hmac import compare_digest
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from leakbound.errors import StoreError
from leakbound.privacy import Guarantee
from leakbound.serving.ledger.storage import KEY, Database, Keys, SqlValue, mac_of
from leakbound.serving.ledger.units import from_json

VERSION = "3"
SCHEMA = (
    "CREATE TABLE leakbound_total (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE leakbound_datasets (name TEXT NOT NULL, guarantee TEXT NOT NULL, "
    "answers BIGINT NOT NULL, spent DOUBLE PRECISION NOT NULL, PRIMARY KEY (name, guarantee))",
    "CREATE TABLE leakbound_accounts (block BIGINT PRIMARY KEY, data BYTEA NOT NULL)",
    "CREATE TABLE leakbound_answers (number BIGINT PRIMARY KEY, dataset TEXT NOT NULL, "
    "guarantee TEXT NOT NULL, price DOUBLE PRECISION NOT NULL, records BIGINT NOT NULL, "
    "left_out BIGINT NOT NULL, at TEXT NOT NULL, tag TEXT NOT NULL)",
)
CHUNK = 500  # values per statement: older versions of SQLite allow 999
# Accounts are kept in blocks, by the first bits of their keys: a million in 16,384 rows of 2 kB, of
# which a spend takes a tenth of the time that a million rows take.
ACCOUNT = np.dtype([("key", f"S{KEY}"), ("answers", "<i8"), ("spent", "<f8")])
BLOCK_BITS = 14
WRITE_BLOCK = (
    "INSERT INTO leakbound_accounts VALUES (?, ?) ON CONFLICT (block) DO UPDATE SET "
    "data = excluded.data"
)
WRITE_DATASET = (
    "INSERT INTO leakbound_datasets VALUES (?, ?, ?, ?) ON CONFLICT (name, guarantee) DO UPDATE "
    "SET answers = excluded.answers, spent = excluded.spent"
)
AccountRows: TypeAlias = npt.NDArray[np.void]
# The root of a ledger is the sum of a keyed hash of each block and each row of the data sets; the
# tag of an answer is a keyed hash of the answer, of the root after it and of all limits. No later
# spend covers up an edit: the root would need a second state of one block (Clarke et al.,
# "Incremental multiset hash functions", ASIACRYPT 2003).
ROOT_BITS = 256
ONCE = 16  # characters of a tag that are drawn
FIXED = {"unit", "capacity", "relation", "names"}  # by the first answer


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One answer as the ledger stores it (for operators)."""

    number: int
    dataset: str
    guarantee: str
    price: float
    records: int
    left_out: int
    at: str


def fill(db: Database, values: dict[str, str]) -> None:
    for statement in SCHEMA:
        db.run(statement)
    rows = list(values.items())
    db.run_each("INSERT INTO leakbound_total VALUES (?, ?)", rows)


def total(db: Database) -> dict[str, str]:
    rows = db.run("SELECT name, value FROM leakbound_total")
    found = {str(name): str(value) for name, value in rows}
    if found["schema_version"] != VERSION:
        raise StoreError(
            f"the ledger has schema {found['schema_version']}, and this release reads {VERSION}; "
            "nothing was released. Use the release that wrote it, or another ledger (--ledger) "
            "with another key file (--ledger-key)."
        )
    return found


def head(db: Database) -> int:
    return int(db.run("SELECT COALESCE(MAX(number), 0) FROM leakbound_answers")[0][0])


def tag_of(db: Database, number: int) -> str | None:
    rows = db.run("SELECT tag FROM leakbound_answers WHERE number = ?", (number,))
    return str(rows[0][0]) if rows else None


def dataset(db: Database, name: str) -> tuple[list[tuple[Guarantee, int]], int, float]:
    """How often each guarantee was paid for, the number of answers, and what they cost."""
    rows = db.run("SELECT * FROM leakbound_datasets WHERE name = ? ORDER BY guarantee", (name,))
    counts = [(from_json(str(row[1])), int(row[2])) for row in rows]
    return counts, sum(times for _, times in counts), math.fsum(float(row[3]) for row in rows)


def accounts(blocks: dict[int, bytes]) -> AccountRows:
    return np.frombuffer(b"".join(blocks.values()), ACCOUNT)


def blocks(db: Database, keys: Keys | None = None) -> dict[int, bytes]:
    """The accounts in the order of their keys: all, or the blocks of a few keys."""
    wanted = [] if keys is None else np.unique(_numbers(keys)).tolist()
    which = "" if keys is None else f" WHERE block IN ({', '.join('?' * len(wanted))})"
    rows = db.run(f"SELECT block, data FROM leakbound_accounts{which} ORDER BY block", wanted)
    found = {int(number): data for number, data in rows if isinstance(data, bytes)}
    if len(found) < len(rows):
        raise ValueError("some accounts are no bytes, or are there twice")
    return found


def _numbers(keys: Keys) -> npt.NDArray[np.int64]:
    first = np.ascontiguousarray(keys).view(">u2").reshape(-1, KEY // 2)[:, 0]
    return (first >> (16 - BLOCK_BITS)).astype(np.int64)


def charge(
    db: Database, secret: bytes, keys: Keys, price: float, most: float
) -> tuple[npt.NDArray[np.bool_], int]:
    """Charge those of ordered keys that can pay: which ones, and the change of the root."""
    able, change = np.zeros(len(keys), bool), 0
    starts = np.flatnonzero(np.diff(_numbers(keys), prepend=-1))[::CHUNK]
    for begin, end in pairwise([*starts, len(keys)]):
        part, old = keys[begin:end], blocks(db, keys[begin:end])
        before = accounts(old)
        at = np.searchsorted(before["key"], part)
        new = np.append(before["key"], b"")[at] != part
        fresh = np.zeros(int(new.sum()), ACCOUNT)
        fresh["key"] = part[new]
        after, places = np.insert(before, at[new], fresh), at + np.cumsum(new) - new
        able[begin:end] = paying = after["spent"][places] + price <= most
        after["spent"][places[paying]] += price
        after["answers"][places[paying]] += 1
        numbers = _numbers(after["key"])
        ends = [0, *np.flatnonzero(np.diff(numbers)) + 1, len(after)]
        rows = [(int(numbers[a]), after[a:b].tobytes()) for a, b in pairwise(ends)]
        db.run_each(WRITE_BLOCK, rows)
        change += sum(_of_block(secret, *one) for one in rows)
        change -= sum(_of_block(secret, *one) for one in old.items())
    return able, change


def charge_dataset(db: Database, secret: bytes, name: str, guarantee: str, price: float) -> int:
    """Count an answer; the change of the root."""
    sql = "SELECT * FROM leakbound_datasets WHERE name = ? AND guarantee = ?"
    old = db.run(sql, (name, guarantee))
    answers, spent = (int(old[0][2]), float(old[0][3])) if old else (0, 0.0)
    row = (name, guarantee, answers + 1, spent + price)
    db.run(WRITE_DATASET, row)
    return _of_row(secret, row) - sum(_of_row(secret, one) for one in old)


# --- what the key file confirms


def _of_block(secret: bytes, number: int, data: bytes) -> int:
    return int.from_bytes(mac_of(secret, b"accounts", b"%d:%b" % (number, data)))


def _of_row(secret: bytes, row: Sequence[SqlValue]) -> int:
    return int.from_bytes(mac_of(secret, b"datasets", json.dumps(row).encode()))


def _tag(secret: bytes, values: dict[str, str], answer: Sequence[SqlValue], once: str) -> str:
    """With what is drawn `once`, so that equal answers of two copies have other tags."""
    text = json.dumps([answer, sorted(values.items()), once])
    return once + mac_of(secret, b"answers", text.encode()).hex()


def add_answer(
    db: Database, secret: bytes, values: dict[str, str], change: int, *answer: SqlValue
) -> tuple[int, str]:
    """Store the root after an answer, and the answer with its tag."""
    values["root"] = f"{(int(values['root'], 16) + change) % (1 << ROOT_BITS):x}"
    db.run("UPDATE leakbound_total SET value = ? WHERE name = 'root'", (values["root"],))
    number = head(db) + 1
    row = (number, *answer, datetime.now(UTC).isoformat(timespec="seconds"))
    tag = _tag(secret, values, row, secrets.token_hex(ONCE // 2))
    db.run("INSERT INTO leakbound_answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, tag))
    return number, tag


def is_confirmed(db: Database, secret: bytes, values: dict[str, str]) -> bool:
    """Whether the root and the other values are those of the newest answer."""
    rows = db.run("SELECT * FROM leakbound_answers ORDER BY number DESC LIMIT 1")
    if not rows and (values.keys() & FIXED or values["root"] != "0"):
        return False
    return all(
        compare_digest(str(tag), _tag(secret, values, row, str(tag)[:ONCE])) for *row, tag in rows
    )


def changes(db: Database, secret: bytes | None, values: dict[str, str]) -> Iterator[str]:
    """What another hand changed; without the secret, whether the tables agree."""
    sql = "SELECT COUNT(*), MAX(number), SUM(records), SUM(price * records) FROM leakbound_answers"
    kept, newest, records, paid = (float(one or 0) for one in db.run(sql)[0])
    rows = db.run("SELECT * FROM leakbound_datasets")
    named = sum(int(row[2]) for row in rows)
    if not kept == newest == named:
        yield (
            f"the newest answer is number {newest:.0f}, {kept:.0f} answers are kept, and the data "
            f"sets count {named}; some were removed."
        )
    found = blocks(db)
    times, spent = (float(accounts(found)[name].sum()) for name in ("answers", "spent"))
    if times != records or not math.isclose(spent, paid, rel_tol=1e-6):
        yield (
            f"answers charged {records:.0f} times, and the accounts were charged {times:.0f} "
            "times; some account was changed."
        )
    if secret is None:
        return
    root = sum(_of_block(secret, *one) for one in found.items())
    root += sum(_of_row(secret, row) for row in rows)
    twice = len({row[:2] for row in rows}) < len(rows)
    same = root % (1 << ROOT_BITS) == int(values["root"], 16) and not twice
    if not same or not is_confirmed(db, secret, values):
        yield "the accounts, data sets or limits are not those that its key file confirms."


def list_answers(db: Database, last: int | None = None) -> list[GivenAnswer]:
    sql = (
        "SELECT number, dataset, guarantee, price, records, left_out, at FROM leakbound_answers "
        "WHERE number > ? ORDER BY number"
    )
    kinds = (int, str, str, float, int, int, str)
    rows = db.run(sql, (0 if last is None else head(db) - last,))
    return [GivenAnswer(*(kind(one) for kind, one in zip(kinds, row, strict=True))) for row in rows]
