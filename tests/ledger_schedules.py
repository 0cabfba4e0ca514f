"""Schedules of spends, retries, crashes, lost connections, restored and edited files, two writers.

Every statement, and every file that a ledger opens or links, is a place where the process may die,
the connection may break, before it or after it, or the other writer may make a whole spend. After
each step holds: released <= charged <= budget, for each record, and no answer is lost. A schedule
that breaks this is shrunk to a short one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from ledger_edits import Edit, edit, spend_is

from leakbound.errors import BudgetExhausted, StoreError
from leakbound.privacy import PureDP
from leakbound.serving import ServiceState
from leakbound.serving.ledger import Ledger, PossiblySpent
from leakbound.serving.ledger import storage as storing
from leakbound.serving.ledger.inspection import account, history, problems
from leakbound.serving.ledger.storage import KeyFile, id_name

NAMES = "abcd"
MOST = 1 + 1e-9
TENANT = "tenant"


class Crash(BaseException):
    """The process dies: nothing of it runs any more, and its connections close."""


class Plan:
    """What happens at which statement or system call."""

    left = -1
    kind = ""
    other: Callable[[], object]

    def around(
        self, call: Callable[..., Any], lost: type[Exception] = sqlite3.OperationalError
    ) -> Callable[..., Any]:
        def made(*args: Any, **options: Any) -> Any:
            self.left -= 1
            here = self.left == -1
            if here and self.kind == "other writer":
                self.other()
            if here and self.kind.endswith("before"):
                self.fail(lost)
            done = call(*args, **options)
            if here and self.kind.endswith("after"):
                self.fail(lost)
            return done

        return made

    def fail(self, lost: type[Exception]) -> None:
        raise Crash if self.kind.startswith("crash") else lost("the connection is lost")


PLAN = Plan()


class Cursor(sqlite3.Cursor):
    def executemany(self, *args: Any) -> Any:
        return PLAN.around(super().executemany)(*args)


class Connection(sqlite3.Connection):
    def execute(self, *args: Any) -> Any:
        return PLAN.around(super().execute)(*args)

    def cursor(self, *args: Any) -> Any:
        return super().cursor(Cursor)


def connect(*args: Any, timeout: float, **options: Any) -> sqlite3.Connection:
    """Another writer is refused at once and not waited for."""
    return sqlite3.connect(*args, timeout=0.0, factory=Connection, **options)


class FaultyOs:
    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        return PLAN.around(found) if name in ("open", "link", "close") else found


@contextmanager
def faults() -> Iterator[None]:
    shim = SimpleNamespace(connect=connect, Error=sqlite3.Error)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storing, "sqlite3", shim)
        patched.setattr(storing, "os", FaultyOs())
        yield


CONTEXTS = st.lists(st.sampled_from(NAMES), unique=True, max_size=4)
PRICES = st.sampled_from([0.25, 0.4, 1.0])
SETS = st.sampled_from(["x", "y", "z"])
WRITERS = st.integers(0, 1)
KINDS = st.sampled_from(
    ["", "crash before", "crash after", "lost before", "lost after", "other writer"]
)
PLACES = st.integers(0, 40)  # a spend has about thirty statements and calls


class FilePlace:
    """Where a ledger is, with copies of it."""

    faults = staticmethod(faults)

    def __init__(self, folder: Path) -> None:
        self.folder, self.address = folder, str(folder / "ledger")

    def has(self, name: str = "ledger") -> bool:
        return (self.folder / name).exists()

    def copy(self, source: str, target: str) -> None:
        shutil.copy(self.folder / source, self.folder / target)

    def edit(self, change: Edit) -> None:
        edit(self.address, change)

    def close(self) -> None:
        shutil.rmtree(self.folder)


class Schedule(RuleBasedStateMachine):
    place_of: Callable[[Path], Any] = FilePlace

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-"))
        self.place, self.key = type(self).place_of(self.folder), self.folder / "key"
        self.path = self.place.address
        self.state = ServiceState(self.folder / "state")
        self.released: Counter[str] = Counter()
        self.answers, self.outcomes = 0, dict[int, str]()
        self.writers: list[Ledger | None] = [None, None]

    def teardown(self) -> None:
        self.state.close()
        self.place.close()

    def open(self, writer: int) -> Ledger:
        self.writers[writer] = self.writers[writer] or Ledger(self.path, 1.0, 0.0, self.key)
        return self.writers[writer]  # type: ignore[return-value]

    def spend(self, writer: int, context: list[str], price: float, dataset: str) -> bool:
        """Whether an answer is released."""
        alone = PLAN.kind != "other writer" and self.place.has()
        left, PLAN.left = PLAN.left, -1
        before = len(history(self.path)) if alone else 0
        PLAN.left = left
        try:
            names = [id_name(name) for name in context]
            paid = self.open(writer).spend(names, PureDP(price), dataset)
        except PossiblySpent:
            return False
        except (BudgetExhausted, StoreError):
            PLAN.left = -1
            assert not alone or len(history(self.path)) == before, "charged and denied"
            return False
        self.answers += 1
        for name, there in zip(context, paid.takes_part, strict=True):
            self.released[name] += round(price * 100) * there
        return True

    @rule(writer=WRITERS, context=CONTEXTS, price=PRICES, dataset=SETS, kind=KINDS, at=PLACES)
    def answer(
        self, writer: int, context: list[str], price: float, dataset: str, kind: str, at: int
    ) -> None:
        with self.place.faults():
            PLAN.left, PLAN.kind = at if kind else -1, kind
            PLAN.other = lambda: self.spend(1 - writer, context[::-1], 0.25, dataset)
            try:
                self.spend(writer, context, price, dataset)
            except Crash:
                self.writers[writer] = None
            finally:
                PLAN.left, PLAN.kind = -1, ""

    @rule(number=st.integers(0, 2), context=CONTEXTS, price=PRICES, kind=KINDS, at=PLACES)
    def ask(self, number: int, context: list[str], price: float, kind: str, at: int) -> None:
        """A request under an idempotency key, and its retries: one charge at most."""
        begun = self.state.begin(TENANT, str(number), "digest")
        if begun is not None:
            assert begun[1] in (None, self.outcomes.get(number))
            return
        before = self.answers
        self.answer(0, context, price, "x", "" if kind == "other writer" else kind, at)
        if self.answers > before:
            assert number not in self.outcomes, "a retry was charged"
            self.outcomes[number] = f"answer {self.answers}"
            self.state.end(TENANT, str(number), self.outcomes[number])

    @rule(writer=WRITERS)
    def restart(self, writer: int) -> None:
        self.writers[writer] = None
        self.open(writer)

    @rule()
    def back_up(self) -> None:
        if self.place.has():
            self.place.copy("ledger", "backup")

    @rule(writer=WRITERS)
    def restore(self, writer: int) -> None:
        """An old copy gives nothing; where nothing was released since, it is none."""
        if not self.place.has("backup"):
            return
        self.place.copy("ledger", "newest")
        self.place.copy("backup", "ledger")
        marks = KeyFile(self.key).marks()
        if len(history(self.path)) >= max((mark.number for mark in marks), default=0):
            with suppress(StoreError):  # a fork: the same number, but another answer
                Ledger(self.path, 1.0, 0.0, self.key)
                return
        with pytest.raises(StoreError):
            Ledger(self.path, 1.0, 0.0, self.key)
        if self.writers[writer] is not None:
            assert not self.spend(writer, ["a"], 0.25, "new"), "an old copy gave an answer"
        self.place.copy("newest", "ledger")

    @rule(value=st.sampled_from([0.0, 0.25, 2.0]))
    def tamper(self, value: float) -> None:
        if not self.place.has() or not any(account(self.path, n, self.key).answers for n in NAMES):
            return
        self.place.copy("ledger", "newest")
        self.place.edit(spend_is(value + 0.01))
        with pytest.raises(StoreError):
            Ledger(self.path, 1.0, 0.0, self.key)
        self.place.copy("newest", "ledger")

    @invariant()
    def released_is_charged_and_within_the_budget(self) -> None:
        if not self.place.has():
            assert not self.answers
            return
        assert self.answers <= len(history(self.path)), "an answer is lost"
        assert problems(self.path, self.key) == []
        for name in NAMES:
            charged = account(self.path, name, self.key).epsilon
            assert self.released[name] / 100 <= charged + 1e-12
            assert charged <= MOST


MANY = int(os.environ.get("SCHEDULES", "100"))  # of 20 steps; 10,000 take half an hour of CPU
SETTINGS = settings(
    max_examples=MANY, stateful_step_count=20, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck), print_blob=False,
)  # fmt: skip
