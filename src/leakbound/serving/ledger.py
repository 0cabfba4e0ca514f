"""The ledger: what each private context has spent, on disk, and a budget that is never exceeded.

One SQLite file. A spend is one exclusive transaction: everything that the context has spent is
composed with the new guarantee, compared with the budget, and written, or refused. Spend first,
release afterwards: a crash in between loses budget and never privacy. Many processes may share one
ledger. A context whose rows have changed is another context with a budget of its own; for a row
that stands in both, what both have spent adds up.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from leakbound._check import delta_value, epsilon_value
from leakbound.errors import BudgetExhausted, StoreError, UsageError
from leakbound.privacy import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Gaussian,
    Guarantee,
    NonPrivate,
    PureDP,
    Subsampled,
    compose,
    leaves,
)

__all__ = ["BudgetState", "Ledger"]

SCHEMA = (
    "CREATE TABLE total (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "CREATE TABLE spends (number INTEGER PRIMARY KEY, context TEXT NOT NULL, "
    "guarantee TEXT NOT NULL) STRICT",
    "CREATE INDEX by_context ON spends (context, guarantee)",
)
Kept = ApproxDP | BoundedRange | Gaussian | NonPrivate | PureDP | Subsampled | ZCDP
KINDS: dict[str, type[Kept]] = {
    kind.__name__: kind
    for kind in (ApproxDP, BoundedRange, Gaussian, NonPrivate, PureDP, ZCDP, Subsampled)
}
WAIT = 60.0  # seconds to wait for another process: a spend takes milliseconds
# relative accuracy of the accounting: calibrating to an epsilon and reading it back differ by less
ACCURACY = 1e-9


@dataclass(frozen=True, slots=True)
class BudgetState:
    """What a context has spent.

    Attributes:
        epsilon: Spent so far at `delta`, over all answers.
        remaining: What is left of the budget, never overstated.
        delta: Failure probability of the budget.
        answers: Number of answers.
    """

    epsilon: float
    remaining: float
    delta: float
    answers: int


def _merged(parts: list[Guarantee]) -> list[Guarantee]:
    """Subsampled Gaussians of one noise and rate as one guarantee of all their steps.

    This holds because each answer draws fresh samples.
    """
    steps: Counter[tuple[float, float]] = Counter()
    for part in parts:
        if isinstance(part, Subsampled):
            steps[part.sigma, part.rate] += part.steps
    rest = [part for part in parts if not isinstance(part, Subsampled)]
    return rest + [Subsampled(sigma, rate, total) for (sigma, rate), total in steps.items()]


def _to_json(guarantee: Guarantee) -> str:
    """A guarantee as JSON: its kind and its public fields."""
    found = [
        {"kind": type(part).__name__, **asdict(part)} for part in map(_kept, leaves(guarantee))
    ]
    return json.dumps(found, sort_keys=True)


def _kept(part: Guarantee) -> Kept:
    """A guarantee of a kind that the ledger knows how to read back."""
    kind = KINDS.get(type(part).__name__)
    if kind is None or not isinstance(part, Kept) or type(part) is not kind:
        raise UsageError(
            f"the ledger cannot keep a guarantee of the kind {type(part).__name__}; it must be one "
            f"of {', '.join(KINDS)} or a composition of them. State the guarantee as one of these."
        )
    return part


def _from_json(text: str) -> list[Guarantee]:
    return [KINDS[part.pop("kind")](**part) for part in json.loads(text)]


class Ledger:
    """A budget of (epsilon, delta) for each private context, kept in an SQLite file.

    The file is made on first use, readable by its owner only, and remembers the budget and the
    neighbouring relation of its first spend.

    Args:
        path: The file.
        epsilon: Budget of each context, at least 0; with infinity everything is granted, and still
            counted.
        delta: Failure probability of the budget, in [0, 1).

    Raises:
        UsageError: If epsilon or delta lies outside its range, or the file has another budget.
        StoreError: If the file cannot be used.

    Guarantee:
        What is granted for a context composes to at most (epsilon, delta), whichever processes
        share the file and whenever one of them is killed.

    Examples:
        >>> import tempfile
        >>> from leakbound.privacy import PureDP
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger(f"{folder.name}/ledger.sqlite", epsilon=1.0, delta=0.0)
        >>> ledger.spend("my rows", PureDP(0.25)).answers
        1
        >>> round(ledger.state("my rows").remaining, 9)
        0.75
        >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, epsilon: float, delta: float) -> None:
        self.path, self.epsilon, self.delta = (
            Path(path),
            float(epsilon_value(epsilon)),
            float(delta_value(delta)),
        )
        self._create()
        with self._transaction("BEGIN IMMEDIATE") as db:
            if db.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("the file is damaged")
            self._same_total(db, fresh="relation" not in self._total(db))

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, epsilon={self.epsilon:g}, delta={self.delta:g})"

    def spend(self, context: str, guarantee: Guarantee) -> BudgetState:
        """Pay for one answer, durably, before it is made.

        Args:
            context: Key of the private context, such as its fingerprint.
            guarantee: What the answer costs.

        Returns:
            What the context has spent afterwards.

        Raises:
            BudgetExhausted: If all that was spent and this would exceed the budget; nothing is
                spent then.
            UsageError: If the guarantee has another neighbouring relation than the ledger's first
                one, or there is none under a finite budget.
            StoreError: If the file cannot be read or written.

        Guarantee:
            On disk before this returns; two processes never both get the last answer.
        """
        text = self._acceptable(guarantee)
        with self._transaction("BEGIN IMMEDIATE") as db:
            self._same_total(db)
            self._same_relation(db, guarantee)
            before = self._paid(db, context)
            after = self._composed([*before, *_from_json(text)], self._answers(db, context) + 1)
            if after.epsilon > self.epsilon * (1 + ACCURACY):
                raise self._exhausted(before, after)
            db.execute("INSERT INTO spends (context, guarantee) VALUES (?, ?)", (context, text))
        return after

    def state(self, context: str) -> BudgetState:
        """What a context has spent, and what is left.

        Args:
            context: Key of the private context.

        Returns:
            Its state; zero for a context without an answer.

        Raises:
            StoreError: If the file cannot be read.
        """
        with self._transaction("BEGIN") as db:
            return self._composed(self._paid(db, context), self._answers(db, context))

    def check(self, guarantee: Guarantee) -> None:
        """Refuse a guarantee that this ledger could never take; spends nothing.

        Args:
            guarantee: What an answer costs.

        Raises:
            UsageError: As `spend` does.
            StoreError: If the file cannot be read.
        """
        self._acceptable(guarantee)
        with self._transaction("BEGIN") as db:
            self._same_relation(db, guarantee, remember=False)

    # --- accounting

    def _acceptable(self, guarantee: Guarantee) -> str:
        text = _to_json(guarantee)
        if math.isfinite(self.epsilon) and any(
            isinstance(part, NonPrivate) for part in leaves(guarantee)
        ):
            raise UsageError(
                "the mechanism gives no guarantee, and the budget of the ledger is epsilon "
                f"{self.epsilon:g}; an answer without a guarantee costs infinity. Choose a private "
                "mechanism, or an infinite budget (--budget inf)."
            )
        return text

    def _composed(self, parts: list[Guarantee], answers: int) -> BudgetState:
        """Composition of everything spent; the part that is left is rounded down to 0."""
        epsilon = compose(_merged(parts)).epsilon(self.delta) if parts else 0.0
        if math.isinf(self.epsilon):
            return BudgetState(epsilon, math.inf, self.delta, answers)
        left = max(0.0, math.nextafter(self.epsilon - epsilon, -math.inf))
        return BudgetState(epsilon, left, self.delta, answers)

    def _exhausted(self, before: list[Guarantee], after: BudgetState) -> BudgetExhausted:
        spent = self._composed(before, after.answers - 1)
        return BudgetExhausted(
            f"the privacy budget of this context does not allow another answer: {spent.answers} "
            f"so far cost epsilon {spent.epsilon:.4g} at delta {self.delta:g}, this one would make "
            f"it {after.epsilon:.4g}, and the budget is {self.epsilon:.4g}. Nothing was released; "
            "ask the owner of the data for a larger budget in a new ledger."
        )

    # --- the file

    def _create(self) -> None:
        """Make the whole ledger beside its place and move it there in one step.

        Unless another process was first. So an empty or half-written file is never mistaken for a
        new ledger, which would give the budget back.
        """
        partial = self.path.with_name(
            f".{self.path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial"
        )
        try:
            if self.path.exists():
                return
            os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            try:
                self._fill(partial)
                os.link(partial, self.path)
            except FileExistsError:
                pass
            finally:
                partial.unlink()
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None

    def _fill(self, path: Path) -> None:
        values = {"schema_version": "1", "epsilon": repr(self.epsilon), "delta": repr(self.delta)}
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("PRAGMA synchronous=EXTRA")
            for statement in SCHEMA:
                db.execute(statement)
            db.executemany("INSERT INTO total VALUES (?, ?)", values.items())

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        """One transaction, durable when the block is left without an error and undone otherwise.

        EXTRA is FULL and also syncs the folder, without which a power cut just after a commit could
        undo it.
        """
        try:
            # never makes a new file in the place of a lost ledger
            where = f"{self.path.resolve().as_uri()}?mode=rw"
            with closing(
                sqlite3.connect(where, uri=True, timeout=WAIT, isolation_level=None)
            ) as db:
                db.execute("PRAGMA synchronous=EXTRA")
                db.execute(begin)
                yield db
                db.execute("COMMIT")
        except UsageError:
            raise
        except (OSError, sqlite3.Error, KeyError, TypeError, ValueError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> StoreError:
        return StoreError(
            f"the ledger {str(self.path)!r} cannot be read or written ({error}); nothing was "
            "released. It must be a ledger of this package in a folder that can be written: "
            "restore it from a backup, or name another with --ledger."
        )

    def _total(self, db: sqlite3.Connection) -> dict[str, str]:
        return dict(db.execute("SELECT name, value FROM total").fetchall())

    def _same_total(self, db: sqlite3.Connection, fresh: bool = False) -> None:
        """The budget may change as long as nothing was ever spent."""
        if fresh:
            values = [(repr(self.epsilon), "epsilon"), (repr(self.delta), "delta")]
            db.executemany("UPDATE total SET value = ? WHERE name = ?", values)
        found = self._total(db)
        epsilon, delta = float(found["epsilon"]), float(found["delta"])
        if (epsilon, delta) != (self.epsilon, self.delta):
            raise UsageError(
                f"the ledger {str(self.path)!r} has a budget of epsilon {epsilon:g} at delta "
                f"{delta:g}, and was opened with epsilon {self.epsilon:g} at delta {self.delta:g}; "
                "once spent from, a budget never changes. Use its own (--budget "
                f"{epsilon:g}, --delta {delta:g}), or another ledger (--ledger)."
            )

    def _same_relation(
        self, db: sqlite3.Connection, guarantee: Guarantee, remember: bool = True
    ) -> None:
        first = self._total(db).get("relation")
        if first is None and remember:
            db.execute("INSERT INTO total VALUES ('relation', ?)", (guarantee.relation,))
        if first is not None and first != guarantee.relation:
            raise UsageError(
                f"the ledger {str(self.path)!r} counts under the neighbouring relation {first}, "
                f"and this guarantee is stated under {guarantee.relation}; the two do not add up. "
                "Use another ledger (--ledger)."
            )

    def _paid(self, db: sqlite3.Connection, context: str) -> list[Guarantee]:
        query = (
            "SELECT guarantee, COUNT(*) FROM spends WHERE context = ? GROUP BY guarantee "
            "ORDER BY guarantee"
        )
        rows = db.execute(query, (context,))
        return [part for text, times in rows for part in _from_json(text) * times]

    def _answers(self, db: sqlite3.Connection, context: str) -> int:
        return int(
            db.execute("SELECT COUNT(*) FROM spends WHERE context = ?", (context,)).fetchone()[0]
        )
