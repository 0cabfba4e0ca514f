"""Where a ledger is stored: transactions on an SQLite file or a PostgreSQL database.

Both storages have the same members. A transaction is durable if its block ends without an error,
else it is rolled back; `create` makes all tables or none; every failure is a `StoreError`.

The key file, separate from the ledger, holds a secret and a high-water mark: a copy of the ledger
alone confirms no guess about a record, and an old copy or a changed one is detected.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from unicodedata import category, normalize
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import numpy.typing as npt

from leakbound._install import install_hint
from leakbound.errors import DataError, LeakboundError, StoreError, UsageError, findable, reason_of
from leakbound.models.content import content_key
from leakbound.tasks import Context

if TYPE_CHECKING:
    from typing import LiteralString


SqlValue: TypeAlias = str | int | float | bytes
RecordName = Literal["id", "content"]  # what names a record
Keys: TypeAlias = npt.NDArray[np.bytes_]  # of accounts, each of KEY bytes
WAIT = 60.0  # seconds to wait for another process; a spend takes milliseconds


def unusable(address: str, error: Exception) -> StoreError:
    return StoreError(
        f"the ledger or key file {address!r} cannot be read or written ({reason_of(error)}); "
        "nothing was released. It must be one of this package, in a folder or database that can be "
        "written: restore it from a backup, or name another with --ledger or --ledger-key."
    )


class Database:
    """An open transaction. Statements are constants of this package and never contain values."""

    def __init__(self, connection: Any, mark: str = "?") -> None:
        self._connection, self._mark = connection, mark

    def run(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        cursor = self._connection.execute(sql.replace("?", self._mark), tuple(values))
        return cursor.fetchall() if cursor.description else []

    def run_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        with closing(self._connection.cursor()) as cursor:
            cursor.executemany(sql.replace("?", self._mark), [tuple(row) for row in rows])


class SqliteStorage:
    """An SQLite file that only its owner can read."""

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | Path) or not Path(path).name or "://" in str(path):
            raise UsageError(
                f"the ledger or key file is {path!r}; it must be the path of a file, or for a "
                "ledger postgresql://USER@HOST/DATABASE."
            )
        self.path = findable(path)

    @property
    def address(self) -> str:
        """As the operator wrote it, without a password; for messages."""
        return str(self.path)

    @property
    def place(self) -> str:
        """The same for every spelling, and without a password."""
        return str(self.path.resolve())

    @property
    def key_file(self) -> Path:
        """Where the key file is if the operator does not name a place."""
        return self.path.with_name(f"{self.path.name}.key")

    def exists(self) -> bool:
        return self.path.exists()

    def create(self, fill: Callable[[Database], None]) -> None:
        """Move a whole file into place: a half-written one would give the budget back."""
        name = f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial"
        partial = self.path.with_name(name)
        try:
            if self.exists():
                return
            os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            try:
                with _open(partial, "BEGIN IMMEDIATE") as db:
                    fill(db)
                os.link(partial, self.path)
            except FileExistsError:  # another process was first
                pass
            finally:
                partial.unlink()
        except (OSError, sqlite3.Error) as error:
            raise unusable(self.address, error) from None

    @contextmanager
    def transaction(self, write: bool) -> Iterator[Database]:
        try:
            with _open(self.path, "BEGIN IMMEDIATE" if write else "BEGIN") as db:
                yield db
        except LeakboundError:
            raise
        except (OSError, sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise unusable(self.address, error) from None

    def has_others(self, db: Database, schema: Sequence[str]) -> bool:
        """Whether there is more of these tables, such as a trigger; those of others are theirs."""
        mine = "sql IS NOT NULL AND tbl_name GLOB 'leakbound_*'"
        found = db.run(f"SELECT sql FROM sqlite_master WHERE {mine}")
        return sorted(str(sql) for (sql,) in found) != sorted(schema)

    def damage(self) -> str | None:
        """What is wrong with the storage itself; None if nothing is."""
        with self.transaction(write=False) as db:
            found = str(db.run("PRAGMA quick_check")[0][0])
        return None if found == "ok" else found


@contextmanager
def _open(path: Path, begin: str) -> Iterator[Database]:
    """A transaction on a file that exists: `rw` never creates one in place of a lost one."""
    where = f"{path.resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None)) as db:
        # FULL and a sync of the folder: else a power cut just after a commit could undo it
        db.execute("PRAGMA synchronous=EXTRA")
        db.execute(begin)
        yield Database(db)
        db.execute("COMMIT")


# --- on PostgreSQL, for services on several hosts

# Id of the advisory lock for creating the tables: any number, the same in every process.
CREATION = 0x6C65616B
# DDL of an operator waits for readers; a writer waits for other writers only.
LOCK = "LOCK TABLE leakbound_total IN EXCLUSIVE MODE"


class PostgresStorage:
    """Tables `leakbound_*`; a commit waits for the disk and for any synchronous standby."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise UsageError(
                "a ledger on PostgreSQL needs psycopg; install it with: "
                f"{install_hint('postgres')}."
            ) from None
        self._url, self._psycopg = url, psycopg

    @property
    def address(self) -> str:
        parts = urlsplit(self._url)
        user, at, host = parts.netloc.rpartition("@")
        options = [
            pair for pair in parts.query.split("&") if "password" not in pair.partition("=")[0]
        ]
        place = user.partition(":")[0] + at + host
        return urlunsplit(("postgresql", place, parts.path, "&".join(options), ""))

    place = address  # it finds the server under any of its names

    @property
    def key_file(self) -> Path:
        """In the working folder; the operator copies the file to every host."""
        return Path("leakbound-ledger.key")

    def exists(self) -> bool:
        with self.transaction(write=False, lock=False) as db:
            return _has_tables(db)

    def create(self, fill: Callable[[Database], None]) -> None:
        with self.transaction(write=True, lock=False) as db:
            if db.run("SHOW fsync")[0][0] != "on":
                raise StoreError(
                    f"the server of the ledger {self.address!r} runs with fsync off; a crash would "
                    "give spent budget back. Set fsync = on."
                )
            db.run("SELECT pg_advisory_xact_lock(?)", (CREATION,))
            if not _has_tables(db):
                fill(db)

    @contextmanager
    def transaction(self, write: bool, lock: bool = True) -> Iterator[Database]:
        try:
            connected = self._psycopg.connect(self._url, autocommit=True, connect_timeout=int(WAIT))
            with closing(connected) as connection:
                for statement in _begin(write, lock):
                    connection.execute(statement)
                yield Database(connection, "%s")
                connection.execute("COMMIT")
        except LeakboundError:
            raise
        except (OSError, self._psycopg.Error, KeyError, TypeError, ValueError) as error:
            raise unusable(self.address, error) from None

    def has_others(self, db: Database, schema: Sequence[str]) -> bool:
        sql = (
            "WITH own AS (SELECT to_regclass('leakbound_' || name) AS id FROM "
            "unnest(ARRAY['total', 'datasets', 'accounts', 'answers']) AS name) "
            "SELECT EXISTS (SELECT FROM pg_trigger JOIN own ON tgrelid = id WHERE NOT tgisinternal)"
            " OR EXISTS (SELECT FROM pg_rewrite JOIN own ON ev_class = id) "
            "OR (SELECT COUNT(*) FROM pg_index JOIN own ON indrelid = id) <> ?"
        )
        return bool(db.run(sql, (len(schema),))[0][0])

    def damage(self) -> str | None:
        """None: the server checks its own pages."""
        return None


