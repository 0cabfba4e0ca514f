"""What a ledger holds. For operators only: clients learn public facts alone."""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import StoreError
from leakbound.serving.ledger import tables
from leakbound.serving.ledger.ledger import KEY_CHECK, open_storage
from leakbound.serving.ledger.storage import (
    Database,
    KeyFile,
    Mark,
    SqliteStorage,
    Storage,
    hmac_of,
    id_name,
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
        counts = "SELECT COUNT(*), COALESCE(MAX(spent), 0.0) FROM leakbound_accounts"
        records, most = db.run(counts)[0]
        over = "SELECT COUNT(*) FROM leakbound_accounts WHERE spent > ?"
        limit = _limit(db, values)
        exhausted = int(db.run(over, (limit,))[0][0]) if math.isfinite(limit) else 0
        datasets = db.run("SELECT name, answers, spent FROM leakbound_datasets ORDER BY name")
        each = tuple(
            _DataSet(str(name), int(answers), _epsilon(db, unit, delta, str(name), float(spent)))
            for name, answers, spent in datasets
        )
        return LedgerReport(
            storage.address, float(values["epsilon"]), delta, values.get("relation", ""),
            unit.name if "unit" in values else "", tables.head(db), each,
            int(records), exhausted, unit.epsilon(float(most), delta) if float(most) else 0.0,
        )  # fmt: skip


def _epsilon(db: Database, unit: Unit, delta: float, name: str, spent: float) -> float:
    if unit != UNLIMITED:
        return unit.epsilon(spent, delta)
    return compose_epsilon(tables.guarantees(db, name), delta)


def account(address: str | Path, record_id: str, key: str | Path | None = None) -> Account:
    storage = _open_existing(address)
    keys = KeyFile(Path(key) if key is not None else storage.key_file)
    record = hmac_of(keys.secret(), id_name(record_id))
    with storage.transaction(write=False) as db:
        values = tables.total(db)
        if hmac_of(keys.secret(), KEY_CHECK) != values["key_check"]:
            raise StoreError(_other_key(keys))
        sql = "SELECT answers, spent FROM leakbound_accounts WHERE record = ?"
        rows = db.run(sql, (record,))
        answers, spent = (int(rows[0][0]), float(rows[0][1])) if rows else (0, 0.0)
        epsilon = unit_of(values).epsilon(spent, float(values["delta"])) if spent else 0.0
        return Account(answers, epsilon, spent <= _limit(db, values))


def _other_key(keys: KeyFile) -> str:
    return (
        f"the key file {str(keys.path)!r} belongs to another ledger; name the right one "
        "(--ledger-key)."
    )


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
        found += [*_sums(db), *_overspent(db, values), *_key_problems(db, values, keys, marks)]
    return [*found, *_open_to_others(storage, keys)]


def _sums(db: Database) -> Iterator[str]:
    """Whether the three tables agree."""
    count, newest, records, paid = db.run(
        "SELECT COUNT(*), COALESCE(MAX(number), 0), COALESCE(SUM(records), 0), "
        "COALESCE(SUM(price * records), 0.0) FROM leakbound_answers"
    )[0]
    answers, spent = db.run(
        "SELECT COALESCE(SUM(answers), 0), COALESCE(SUM(spent), 0.0) FROM leakbound_accounts"
    )[0]
    named = db.run("SELECT COALESCE(SUM(answers), 0) FROM leakbound_datasets")[0][0]
    if int(count) != int(newest) or int(named) != int(newest):
        yield (
            f"the newest answer is number {newest}, {count} answers are kept, and the data sets "
            f"count {int(named)}; some were removed."
        )
    if int(answers) != int(records) or not math.isclose(float(spent), float(paid), rel_tol=1e-6):
        yield (
            f"answers charged {int(records)} times, and the accounts were charged "
            f"{int(answers)} times; some account was changed."
        )


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
    if math.isinf(most):
        return
    sql = "SELECT COUNT(*) FROM leakbound_accounts WHERE spent > ?"
    over = int(db.run(sql, (most * (1 + 2 * ACCURACY),))[0][0])
    if over:
        yield f"{over} records have spent more than the budget."


def _key_problems(
    db: Database, values: dict[str, str], keys: KeyFile, marks: list[Mark]
) -> Iterator[str]:
    if not keys.exists():
        yield f"the key file {str(keys.path)!r} is missing, so nothing can be answered."
        return
    if hmac_of(keys.secret(), KEY_CHECK) != values["key_check"]:
        yield _other_key(keys)
        return
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
