"""Where a ledger is kept: transactions on an SQLite file, or on a PostgreSQL database."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from leakbound.errors import LeakboundError, StoreError

__all__ = ["WAIT", "Database", "SqliteStorage", "Storage", "SqlValue", "unusable"]

SqlValue: TypeAlias = str | int | float
WAIT = 60.0  # seconds to wait for another process: a spend takes milliseconds


class Database(Protocol):
    """One transaction."""

    def run(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        """Run one statement.

        Args:
            sql: The statement, with `?` in the place of values.
            values: The values.

        Returns:
            The rows that it gives; none where it gives none.
        """

    def run_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        """Run one statement for each of several rows of values.

        Args:
            sql: The statement, with `?` in the place of values.
            rows: The values.
        """


class Storage(Protocol):
    """Where the tables of a ledger are kept. Whatever fails is a `StoreError`."""

    @property
    def address(self) -> str:
        """For messages, as the operator wrote it; without a password."""

    @property
    def place(self) -> str:
        """The same for every spelling of the address, and itself one; without a password."""

    @property
    def key_file(self) -> Path:
        """Where the key file is if the operator names no other place."""

    def create(self, fill: Callable[[Database], None]) -> None:
        """Make the tables, whole or not at all; nothing happens where they are already there.

        Args:
            fill: Makes and fills them. It is called in at most one process.
        """

    def exists(self) -> bool:
        """Whether there is something at the address already."""

    def transaction(self, write: bool) -> AbstractContextManager[Database]:
        """One transaction, durable when the block is left without an error and undone otherwise.

        Args:
            write: True for the only writer there is, which sees all that was committed before;
                False for one consistent view.

        Returns:
            A context manager.
        """

    def damage(self) -> str | None:
        """What is wrong with the storage itself; None for nothing."""


def unusable(address: str, error: Exception) -> StoreError:
    """The sentence for a ledger that cannot be used.

    Args:
        address: Where it is.
        error: What happened.

    Returns:
        The error to raise.
    """
    reason = " ".join(str(error).split())
    return StoreError(
        f"the ledger {address!r} cannot be read or written ({reason}); nothing was "
        "released. It must be a ledger of this package in a folder or database that can be "
        "written: restore it from a backup, or name another with --ledger."
    )


class SqliteDatabase:
    """A transaction on an SQLite connection.

    Args:
        connection: In a transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Sequence[SqlValue] = ()) -> list[tuple[SqlValue, ...]]:
        """Run one statement.

        Args:
            sql: The statement, with `?` in the place of values.
            values: The values.

        Returns:
            The rows that it gives.
        """
        return self._connection.execute(sql, tuple(values)).fetchall()

    def run_each(self, sql: str, rows: Sequence[Sequence[SqlValue]]) -> None:
        """Run one statement for each of several rows of values.

        Args:
            sql: The statement, with `?` in the place of values.
            rows: The values.
        """
        self._connection.executemany(sql, [tuple(row) for row in rows])


class SqliteStorage:
    """An SQLite file, readable by its owner only.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def address(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def place(self) -> str:
        """The path from the root, through all links."""
        return str(self.path.resolve())

    @property
    def key_file(self) -> Path:
        """Beside the ledger, with `.key` at its end."""
        return self.path.with_name(f"{self.path.name}.key")

    def exists(self) -> bool:
        """Whether there is a file."""
        return self.path.exists()

    def create(self, fill: Callable[[Database], None]) -> None:
        """Make the whole file beside its place and move it there in one step.

        So an empty or half-written file is never mistaken for a new ledger, which would give the
        budget back.

        Args:
            fill: Makes and fills the tables.

        Raises:
            StoreError: If the file cannot be made.
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
        """One transaction; see `Storage`.

        Args:
            write: True for the only writer.

        Yields:
            The transaction.

        Raises:
            StoreError: If the file cannot be used, or what it holds cannot be read.
        """
        try:
            with _opened(self.path, "BEGIN IMMEDIATE" if write else "BEGIN") as db:
                yield db
        except LeakboundError:
            raise
        except (OSError, sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise unusable(self.address, error) from None

    def damage(self) -> str | None:
        """What SQLite finds wrong with the file."""
        with self.transaction(write=False) as db:
            found = str(db.run("PRAGMA quick_check")[0][0])
        return None if found == "ok" else found


@contextmanager
def _opened(path: Path, begin: str) -> Iterator[SqliteDatabase]:
    """A transaction on a file that exists.

    EXTRA is FULL and also syncs the folder, without which a power cut just after a commit could
    undo it. The mode never makes a new file in the place of a lost one.
    """
    where = f"{path.resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=EXTRA")
        db.execute(begin)
        yield SqliteDatabase(db)
        db.execute("COMMIT")
