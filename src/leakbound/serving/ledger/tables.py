"""The tables of a ledger, the same on every storage."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from leakbound.errors import StoreError
from leakbound.privacy import Guarantee
from leakbound.serving.ledger.storage import Database
from leakbound.serving.ledger.units import from_json

VERSION = "2"
SCHEMA = (
    "CREATE TABLE leakbound_total (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE leakbound_datasets (name TEXT PRIMARY KEY, answers BIGINT NOT NULL, "
    "spent DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE leakbound_accounts (record TEXT PRIMARY KEY, answers BIGINT NOT NULL, "
    "spent DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE leakbound_answers (number BIGINT PRIMARY KEY, tag TEXT NOT NULL, "
    "dataset TEXT NOT NULL, guarantee TEXT NOT NULL, price DOUBLE PRECISION NOT NULL, "
    "records BIGINT NOT NULL, left_out BIGINT NOT NULL, at TEXT NOT NULL)",
)
CHUNK = 500  # values per statement: older versions of SQLite allow 999


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
            "nothing was released. Use the release that wrote it, or another ledger (--ledger)."
        )
    return found


def head(db: Database) -> int:
    return int(db.run("SELECT COALESCE(MAX(number), 0) FROM leakbound_answers")[0][0])


def tag_of(db: Database, number: int) -> str | None:
    rows = db.run("SELECT tag FROM leakbound_answers WHERE number = ?", (number,))
    return str(rows[0][0]) if rows else None


def dataset(db: Database, name: str) -> tuple[int, float]:
    rows = db.run("SELECT answers, spent FROM leakbound_datasets WHERE name = ?", (name,))
    return (int(rows[0][0]), float(rows[0][1])) if rows else (0, 0.0)


def guarantees(db: Database, name: str) -> list[tuple[Guarantee, int]]:
    sql = (
        "SELECT guarantee, COUNT(*) FROM leakbound_answers WHERE dataset = ? GROUP BY guarantee "
        "ORDER BY guarantee"
    )
    return [(from_json(str(text)), int(times)) for text, times in db.run(sql, (name,))]


def balances(db: Database, records: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for first in range(0, len(records), CHUNK):
        part = records[first : first + CHUNK]
        marks = ", ".join("?" * len(part))
        sql = f"SELECT record, spent FROM leakbound_accounts WHERE record IN ({marks})"
        found.update((str(record), float(spent)) for record, spent in db.run(sql, part))
    return found


def open_accounts(db: Database, records: Sequence[str]) -> None:
    sql = "INSERT INTO leakbound_accounts VALUES (?, 0, 0.0)"
    db.run_each(sql, [(record,) for record in records])


def charge(db: Database, records: Sequence[str], price: float) -> None:
    sql = "UPDATE leakbound_accounts SET answers = answers + 1, spent = spent + ? WHERE record = ?"
    db.run_each(sql, [(price, record) for record in records])


def add_answer(
    db: Database, name: str, guarantee: str, price: float, records: int, left_out: int
) -> tuple[int, str]:
    """Store an answer, and charge its data set."""
    db.run(
        "INSERT INTO leakbound_datasets VALUES (?, 1, ?) ON CONFLICT (name) DO UPDATE SET answers "
        "= leakbound_datasets.answers + 1, spent = leakbound_datasets.spent + excluded.spent",
        (name, price),
    )
    number, tag = head(db) + 1, secrets.token_hex(8)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    row = (number, tag, name, guarantee, price, records, left_out, at)
    db.run("INSERT INTO leakbound_answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    return number, tag


def list_answers(db: Database, last: int | None = None) -> list[GivenAnswer]:
    sql = (
        "SELECT number, dataset, guarantee, price, records, left_out, at FROM leakbound_answers "
        "WHERE number > ? ORDER BY number"
    )
    kinds = (int, str, str, float, int, int, str)
    rows = db.run(sql, (0 if last is None else head(db) - last,))
    return [GivenAnswer(*(kind(one) for kind, one in zip(kinds, row, strict=True))) for row in rows]
