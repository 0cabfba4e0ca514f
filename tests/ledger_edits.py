"""Changes of a ledger in an SQLite file behind its back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeAlias

import numpy as np

from leakbound.serving.ledger.tables import ACCOUNT

Edit: TypeAlias = str | Callable[[Any], None]  # a statement, or what is done to all accounts


def edit(path: str, change: Edit) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        if isinstance(change, str):
            db.execute(change)
            return
        edit_accounts(db, change)


def edit_accounts(db: Any, change: Callable[[Any], None], mark: str = "?") -> None:
    for block, data in db.execute("SELECT block, data FROM leakbound_accounts").fetchall():
        accounts = np.frombuffer(data, ACCOUNT).copy()
        change(accounts)
        row = accounts.tobytes(), block
        db.execute(f"UPDATE leakbound_accounts SET data = {mark} WHERE block = {mark}", row)


def spend_is(value: float) -> Callable[[Any], None]:
    def change(accounts: Any) -> None:
        accounts["spent"] = value

    return change