def _begin(write: bool, lock: bool) -> list[LiteralString]:
    digits: LiteralString = "SET LOCAL extra_float_digits = 3"  # else what is read is rounded
    if not write:
        return ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", digits]
    first: list[LiteralString] = [
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        digits,
        "SET LOCAL synchronous_commit = on",
        "SET LOCAL lock_timeout = '60s'",
    ]
    return [*first, LOCK] if lock else first


def _has_tables(db: Database) -> bool:
    return db.run("SELECT to_regclass('leakbound_total') IS NOT NULL")[0][0] is True


Storage: TypeAlias = SqliteStorage | PostgresStorage


SCHEMA = (
    "CREATE TABLE secret (value TEXT NOT NULL) STRICT",
    "CREATE TABLE marks (ledger TEXT PRIMARY KEY, address TEXT NOT NULL, number INTEGER NOT NULL, "
    "tag TEXT NOT NULL) STRICT",
)
SHOWN = 3  # pairs of equal rows that an error names
# Default_Ignorable_Code_Point of Unicode outside Cf, and three blanks that are no white space.
UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff\u2800\U00016fe4\U0001d159]"
)
KEY = 16  # bytes of a record key: a collision among a billion records is below 1e-19


def record_names(context: Context, ids: Sequence[str] | None = None) -> tuple[str, ...]:
    """The name under which the ledger keeps the account of each record.

    Guarantee:
        With ids, replacing an example changes no account. Without, rows that are equal but for
        case, white space, or how characters are composed share one, and two of them in one context
        are refused: they would lose twice what is charged.
    """
    if ids is None:
        contents = (json.dumps(_fold([content_key(row.input), row.label])) for row in context)
        names = tuple(json.dumps(["content", content, 0]) for content in contents)
        return _distinct(names, "examples are equal but for case and white space")
    if len(ids) != len(context):
        raise DataError(
            f"there are {len(ids)} record ids and {len(context)} examples; give each its own id."
        )
    if not all(isinstance(one, str) for one in ids):
        raise DataError("a record id is not a text; name each record by a text.")
    return _distinct(tuple(map(id_name, ids)), "record ids are equal but for white space")


