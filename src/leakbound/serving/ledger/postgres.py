"""A ledger in a PostgreSQL database, for services on several hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from leakbound._install import install_hint
from leakbound.errors import LeakboundError, StoreError, UsageError
from leakbound.serving.ledger.storage import WAIT, Database, SqlValue, unusable

if TYPE_CHECKING:
    from typing import LiteralString

    import psycopg

# Id of the advisory lock for creating the tables: any number, the same in every process.
CREATION = 0x6C65616B
# DDL of an operator waits for readers; a writer waits for other writers only.
LOCK = "LOCK TABLE leakbound_total IN EXCLUSIVE MODE"


class PostgresDatabase:
    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        cursor = self._connection.execute(_placeholders(sql), tuple(values))
        return cursor.fetchall() if cursor.description else []

    def run_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_placeholders(sql), [tuple(row) for row in rows])


def _placeholders(sql: str) -> bytes:
    """Statements are constants of this package and never contain values."""
    return sql.replace("?", "%s").encode()


class PostgresStorage:
    """Tables whose names begin with `leakbound_`, in the schema that the address selects.

    A commit waits until it is on disk, and also on the synchronous standby if the server has one.
    """

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

    @property
    def place(self) -> str:
        """The address without passwords; it finds the server under any of its names."""
        return self.address

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
                yield PostgresDatabase(connection)
                connection.execute("COMMIT")
        except LeakboundError:
            raise
        except (OSError, self._psycopg.Error, KeyError, TypeError, ValueError) as error:
            raise unusable(self.address, error) from None

    def damage(self) -> str | None:
        """None: the server checks its own pages."""
        return None


def _begin(write: bool, lock: bool) -> list[LiteralString]:
    if not write:
        return ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"]
    first: list[LiteralString] = [
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
        "SET LOCAL synchronous_commit = on",
        "SET LOCAL lock_timeout = '60s'",
    ]
    return [*first, LOCK] if lock else first


def _has_tables(db: Database) -> bool:
    return db.run("SELECT to_regclass('leakbound_total') IS NOT NULL")[0][0] is True
