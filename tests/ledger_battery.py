"""What every ledger must do, whatever it is kept in: one battery for SQLite and for PostgreSQL.

A test module imports the tests of this one and defines the fixture `place`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytest
from limits import PATIENCE

from leakbound.errors import BudgetExhausted, StoreError, UsageError
from leakbound.privacy import Gaussian, Guarantee, PureDP, gdp_epsilon
from leakbound.serving.ledger import Ledger, record_names
from leakbound.serving.ledger.inspection import account, history, problems, report
from leakbound.tasks import Example

DELTA = 1e-5
FORK = multiprocessing.get_context("fork")  # starts at once, with everything imported
NAMES = "abcdefghijkl"


class Place(Protocol):
    """Where the ledger of one test is."""

    address: str
    key: Path

    def snapshot(self) -> None:
        """Take a backup."""

    def restore(self) -> None:
        """Put the backup back."""

    def lose(self) -> None:
        """Lose the ledger, but not the key file."""


def opened(place: Place, epsilon: float = 1.0) -> Ledger:
    return Ledger(place.address, epsilon, DELTA, place.key)


def together(count: int, work: Callable[[int], None]) -> list[int | None]:
    """Run processes at once; exit codes."""
    workers = [FORK.Process(target=work, args=(number,)) for number in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    return [worker.exitcode for worker in workers]


def attempts(ledger: Ledger, price: Guarantee, times: int, records: Sequence[str]) -> int:
    granted = 0
    for _ in range(times):
        try:
            ledger.spend(records, price)
            granted += 1
        except BudgetExhausted:
            pass
    return granted


def test_eight_racing_processes_get_exactly_what_is_affordable(
    place: Place, tmp_path: Path
) -> None:
    def work(number: int) -> None:
        granted = attempts(opened(place, 3.0), PureDP(0.25), 3, ["one", "two"])
        (tmp_path / f"granted-{number}").write_text(str(granted))

    assert together(8, work) == [0] * 8
    assert sum(int(file.read_text()) for file in tmp_path.glob("granted-*")) == 12
    state = opened(place, 3.0).state()
    assert (state.epsilon, state.remaining, state.answers) == (3.0, 0.0, 12)


def test_racing_gaussians_add_in_mu_squared(place: Place) -> None:
    ledger = opened(place, gdp_epsilon(0.1 * 5**0.5, DELTA))
    assert attempts(ledger, Gaussian(1.0, 10.0), 8, ["one"]) == 5


def _customer(place: Place, log: Path, number: int) -> None:
    """Ask for answers over changing contexts; a killed one dies between spend and answer."""
    draw, ledger = random.Random(number), opened(place, 1.0)
    for step in range(8):
        context = draw.sample(NAMES, draw.randint(1, len(NAMES)))
        try:
            paid = ledger.spend(context, PureDP(0.25), draw.choice(("mon", "tue", "wed")))
        except BudgetExhausted:
            continue
        if number % 2 and step == number % 5:
            os.kill(os.getpid(), signal.SIGKILL)
        shown = [name for name, there in zip(context, paid.takes_part, strict=True) if there]
        with log.open("a") as file:  # the answer
            file.write("".join(shown) + "\n")


def test_ten_processes_and_kills_overspend_no_record(place: Place, tmp_path: Path) -> None:
    """Five die between spend and answer, three at any moment."""
    logs = [tmp_path / f"log-{number}" for number in range(10)]
    workers = [FORK.Process(target=_customer, args=(place, log, i)) for i, log in enumerate(logs)]
    draw = random.Random(0)
    for worker in workers:
        worker.start()
    for worker in draw.sample(workers, 3):
        time.sleep(draw.random() / 5)
        worker.kill()
    for worker in workers:
        worker.join(PATIENCE)
    assert {worker.exitcode for worker in workers} <= {0, -signal.SIGKILL}
    lines = [line for log in logs if log.exists() for line in log.read_text().splitlines()]
    answered = Counter(name for line in lines for name in line)
    assert answered
    assert max(answered.values()) <= 4
    assert problems(place.address, place.key) == []
    assert report(place.address).most_spent <= 1.0
    assert all(one.answers <= 4 for one in report(place.address).datasets)
    assert len(history(place.address)) >= len(lines)


@pytest.mark.parametrize("again", ["open", "open elsewhere first", "spend"])
def test_a_restored_copy_is_detected(place: Place, tmp_path: Path, again: str) -> None:
    ledger = opened(place)
    ledger.spend(["one"], PureDP(0.5))
    place.snapshot()
    ledger.spend(["one"], PureDP(0.5))
    place.restore()
    if again == "open elsewhere first":  # a host whose key file knows less goes on
        other = tmp_path / "other.key"
        _forget(place.key, other)
        elsewhere = Ledger(place.address, 1.0, DELTA, other)
        for name in ("two", "three"):
            elsewhere.spend([name], PureDP(0.125))
    with pytest.raises(StoreError, match="old or another copy") as caught:
        ledger.spend(["one"], PureDP(0.5)) if again == "spend" else opened(place)
    assert "Nothing was released" in str(caught.value)
    assert any("Restore the newest one" in one for one in problems(place.address, place.key))


def _forget(key: Path, copy: Path) -> None:
    """A key file with the same secret that has seen no answer."""
    import sqlite3

    copy.write_bytes(key.read_bytes())
    copy.chmod(0o600)
    with sqlite3.connect(copy) as db:
        db.execute("DELETE FROM marks")
    db.close()


def test_a_lost_ledger_is_not_replaced_by_a_new_one(place: Place) -> None:
    ledger = opened(place)
    ledger.spend(["one"], PureDP(1.0))
    place.lose()
    with pytest.raises(StoreError):
        ledger.spend(["one"], PureDP(1.0))
    with pytest.raises(StoreError, match="there is no ledger at"):
        opened(place)


def test_a_missing_or_foreign_key_file_is_refused(place: Place, tmp_path: Path) -> None:
    opened(place).spend(["one"], PureDP(0.5))
    with pytest.raises(StoreError, match="is missing"):
        Ledger(place.address, 1.0, DELTA, tmp_path / "none.key")
    Ledger(tmp_path / "another", 1.0, DELTA, tmp_path / "another.key")
    with pytest.raises(StoreError, match="belongs to another ledger"):
        Ledger(place.address, 1.0, DELTA, tmp_path / "another.key")


ROWS = [Example(f"row {i}", "ab"[i % 2]) for i in range(6)]
DISGUISES: dict[str, Callable[[int], list[Example]]] = {
    "reordered": lambda i: ROWS[i % 6 :] + ROWS[: i % 6],
    "dropped": lambda i: ROWS[: i % 6] + ROWS[i % 6 + 1 :],
    "padded": lambda i: [*ROWS, Example(f"padding {i}", "a")],
    "grown": lambda i: [*ROWS, *(Example(f"day {day}", "b") for day in range(i))],
    "renamed": lambda i: ROWS,
}


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("ids", [False, True])
def test_no_disguise_of_the_rows_buys_more(place: Place, disguise: str, ids: bool) -> None:
    """Of contexts over six days, a budget for one answer pays for one: the first release gave all.

    Under one name the second is refused. Under a new name every day, answers are given, and no
    record is in more than one of them.
    """
    ledger, shown = opened(place), Counter[str]()
    for day in range(6):
        context = tuple(DISGUISES[disguise](day))
        names = record_names(context, [row.text for row in context] if ids else None)
        name = "mail" if disguise != "renamed" else f"mail {day}"
        if day and name == "mail":
            with pytest.raises(BudgetExhausted):
                ledger.spend(names, PureDP(1.0), name)
            name = f"mail {day}"
        paid = ledger.spend(names, PureDP(1.0), name)
        shown.update(r.text for r, there in zip(context, paid.takes_part, strict=True) if there)
    assert max(shown.values()) == 1
    assert report(place.address).most_spent == 1.0


def test_a_record_is_left_out_by_its_own_account_alone(place: Place) -> None:
    ledger = opened(place)
    assert ledger.spend(["poor", "rich"], PureDP(0.75), "a").takes_part == (True, True)
    for other in ("rich", "new"):
        paid = ledger.spend(["poor", f"{other} {1}"], PureDP(0.5), other)
        assert paid.takes_part == (False, True)
    assert ledger.spend(["poor"], PureDP(0.25), "small").takes_part == (True,)
    assert ledger.spend([], PureDP(0.5), "nobody").takes_part == ()
    assert ledger.spend(["rich 1"], PureDP(0.5), "again").takes_part == (True,)


def test_clients_are_refused_by_public_facts_alone(place: Place) -> None:
    """Records that cannot pay change neither who is refused nor what is said."""
    ledger = opened(place)
    ledger.spend(["poor"], PureDP(1.0), "before")
    said = []
    for name, record in (("x", "poor"), ("x2", "rich")):
        states = [ledger.spend([record], PureDP(0.5), name).state for _ in range(2)]
        with pytest.raises(BudgetExhausted) as caught:
            ledger.spend([record], PureDP(0.5), name)
        said.append((states, str(caught.value).replace(repr(name), "")))
    assert said[0] == said[1]


def test_the_file_confirms_no_guess(place: Place, tmp_path: Path) -> None:
    """The same record has another key in another ledger, and the key file is needed to find it."""
    opened(place).spend(["guess"], PureDP(0.5))
    other = Ledger(tmp_path / "other", 1.0, DELTA)
    other.spend(["guess"], PureDP(0.5))
    with pytest.raises(StoreError, match="belongs to another ledger"):
        account(place.address, "guess", tmp_path / "other.key")


def test_operators_see_accounts(place: Place) -> None:
    ledger = opened(place)
    names = record_names((ROWS[0], ROWS[1]), ["7", "8"])
    ledger.spend(names, PureDP(0.5), "mail")
    ledger.spend(names[:1], PureDP(0.5), "mail")
    assert (account(place.address, "7", place.key).answers,
            account(place.address, "7", place.key).pays) == (2, False)  # fmt: skip
    assert account(place.address, "8", place.key).epsilon == 0.5
    assert account(place.address, "9", place.key).answers == 0
    found = report(place.address)
    assert (found.records, found.exhausted, found.answers, found.most_spent) == (2, 1, 2, 1.0)
    assert [(one.records, one.left_out) for one in history(place.address)] == [(2, 0), (1, 0)]
    assert [one.number for one in history(place.address, 1)] == [2]


def test_a_record_stands_once_in_a_context(place: Place) -> None:
    with pytest.raises(UsageError, match="occurs twice"):
        opened(place).spend(["one", "one"], PureDP(0.1))
    with pytest.raises(UsageError, match="must be a list"):
        opened(place).spend("one", PureDP(0.1))


def test_a_budget_changes_only_until_the_first_answer(place: Place) -> None:
    old, new = opened(place, 1.0), opened(place, 5.0)
    with pytest.raises(UsageError, match="this asks for epsilon 1 "):
        old.spend(["one"], PureDP(0.5))
    new.spend(["one"], PureDP(0.5))
    with pytest.raises(UsageError, match="a budget never changes"):
        opened(place, 1.0)
    assert opened(place, 5.0).state().epsilon == 0.5


def test_a_refused_answer_leaves_no_trace(place: Place) -> None:
    ledger = opened(place)
    with pytest.raises(BudgetExhausted):
        ledger.spend(["one"], PureDP(1.5))
    assert report(place.address).records == report(place.address).answers == 0
    ledger.spend(["one"], Gaussian(1.0, 10.0))  # the refused one has chosen no unit
