"""Where a ledger is stored: transactions on an SQLite file or a PostgreSQL database."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from leakbound.errors import LeakboundError, StoreError, UsageError, findable, reason_of

SqlValue: TypeAlias = str | int | float
WAIT = 60.0  # seconds to wait for another process; a spend takes milliseconds


class Database(Protocol):
    """One transaction."""

    def run(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        """Run one statement."""

    def run_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        """Run one statement for each of several rows of values."""


class Storage(Protocol):
    """Where the tables of a ledger are stored. Every failure is a `StoreError`."""

    @property
    def address(self) -> str:
        """The address as the operator wrote it, without a password; for messages."""

    @property
    def place(self) -> str:
        """A canonical address: the same for every spelling, and without a password."""

    @property
    def key_file(self) -> Path:
        """Where the key file is if the operator does not name a place."""

    def create(self, fill: Callable[[Database], None]) -> None:
        """Create all tables or none. If they exist, nothing happens."""

    def exists(self) -> bool:
        """Whether there already is something at the address."""

    def transaction(self, write: bool) -> AbstractContextManager[Database]:
        """One transaction: durable if the block ends without an error, otherwise rolled back."""

    def damage(self) -> str | None:
        """What is wrong with the storage itself; None if nothing is."""


def unusable(address: str, error: Exception) -> StoreError:
    return StoreError(
        f"the ledger or key file {address!r} cannot be read or written ({reason_of(error)}); "
        "nothing was released. It must be one of this package, in a folder or database that can be "
        "written: restore it from a backup, or name another with --ledger or --ledger-key."
    )


class SqliteDatabase:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        return self._connection.execute(sql, tuple(values)).fetchall()

    def run_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        self._connection.executemany(sql, [tuple(row) for row in rows])


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
        return str(self.path)

    @property
    def place(self) -> str:
        return str(self.path.resolve())

    @property
    def key_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.key")

    def exists(self) -> bool:
        return self.path.exists()

    def create(self, fill: Callable[[Database], None]) -> None:
        """Create the whole file under another name and move it into place in one step.

        So an empty or half-written file is never taken for a new ledger, which would give the
        budget back.
        """
        name = f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial"
        partial = self.path.with_name(name)
        try:
            if self.exists():
                return
            os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            try:
                with _opened(partial, "BEGIN IMMEDIATE") as db:
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
            with _opened(self.path, "BEGIN IMMEDIATE" if write else "BEGIN") as db:
                yield db
        except LeakboundError:
            raise
        except (OSError, sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise unusable(self.address, error) from None

    def damage(self) -> str | None:
        with self.transaction(write=False) as db:
            found = str(db.run("PRAGMA quick_check")[0][0])
        return None if found == "ok" else found


@contextmanager
def _opened(path: Path, begin: str) -> Iterator[SqliteDatabase]:
    """A transaction on a file that exists.

    EXTRA is FULL plus a sync of the folder. Without it, a power cut just after a commit could undo
    the commit. The mode `rw` never creates a new file in place of a lost one.
    """
    where = f"{path.resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=EXTRA")
        db.execute(begin)
        yield SqliteDatabase(db)
        db.execute("COMMIT")
