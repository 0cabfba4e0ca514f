"""The key file of a ledger: the secret of its record keys, and its high-water mark.

The key file is separate from the ledger. So a copy of the ledger alone cannot confirm a guess about
a record, and a ledger that was restored to an older state is detected.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import DataError, StoreError, UsageError
from leakbound.models.content import content_key
from leakbound.serving.ledger.storage import Database, SqliteStorage
from leakbound.tasks import Context

SCHEMA = (
    "CREATE TABLE secret (value TEXT NOT NULL) STRICT",
    "CREATE TABLE marks (ledger TEXT PRIMARY KEY, address TEXT NOT NULL, number INTEGER NOT NULL, "
    "tag TEXT NOT NULL) STRICT",
)
SHOWN = 3  # pairs of equal rows that an error names
DIGITS = 32  # hexadecimal, of a record key: a collision among a billion records is below 1e-19


def record_names(context: Context, ids: Sequence[str] | None = None) -> tuple[str, ...]:
    """The name under which the ledger keeps the account of each record.

    Guarantee:
        With ids, replacing an example changes no account. Without ids, accounts belong to contents
        and guarantees hold for data sets without equal rows. Data sets with equal rows are refused,
        so a copy of a row never has its own budget.
    """
    if ids is not None:
        return tuple(map(id_name, _distinct(ids, len(context))))
    contents = [json.dumps([content_key(row.input), row.label]) for row in context]
    _refuse_copies(contents)
    return tuple(json.dumps(["content", content, 0]) for content in contents)


def _refuse_copies(contents: Sequence[str]) -> None:
    """Refuse copies: they look like a record that is added once more each day."""
    first = {content: i for i, content in reversed(list(enumerate(contents)))}
    again = [i for i, content in enumerate(contents) if first[content] < i]
    if not again:
        return
    pairs = ", ".join(f"{first[contents[i]] + 1} and {i + 1}" for i in again[:SHOWN])
    more = f" and {len(again) - SHOWN} more pairs" if len(again) > SHOWN else ""
    raise DataError(
        f"some of the {len(contents)} examples are equal (numbers {pairs}{more}). Without record "
        "ids, an account belongs to a content, so a copy would get its own budget. Name a column "
        "that says whose row each is (--record-id), or leave the copies out."
    )


def id_name(record_id: str) -> str:
    """The name of a record with an id. It differs from the name of any content."""
    return json.dumps(["id", record_id])


def _distinct(ids: Sequence[str], count: int) -> Sequence[str]:
    if len(ids) != count:
        raise DataError(
            f"there are {len(ids)} record ids and {count} examples; give one id for each example."
        )
    if len(set(ids)) != count:
        raise DataError(
            f"{count - len(set(ids))} of the {count} record ids occur more than once; each record "
            "has one account, so its id must be unique. Name a column of distinct values "
            "(--record-id)."
        )
    return ids


@dataclass(frozen=True, slots=True)
class Mark:
    """The newest answer that was ever released from a ledger."""

    ledger: str
    address: str
    number: int
    tag: str


class KeyFile:
    """A secret and the high-water marks of ledgers, in a file that only its owner can read."""

    def __init__(self, path: str | Path) -> None:
        self._storage = SqliteStorage(path)
        self.path = self._storage.path

    def create(self) -> None:
        self._storage.create(_fill)

    def exists(self) -> bool:
        return self._storage.exists()

    def secret(self) -> bytes:
        if not self.exists():
            raise StoreError(
                f"the key file {str(self.path)!r} of the ledger is missing; without it no "
                "account can be found, so nothing can be answered. Restore it, or name its path "
                "with --ledger-key."
            )
        with self._storage.transaction(write=False) as db:
            return bytes.fromhex(str(db.run("SELECT value FROM secret")[0][0]))

    def marks(self) -> list[Mark]:
        with self._storage.transaction(write=False) as db:
            rows = db.run("SELECT ledger, address, number, tag FROM marks")
        return [Mark(str(a), str(b), int(c), str(d)) for a, b, c, d in rows]

    def raise_to(self, mark: Mark) -> None:
        """Replace a lower mark, or the same mark at an older address, durably."""
        with self._storage.transaction(write=True) as db:
            db.run(
                "INSERT INTO marks VALUES (?, ?, ?, ?) ON CONFLICT (ledger) DO UPDATE SET "
                "address = excluded.address, number = excluded.number, tag = excluded.tag "
                "WHERE excluded.number > marks.number OR "
                "(excluded.number = marks.number AND excluded.tag = marks.tag)",
                (mark.ledger, mark.address, mark.number, mark.tag),
            )


def _fill(db: Database) -> None:
    for statement in SCHEMA:
        db.run(statement)
    db.run("INSERT INTO secret VALUES (?)", (secrets.token_hex(32),))


def hmac_of(secret: bytes, text: str) -> str:
    """A key that confirms no guess without the secret."""
    if not isinstance(text, str):
        raise UsageError("a record is not a text; name each record by a text.")
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()[:DIGITS]