def _distinct(names: tuple[str, ...], copies: str) -> tuple[str, ...]:
    first = {name: i for i, name in reversed(list(enumerate(names)))}
    again = [i for i, name in enumerate(names) if first[name] < i]
    pairs = ", ".join(f"{first[names[i]] + 1} and {i + 1}" for i in again[:SHOWN])
    more = f" and {len(again) - SHOWN} more pairs" if len(again) > SHOWN else ""
    if again:
        raise DataError(
            f"some of the {len(names)} {copies} (numbers {pairs}{more}). A record has one account, "
            "and stands in a context once. Name a column that says whose row each is "
            "(--record-id), or leave out all but one of each."
        )
    return names


def _fold(content: Any) -> Any:
    """Texts without case, what is not seen, and white space beyond one blank between words."""
    if isinstance(content, list):
        return [_fold(one) for one in content]
    if not isinstance(content, str):
        return content
    return _visible_text(normalize("NFD", _visible_text(content)).casefold())


def _visible_text(text: str) -> str:
    """A text without what is not seen, and with one blank between words."""
    plain = text.isascii() and text.isprintable()
    # what is not seen goes first: it may stand between a letter and its accent
    seen = text if plain else "".join(filterfalse(_is_unseen, text))
    return " ".join(normalize("NFC", seen).split())


def _is_unseen(one: str) -> bool:
    return not one.isspace() and bool(category(one) in ("Cf", "Cc") or UNSEEN.match(one))


def id_name(record_id: str) -> str:
    """The name of a record with an id, however that is composed. No content has such a name."""
    return json.dumps(["id", _visible_text(record_id)])


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

    def secret_of(self, values: dict[str, str]) -> bytes:
        secret = self.secret()
        if key_check(secret, values["ledger"]) != values["key_check"]:
            raise StoreError(
                f"the key file {str(self.path)!r} belongs to another ledger, so no account could "
                "be found. Name the right one (--ledger-key)."
            )
        return secret

    def marks(self) -> list[Mark]:
        with self._storage.transaction(write=False) as db:
            return self._marks(db)

    def _marks(self, db: Database) -> list[Mark]:
        rows = db.run("SELECT ledger, address, number, tag FROM marks")
        return [Mark(str(a), str(b), int(c), str(d)) for a, b, c, d in rows]

    def raise_to(self, mark: Mark) -> Mark:
        """Replace a lower mark, or the same mark at an older address, durably: the one kept."""
        with self._storage.transaction(write=True) as db:
            db.run(
                "INSERT INTO marks VALUES (?, ?, ?, ?) ON CONFLICT (ledger) DO UPDATE SET "
                "address = excluded.address, number = excluded.number, tag = excluded.tag "
                "WHERE excluded.number > marks.number OR "
                "(excluded.number = marks.number AND excluded.tag = marks.tag)",
                (mark.ledger, mark.address, mark.number, mark.tag),
            )
            return next(one for one in self._marks(db) if one.ledger == mark.ledger)


def _fill(db: Database) -> None:
    for statement in SCHEMA:
        db.run(statement)
    db.run("INSERT INTO secret VALUES (?)", (secrets.token_hex(32),))


def mac_of(secret: bytes, purpose: bytes, data: bytes) -> bytes:
    return blake2b(data, key=secret, person=purpose, digest_size=32).digest()


def key_check(secret: bytes, ledger: str) -> str:
    return mac_of(secret, b"check", ledger.encode()).hex()


def record_keys(secret: bytes, names: Sequence[str]) -> Keys:
    def key(name: str) -> bytes:
        one = begun.copy()
        one.update(str.encode(name))
        return one.digest()

    begun = blake2b(key=secret, person=b"records", digest_size=KEY)
    try:
        return np.fromiter(map(key, names), f"S{KEY}", len(names))
    except TypeError:
        raise UsageError("a record is not a text; name each record by a text.") from None
