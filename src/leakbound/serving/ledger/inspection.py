"""What a ledger holds. For operators only: clients learn public facts alone."""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import StoreError
from leakbound.serving.ledger import tables
from leakbound.serving.ledger.ledger import open_storage
from leakbound.serving.ledger.storage import (
    Database,
    KeyFile,
    Mark,
    SqliteStorage,
    Storage,
    id_name,
    record_keys,
)
from leakbound.serving.ledger.tables import GivenAnswer
from leakbound.serving.ledger.units import (
    ACCURACY,
    EQUAL,
    UNLIMITED,
    Unit,
    compose_epsilon,
    unit_named,
    unit_of,
)


@dataclass(frozen=True, slots=True)
class _DataSet:
    name: str
    answers: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Account:
    """What one record has spent (PRIVATE)."""

    answers: int
    epsilon: float
    pays: bool


@dataclass(frozen=True, slots=True)
class LedgerReport:
    address: str
    epsilon: float
    delta: float
    relation: str
    unit: str
    answers: int
    datasets: tuple[_DataSet, ...]
    records: int
    exhausted: int
    most_spent: float


def _open_existing(address: str | Path) -> Storage:
    storage = open_storage(address)
    if not storage.exists():
        raise StoreError(
            f"there is no ledger at {storage.address!r}; name one that gave answers (--ledger)."
        )
    return storage


def _limit(db: Database, values: dict[str, str]) -> float:
    """The most that an account may have spent to pay for another answer like the newest one."""
    rows = db.run("SELECT price FROM leakbound_answers ORDER BY number DESC LIMIT 1")
    if not rows:
        return math.inf
    return float(values.get("capacity", math.inf)) * (1 + ACCURACY) - float(rows[0][0])


def report(address: str | Path) -> LedgerReport:
    storage = _open_existing(address)
    with storage.transaction(write=False) as db:
        values = tables.total(db)
        unit, delta = unit_of(values), float(values["delta"])
        spent = tables.accounts(tables.blocks(db))["spent"]
        most = float(spent.max(initial=0.0))
        exhausted = int((spent > _limit(db, values)).sum())
        names = db.run("SELECT DISTINCT name FROM leakbound_datasets ORDER BY name")
        each = tuple(_data_set(db, unit, delta, str(name)) for (name,) in names)
        return LedgerReport(
            storage.address, float(values["epsilon"]), delta, values.get("relation", ""),
            unit.name if "unit" in values else "", tables.head(db), each,
            len(spent), exhausted, unit.epsilon(most, delta) if most else 0.0,
        )  # fmt: skip


def _data_set(db: Database, unit: Unit, delta: float, name: str) -> _DataSet:
    counts, answers, spent = tables.dataset(db, name)
    known = unit.epsilon(spent, delta) if unit != UNLIMITED else compose_epsilon(counts, delta)
    return _DataSet(name, answers, known)


def account(address: str | Path, record_id: str, key: str | Path | None = None) -> Account:
    storage = _open_existing(address)
    keys = KeyFile(Path(key) if key is not None else storage.key_file)
    with storage.transaction(write=False) as db:
        values = tables.total(db)
        record = record_keys(keys.secret_of(values), [id_name(record_id)])
        block = tables.accounts(tables.blocks(db, record))
        found = block[block["key"] == record]
        answers, spent = int(found["answers"].sum()), float(found["spent"].sum())
        epsilon = unit_of(values).epsilon(spent, float(values["delta"])) if spent else 0.0
        return Account(answers, epsilon, spent <= _limit(db, values))


def history(address: str | Path, last: int | None = None) -> list[GivenAnswer]:
    with _open_existing(address).transaction(write=False) as db:
        tables.total(db)
        return tables.list_answers(db, last)


def problems(address: str | Path, key: str | Path | None = None) -> list[str]:
    storage = _open_existing(address)
    keys = KeyFile(Path(key) if key is not None else storage.key_file)
    damage = storage.damage()
    found = [f"the storage is damaged: {damage}."] if damage else []
    marks = keys.marks() if keys.exists() else []  # read first: the ledger may grow meanwhile
    with storage.transaction(write=False) as db:
        values = tables.total(db)
        secret, wrong = None, list(_gaps(db, values, marks))
        try:
            secret = keys.secret_of(values)
        except StoreError as error:
            wrong = [str(error)]
        found += [*tables.changes(db, secret, values), *_overspent(db, values), *wrong]
    return [*found, *_open_to_others(storage, keys)]


def _overspent(db: Database, values: dict[str, str]) -> Iterator[str]:
    if "unit" not in values:
        return
    unit, capacity = unit_named(values["unit"]), float(values["capacity"])
    most = (
        capacity
        if unit.kind == EQUAL
        else unit.capacity(float(values["epsilon"]), float(values["delta"]))
    )
    if not math.isclose(most, capacity, rel_tol=1e-6):
        yield f"accounts may spend {capacity:g}, and the budget is {most:g} in this unit."
    over = int((tables.accounts(tables.blocks(db))["spent"] > most * (1 + 2 * ACCURACY)).sum())
    if over:
        yield f"{over} records have spent more than the budget."


def _gaps(db: Database, values: dict[str, str], marks: list[Mark]) -> Iterator[str]:
    for mark in marks:
        if mark.ledger == values["ledger"] and tables.tag_of(db, mark.number) != mark.tag:
            yield (
                f"answer number {mark.number} was released and is not in this ledger: it is an old "
                "or another copy. Restore the newest one."
            )


def _open_to_others(storage: Storage, keys: KeyFile) -> Iterator[str]:
    files = [storage.path] if isinstance(storage, SqliteStorage) else []
    for path in (*files, keys.path):
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0
        if mode & 0o077:
            yield f"{str(path)!r} has mode {mode:o}; set 600, so that only its owner can read it."
