"""What a service stores beside the ledger: tenants' accounts, and answers by idempotency key.

This is one SQLite file that only its owner can read, or memory if there is no file. It holds
released answers and prices, and nothing else that depends on private rows. Writes are durable
before the model is called, so a crash never gives budget back to a tenant, and a retry of an
interrupted request never buys a second answer.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leakbound.errors import BudgetExhausted, StoreError, UsageError, reason_of
from leakbound.privacy import Guarantee
from leakbound.serving.http.tenants import Tenant
from leakbound.serving.ledger.units import ACCURACY, compose_epsilon, from_json, to_json

KEPT_KEYS = 10_000  # idempotency keys: about 10 MB for answers of 1 kB
KEPT_SECONDS = 86_400.0  # one day, as at Stripe
WAIT = 30.0  # seconds to wait for another process: a write takes milliseconds
SCHEMA = """
CREATE TABLE IF NOT EXISTS spends (
    number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, price TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS by_tenant ON spends (tenant, price);
CREATE TABLE IF NOT EXISTS keys (
    number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, key TEXT NOT NULL, digest TEXT NOT NULL,
    since REAL NOT NULL, outcome TEXT, UNIQUE (tenant, key)) STRICT;
CREATE TABLE IF NOT EXISTS late (seconds REAL NOT NULL) STRICT;
"""


class ServiceState:
    """Tenants' accounts and idempotency keys.

    Args:
        path: The file; None to keep everything in memory until the process ends.
        kept: The most idempotency keys; the oldest are deleted first.
        seconds: How long a key is kept.
        clock: Returns seconds since 1970.

    Raises:
        StoreError: If the file cannot be used.

    Guarantee:
        What `spend` grants to a tenant stays within its caps, even if several processes share the
        file.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        kept: int = KEPT_KEYS,
        seconds: float = KEPT_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._kept, self._seconds, self._clock = kept, seconds, clock
        self._lock = threading.Lock()
        self._db = self._open()
        self._closing = weakref.finalize(self, self._db.close)

    def __repr__(self) -> str:
        return f"ServiceState({str(self.path) if self.path else None!r})"

    def close(self) -> None:
        self._closing()

    # --- tenants

    def spend(self, tenant: Tenant, price: Guarantee, delta: float) -> int:
        """Charge a tenant's account for one answer, before the ledger is charged.

        Returns:
            The number of the payment, for `refund`.

        Raises:
            BudgetExhausted: If the tenant's caps do not allow another answer. Nothing is spent.
            StoreError: If the file cannot be read or written.
        """
        with self._transaction() as db:
            paid = self._account(db, tenant)
            answers = sum(times for _, times in paid)
            if tenant.answers is not None and answers >= tenant.answers:
                raise BudgetExhausted(
                    f"this token is allowed {tenant.answers} answers, and has had {answers}. "
                    "Nothing was spent; ask the operator of the service."
                )
            after = [*paid, (price, 1)]
            epsilon = compose_epsilon(after, delta) if tenant.epsilon is not None else 0.0
            if tenant.epsilon is not None and epsilon > tenant.epsilon * (1 + ACCURACY):
                raise BudgetExhausted(
                    f"this token may spend epsilon {tenant.epsilon:.4g} at delta {delta:g}, and "
                    f"another answer would make it {epsilon:.4g}. Nothing was spent; ask the "
                    "operator of the service."
                )
            row = (tenant.name, to_json(price))
            found = db.execute("INSERT INTO spends (tenant, price) VALUES (?, ?)", row).lastrowid
        return found or 0

    def refund(self, number: int) -> None:
        """Undo a payment if no answer was made because the ledger was not charged."""
        with self._transaction() as db:
            db.execute("DELETE FROM spends WHERE number = ?", (number,))

    def answers(self, tenant: Tenant) -> int:
        """The number of answers that a tenant has paid for."""
        with self._transaction() as db:
            return sum(times for _, times in self._account(db, tenant))

    def epsilon(self, tenant: Tenant, delta: float) -> float:
        """What the answers that a tenant has paid for cost together."""
        with self._transaction() as db:
            return compose_epsilon(self._account(db, tenant), delta)

    def _account(self, db: sqlite3.Connection, tenant: Tenant) -> list[tuple[Guarantee, int]]:
        """Prices, and the number of answers paid at each."""
        rows = db.execute(
            "SELECT price, COUNT(*) FROM spends WHERE tenant = ? GROUP BY price", (tenant.name,)
        ).fetchall()
        return [(from_json(text), times) for text, times in rows]

    # --- replies at one time

    def note_late(self, seconds: float) -> None:
        """An answer was not ready so many seconds after its payment."""
        with self._transaction() as db:
            db.execute("INSERT INTO late VALUES (?)", (seconds,))

    def require_more(self, seconds: float) -> None:
        """Refuse a time at which an answer was late.

        Raises:
            UsageError: If it was late at so many seconds, or at more.
        """
        most = self._latest()
        if self.was_late(seconds):
            raise UsageError(
                f"--reply-after is {seconds:g} seconds, and an answer was not ready after "
                f"{most:g}, which could tell of the rows; give more, such as {2 * most:g}."
            )

    def was_late(self, seconds: float) -> bool:
        """Whether an answer was late at so many seconds, or at more; never without a time."""
        return math.isfinite(seconds) and seconds <= self._latest()

    def _latest(self) -> float:
        with self._transaction() as db:
            (most,) = db.execute("SELECT MAX(seconds) FROM late").fetchone()
        return 0.0 if most is None else float(most)

    # --- idempotency keys

    def begin(self, tenant: str, key: str, digest: str) -> tuple[bool, str | None] | None:
        """Begin a request under a key, which is stored as begun.

        Returns:
            Whether the earlier request under this key was the same one, and its outcome, which is
            None if it has not ended; None for a new key.

        Raises:
            StoreError: If the file cannot be read or written.
        """
        with self._transaction() as db:
            db.execute("DELETE FROM keys WHERE since < ?", (self._clock() - self._seconds,))
            oldest = "DELETE FROM keys WHERE number <= (SELECT MAX(number) FROM keys) - ?"
            db.execute(oldest, (self._kept - 1,))
            found = db.execute(
                "SELECT digest, outcome FROM keys WHERE tenant = ? AND key = ?", (tenant, key)
            ).fetchone()
            if found is None:
                row = (tenant, key, digest, self._clock())
                db.execute("INSERT INTO keys (tenant, key, digest, since) VALUES (?, ?, ?, ?)", row)
                return None
        return found[0] == digest, found[1]

    def end(self, tenant: str, key: str, outcome: str) -> None:
        """Store an outcome; an empty one if the answer is lost."""
        with self._transaction() as db:
            row = (outcome, tenant, key)
            db.execute("UPDATE keys SET outcome = ? WHERE tenant = ? AND key = ?", row)

    def forget(self, tenant: str, key: str) -> None:
        """Delete a key for which nothing was spent."""
        with self._transaction() as db:
            db.execute("DELETE FROM keys WHERE tenant = ? AND key = ?", (tenant, key))

    # --- the file

    def _open(self) -> sqlite3.Connection:
        try:
            if self.path is not None:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            db = sqlite3.connect(
                self.path or ":memory:", timeout=WAIT, isolation_level=None, check_same_thread=False
            )
            db.execute("PRAGMA synchronous=EXTRA")
            db.executescript(SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        return db

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction: durable if the block ends without an error, otherwise rolled back."""
        try:
            with self._lock:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:  # a failed COMMIT leaves it open
                        self._db.execute("ROLLBACK")
                    raise
        except (OSError, sqlite3.Error, KeyError, TypeError, json.JSONDecodeError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(
            f"the file {str(self.path)!r} of tenants' accounts and idempotency keys cannot be "
            f"read or written ({reason_of(error)}). It must be one that this service made: restore "
            "it from a backup, or name another with --state."
        )
