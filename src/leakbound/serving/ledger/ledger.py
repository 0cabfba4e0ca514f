"""The ledger: a budget for each record, whoever asks and whatever the data set is called."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakbound._check import delta_value, epsilon_value
from leakbound.errors import BudgetExhausted, StoreError, UsageError
from leakbound.privacy import Guarantee
from leakbound.serving.ledger import tables
from leakbound.serving.ledger.storage import (
    Database,
    KeyFile,
    Keys,
    Mark,
    PostgresStorage,
    RecordName,
    SqliteStorage,
    Storage,
    key_check,
    record_keys,
    unusable,
)
from leakbound.serving.ledger.units import (
    ACCURACY,
    Unit,
    affordable_answers,
    choose_unit,
    compose_epsilon,
    require_guarantee,
    to_json,
    unit_named,
    unit_of,
    whole_answers,
)

DATASET = "default"  # the name of a data set that the operator did not name
# By the first answer: under two kinds of names, a person would have two accounts.
KINDS = {
    "relation": ("counts under the neighbouring relation", "this guarantee is stated under"),
    "names": ("names each record by its", "these are named by their"),
}


class PossiblySpent(StoreError):
    """The ledger failed while it committed a spend, or afterwards. It counts as spent."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The answers given from a data set (PUBLIC: it follows from the number of answers).

    Attributes:
        epsilon: Spent so far at `delta`, over all answers from the data set.
        remaining: What remains of the budget, never overstated.
        delta: Failure probability of the budget.
        answers: Number of answers.
    """

    epsilon: float
    remaining: float
    delta: float
    answers: int


@dataclass(frozen=True, slots=True)
class Spend:
    state: BudgetState
    takes_part: tuple[bool, ...]


def open_storage(address: str | Path) -> Storage:
    text = str(address)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStorage(text)
    return SqliteStorage(address)


def _is_there(mark: Mark) -> bool:
    """Whether the ledger of a mark can still be read at its old address."""
    storage = open_storage(mark.address)
    try:
        if not storage.exists():
            return False
        with storage.transaction(write=False) as db:
            return tables.total(db)["ledger"] == mark.ledger
    except StoreError:
        return False


class Ledger:
    """A budget of (epsilon, delta) for each private record, in an SQLite file or on PostgreSQL.

    Each answer is charged to every record that takes part in it. A record that cannot pay is left
    out of all further answers; this depends on its own account alone. Clients are refused by
    public facts only: the number of answers given from a data set, and their prices. So nobody
    gains by reordering, padding or dropping rows.

    The ledger is created on first use and readable only by its owner. Its first answer fixes the
    budget, the neighbouring relation and the unit of its accounts. A separate key file holds a
    secret and the newest answer: an old copy of the ledger, or a changed one, is refused.

    Args:
        path: The file, or `postgresql://user@host/database`.
        epsilon: Budget of each record, at least 0. With infinity, every answer is granted and still
            counted.
        delta: Failure probability of the budget, in [0, 1).
        key: The key file; None for `PATH.key` beside an SQLite file, or `leakbound-ledger.key` in
            the working folder for PostgreSQL.

    Raises:
        UsageError: If epsilon or delta is out of range, or the ledger has another budget.
        StoreError: If the ledger or its key file cannot be used, or is an old or changed copy.

    Guarantee:
        All answers together satisfy (epsilon, delta) with respect to each record, under the
        neighbouring relation of their guarantees. A record is all that it has in the data of the
        ledger: one that replaces another and stands elsewhere there is a second one. This holds
        whichever processes and hosts share the ledger, whenever one of them is killed, and however
        the next query is chosen. Prices are added and compared as 64-bit numbers: in the unit of
        the ledger, an account may exceed the budget by a part of 1e-9 of it, and by 2e-16 of it for
        each answer.

    Reference:
        Feldman and Zrnic, "Individual privacy accounting via a Renyi filter" (NeurIPS 2021).

    Examples:
        >>> import tempfile
        >>> from leakbound.privacy import PureDP
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = Ledger(f"{folder.name}/ledger.sqlite", epsilon=1.0, delta=0.0)
        >>> ledger.spend(["alice", "bob"], PureDP(0.75), "monday").takes_part
        (True, True)
        >>> ledger.spend(["bob", "carol"], PureDP(0.75), "tuesday").takes_part
        (False, True)
        >>> ledger.state("tuesday").remaining < 0.25 + 1e-9
        True
        >>> folder.cleanup()
    """

    def __init__(
        self, path: str | Path, epsilon: float, delta: float, key: str | Path | None = None
    ) -> None:
        self.epsilon, self.delta = float(epsilon_value(epsilon)), float(delta_value(delta))
        self._storage = open_storage(path)
        self.address = self._storage.address
        self.key_file = KeyFile(key if key is not None else self._storage.key_file)
        self._fixed = False  # whether an earlier answer has fixed the unit
        self._create()
        with self._storage.transaction(write=True) as db:
            values = self._same_budget(db, fresh=tables.head(db) == 0)
            self._secret = self.key_file.secret_of(values)
            self._require_own(db, values)
            if changed := list(tables.changes(db, self._secret, values)):
                raise self._refusal(" ".join(changed))
            for mark in self.key_file.marks():
                if mark.ledger == values["ledger"] and mark.address != self._storage.place:
                    self.key_file.raise_to(replace(mark, address=self._storage.place))

    def __repr__(self) -> str:
        return f"Ledger({self.address!r}, epsilon={self.epsilon:g}, delta={self.delta:g})"

    def spend(
        self,
        records: Sequence[str],
        guarantee: Guarantee,
        dataset: str = DATASET,
        names: RecordName = "id",
    ) -> Spend:
        """Pay for one answer before it is made, durably.

        Args:
            records: Names of the records in the context (PRIVATE), each once; see `record_names`.
            guarantee: What the answer costs.
            dataset: The operator's name of the data set (public).
            names: What names a record (public); in all of a ledger the same.

        Returns:
            The state of the data set after the payment, and which records take part.

        Raises:
            BudgetExhausted: If this answer and all others from the data set would exceed the
                budget. Nothing is spent.
            UsageError: If the guarantee, or such names, cannot be counted in this ledger.
            StoreError: If the ledger cannot be read or written, or is an old copy. Nothing is
                spent.
            PossiblySpent: If the ledger fails while it commits, or afterwards.

        Guarantee:
            The payment is on disk before this returns. A record never takes part beyond the budget,
            and whether it takes part depends on its own account alone.
        """
        if not isinstance(dataset, str):
            raise UsageError(f"dataset is {dataset!r}; it must be a text, the name of a data set.")
        text = self._acceptable(guarantee)
        first = self._first_choice(guarantee) | {"relation": guarantee.relation, "names": names}
        committing = False
        try:
            with self._storage.transaction(write=True) as db:
                values = self._same_budget(db)
                self._require_own(db, values)
                if not tables.is_confirmed(db, self._secret, values):
                    raise self._refusal("its values are not those that its key file confirms.")
                unit = self._unit(db, values, first)
                price = self._price(unit, guarantee)
                self._require_budget(db, values, unit, price, dataset)
                order, keys = self._keys(records)  # last: a refusal takes no time for a row
                most = float(values["capacity"]) * (1 + ACCURACY)
                able, change = tables.charge(db, self._secret, keys, price, most)
                change += tables.charge_dataset(db, self._secret, dataset, text, price)
                answer = dataset, text, price, int(able.sum()), int((~able).sum())
                number, tag = tables.add_answer(db, self._secret, values, change, *answer)
                state = self._state(db, values, unit, dataset)
                committing = True
            mark = Mark(values["ledger"], self._storage.place, number, tag)
            if self.key_file.raise_to(mark) != mark:  # another process was faster, or another copy
                with self._storage.transaction(write=False) as db:
                    self._require_own(db, values)
        except Exception as error:
            if committing:
                raise PossiblySpent(str(error)) from error
            raise
        return Spend(state, tuple(able[np.argsort(order)].tolist()))

    def state(self, dataset: str = DATASET) -> BudgetState:
        """The answers given from a data set, and what remains of its budget."""
        with self._storage.transaction(write=False) as db:
            values = tables.total(db)
            return self._state(db, values, unit_of(values), dataset)

    def check(self, guarantee: Guarantee, names: RecordName = "id") -> None:
        """Refuse what this ledger could never pay for. Nothing is spent.

        Raises:
            UsageError: As `spend` does.
            StoreError: If the ledger cannot be read.
        """
        self._acceptable(guarantee)
        with self._storage.transaction(write=False) as db:
            values = tables.total(db)
            self._same_kind(values, {"relation": guarantee.relation, "names": names})
            if "unit" in values:
                self._price(unit_named(values["unit"]), guarantee)

    def answers_left(self, guarantee: Guarantee, dataset: str = DATASET) -> int | None:
        """How many more answers from a data set the budget pays for; None for no limit.

        Raises:
            UsageError: If the guarantee cannot be counted in this ledger.
            StoreError: If the ledger cannot be read.
        """
        self._acceptable(guarantee)
        with self._storage.transaction(write=False) as db:
            values, (_, _, spent) = tables.total(db), tables.dataset(db, dataset)
        if "unit" not in values:
            return affordable_answers(guarantee, self.epsilon, self.delta)
        price = self._price(unit_named(values["unit"]), guarantee)
        return whole_answers(float(values["capacity"]), spent, price)

    def describe(self, guarantee: Guarantee, dataset: str = DATASET) -> str:
        """What the budget pays for, in one sentence for operators."""
        left, state = self.answers_left(guarantee, dataset), self.state(dataset)
        if left is None:
            return f"No budget limits the answers; {state.answers} were given from {dataset!r}."
        return (
            f"A budget of ε = {self.epsilon:g} at δ = {self.delta:g} buys {state.answers + left} "
            f"answers from the data set {dataset!r}; {state.answers} were given, {left} are left."
        )

    # --- accounting

    def _acceptable(self, guarantee: Guarantee) -> str:
        require_guarantee(guarantee, self.epsilon)
        return to_json(guarantee)

    def _first_choice(self, guarantee: Guarantee) -> dict[str, str]:
        """What this answer fixes if it is the first; computed before the ledger is locked."""
        if not self._fixed:
            with self._storage.transaction(write=False) as db:
                self._fixed = "unit" in tables.total(db)
        if self._fixed:
            return {}
        unit = choose_unit(guarantee, self.epsilon, self.delta)
        return {"unit": unit.name, "capacity": repr(unit.capacity(self.epsilon, self.delta))}

    def _unit(self, db: Database, values: dict[str, str], first: dict[str, str]) -> Unit:
        """The unit of all accounts. The first answer fixes it, the relation, and what names are."""
        self._same_kind(values, first)
        fresh = {name: value for name, value in first.items() if name not in values}
        values.update(fresh)
        if fresh:
            db.run_each("INSERT INTO leakbound_total VALUES (?, ?)", list(fresh.items()))
        return unit_named(values["unit"])

    def _price(self, unit: Unit, guarantee: Guarantee) -> float:
        price = unit.price(guarantee)
        if price is None:
            raise UsageError(
                f"the ledger {self.address!r} counts in {unit.kind}, which its "
                "first answer chose, and the price of this one cannot be expressed in it: "
                f"{guarantee.describe()}. Use another ledger (--ledger)."
            )
        return price

    def _require_budget(
        self, db: Database, values: dict[str, str], unit: Unit, price: float, dataset: str
    ) -> None:
        """Refuse by public facts: the number of answers from the data set and their prices."""
        _, _, spent = tables.dataset(db, dataset)
        if spent + price <= float(values["capacity"]) * (1 + ACCURACY):
            return
        before = self._state(db, values, unit, dataset)
        raise BudgetExhausted(
            f"the privacy budget of the data set {dataset!r} does not allow another answer: "
            f"{before.answers} so far cost epsilon {before.epsilon:.4g} at delta {self.delta:g}, "
            f"this one would make it {unit.epsilon(spent + price, self.delta):.4g}, and the budget "
            f"is {self.epsilon:.4g}. Nothing was released; ask the owner of the data for a larger "
            "budget in a new ledger."
        )

    def _state(self, db: Database, values: dict[str, str], unit: Unit, dataset: str) -> BudgetState:
        counts, answers, spent = tables.dataset(db, dataset)
        if math.isinf(self.epsilon):
            epsilon = compose_epsilon(counts, self.delta)
            return BudgetState(epsilon, math.inf, self.delta, answers)
        epsilon = unit.epsilon(spent, self.delta) if answers else 0.0
        left = max(0.0, math.nextafter(self.epsilon - epsilon, -math.inf))
        return BudgetState(epsilon, left, self.delta, answers)

    # --- the storage

    def _create(self) -> None:
        if not self._storage.exists():
            self.key_file.create()
            self._require_not_lost()
            values = {
                "schema_version": tables.VERSION,
                "ledger": secrets.token_hex(16),
                "root": "0",
                "epsilon": repr(self.epsilon),
                "delta": repr(self.delta),
            }
            values["key_check"] = key_check(self.key_file.secret(), values["ledger"])
            self._storage.create(lambda db: tables.fill(db, values))
        if damage := self._storage.damage():
            raise unusable(self.address, ValueError(damage))

    def _require_not_lost(self) -> None:
        """Refuse a new ledger, at any address, if an earlier one that gave answers is gone."""
        lost = [mark for mark in self.key_file.marks() if not _is_there(mark)]
        if lost and not self._storage.exists():
            raise StoreError(
                f"there is no ledger at {lost[0].address!r} that can be read, and the key file "
                f"{str(self.key_file.path)!r} knows one there with {lost[0].number} answers. "
                "Restore it from a backup that holds all of them; if it was moved, open it where "
                "it is now; or name another ledger (--ledger) with another key file (--ledger-key)."
            )

    def _require_own(self, db: Database, values: dict[str, str]) -> None:
        """Require that every answer ever released from here is in the ledger, and no more."""
        if self._storage.has_others(db, tables.SCHEMA):
            raise self._refusal("its tables have indexes or triggers that are not of this package.")
        marks = self.key_file.marks()
        found = [mark for mark in marks if mark.ledger == values["ledger"]]
        if any(m.address == self._storage.place for m in marks if m not in found):
            raise self._refusal("the key file knows answers of another ledger in its place.")
        newest = tables.head(db)
        if found and (newest < found[0].number
                      or tables.tag_of(db, found[0].number) != found[0].tag):  # fmt: skip
            raise StoreError(
                f"the ledger {self.address!r} is an old or another copy: its newest answer is "
                f"number {newest}, and the key file {str(self.key_file.path)!r} knows an "
                f"answer number {found[0].number} that is not in it. What is missing was spent. "
                "Nothing was released; restore the newest copy."
            )

    def _refusal(self, what: str) -> StoreError:
        return StoreError(
            f"the ledger {self.address!r} was changed by another hand: {what} What was spent is "
            "not known, so nothing was released. It must be as its last answer left it: restore "
            "the newest copy, or name another ledger (--ledger) with another key file "
            "(--ledger-key)."
        )

    def _keys(self, records: Sequence[str]) -> tuple[npt.NDArray[np.int64], Keys]:
        """Keys of the accounts in their order. Without the secret, they confirm no guess."""
        if isinstance(records, str):
            raise UsageError("records is one text; it must be a list of names of records.")
        keys = record_keys(self._secret, records)
        order = np.argsort(keys)
        ordered = keys[order]
        if (ordered[1:] == ordered[:-1]).any():
            raise UsageError("a record occurs twice in one context; name each record once.")
        return order, ordered

    def _same_budget(self, db: Database, fresh: bool = False) -> dict[str, str]:
        """The values of the whole ledger. The budget may change until the first answer."""
        if fresh:
            rows = [(repr(self.epsilon), "epsilon"), (repr(self.delta), "delta")]
            db.run_each("UPDATE leakbound_total SET value = ? WHERE name = ?", rows)
        values = tables.total(db)
        epsilon, delta = float(values["epsilon"]), float(values["delta"])
        if (epsilon, delta) != (self.epsilon, self.delta):
            raise UsageError(
                f"the ledger {self.address!r} has a budget of epsilon {epsilon:g} at delta "
                f"{delta:g}, and this asks for epsilon {self.epsilon:g} at delta {self.delta:g}; "
                "once spent from, a budget never changes. Use its own (--budget "
                f"{epsilon:g}, --delta {delta:g}), or another ledger (--ledger)."
            )
        return values

    def _same_kind(self, values: dict[str, str], first: dict[str, str]) -> None:
        for kind, (what, this) in KINDS.items():
            if values.get(kind, first[kind]) != first[kind]:
                raise UsageError(
                    f"the ledger {self.address!r} {what} {values[kind]}, and {this} {first[kind]}; "
                    "the two do not add up. Use another ledger (--ledger)."
                )
