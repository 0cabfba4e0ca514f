"""The ledger on SQLite: the battery of all storages, and any sequence of contexts."""

from __future__ import annotations

import math
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_battery import *  # noqa: F403
from ledger_battery import DELTA
from ledger_edits import Edit, edit

from leakbound.errors import (
    BudgetExhausted,
    DataError,
    StoreError,
    UsageError,
)
from leakbound.privacy import (
    BoundedRange,
    Gaussian,
    Guarantee,
    PureDP,
    compose,
    pure_composition_epsilon,
)
from leakbound.serving.ledger import Ledger
from leakbound.serving.ledger.inspection import Account, account, problems, report
from leakbound.serving.ledger.storage import Database, KeyFile, Mark, id_name, record_names
from leakbound.serving.ledger.tables import BLOCK_BITS
from leakbound.tasks import Example


@dataclass
class File:
    """A ledger in a folder."""

    folder: Path

    @property
    def address(self) -> str:
        return str(self.folder / "ledger")

    @property
    def key(self) -> Path:
        return self.folder / "key"

    def snapshot(self) -> None:
        shutil.copy(self.address, self.folder / "backup")

    def restore(self) -> None:
        shutil.copy(self.folder / "backup", self.address)

    def lose(self) -> None:
        Path(self.address).unlink()


@pytest.fixture
def place(tmp_path: Path) -> File:
    (tmp_path / "place").mkdir()
    return File(tmp_path / "place")


PRICES = (PureDP(0.3), BoundedRange(0.4), PureDP(0.7))
NOISE = (Gaussian(0.2, 1.0), Gaussian(0.5, 1.0))
CONTEXTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abcdef"), unique=True),
        st.sampled_from("xyz"),
        st.integers(0, 1),
    ),
    max_size=8,
)


@settings(max_examples=12, deadline=None)
@given(CONTEXTS, st.sampled_from((PRICES, NOISE)), st.floats(0.3, 2.0))
def test_no_sequence_of_contexts_overspends_a_record(
    contexts: list[tuple[list[str], str, int]], prices: tuple[Guarantee, ...], budget: float
) -> None:
    """What the ledger let each record take part in, composed without the ledger."""
    shown: dict[str, list[Guarantee]] = {name: [] for name in "abcdef"}
    answers = Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger", budget, DELTA)
        for context, dataset, which in contexts:
            try:
                paid = ledger.spend(context, prices[which], dataset)
            except BudgetExhausted:
                continue
            answers[dataset] += 1
            for name, there in zip(context, paid.takes_part, strict=True):
                shown[name] += [prices[which]] * there
        for parts in shown.values():
            spent = compose(parts).epsilon(DELTA) if parts else 0.0
            assert spent <= budget * (1 + 2e-9)
        assert all(ledger.state(name).answers == given for name, given in answers.items())


def test_files_are_for_their_owner_only(place: File) -> None:
    Ledger(place.address, 1.0, DELTA, place.key)
    for path in (Path(place.address), place.key):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_high_water_mark_never_falls(tmp_path: Path) -> None:
    """Two processes may raise it in the other order than they paid."""
    keys = KeyFile(tmp_path / "key")
    keys.create()
    for number in (1, 3, 2):
        keys.raise_to(Mark("ledger", "here", number, f"tag {number}"))
    assert keys.marks() == [Mark("ledger", "here", 3, "tag 3")]


@pytest.mark.parametrize("spelling", ["./mail", "../{name}/mail", "{folder}/mail", "link/mail"])
def test_no_spelling_of_a_path_gives_the_budget_of_a_lost_ledger_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str
) -> None:
    """The address was compared letter by letter."""
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to(tmp_path)
    Ledger("mail", 1.0, 0.0, "the.key").spend(["one"], PureDP(1.0))
    Path("mail").unlink()
    with pytest.raises(StoreError, match="there is no ledger at"):
        Ledger(spelling.format(name=tmp_path.name, folder=tmp_path), 1.0, 0.0, "the.key")


def test_a_key_file_that_knows_a_lost_ledger_opens_no_new_one(tmp_path: Path) -> None:
    """Neither at another place, nor where a second ledger was put over the first."""
    first, second, key = (tmp_path / name for name in ("first", "second", "the.key"))
    Ledger(first, 1.0, 0.0, key).spend(["one"], PureDP(1.0))
    Ledger(second, 1.0, 0.0, key).spend(["one"], PureDP(1.0))  # the first is there
    first.unlink()
    with pytest.raises(StoreError, match="first' that can be read"):
        Ledger(tmp_path / "third", 1.0, 0.0, key)
    second.rename(first)
    with pytest.raises(StoreError, match="first' that can be read"):
        Ledger(tmp_path / "third", 1.0, 0.0, key)


def test_a_ledger_that_was_moved_and_opened_is_not_lost(tmp_path: Path) -> None:
    key = tmp_path / "the.key"
    Ledger(tmp_path / "old", 1.0, 0.0, key).spend(["one"], PureDP(0.75))
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(StoreError, match="if it was moved, open it"):
        Ledger(tmp_path / "another", 1.0, 0.0, key)
    moved = Ledger(tmp_path / "new", 1.0, 0.0, key)
    Ledger(tmp_path / "another", 1.0, 0.0, key)
    assert moved.spend(["one"], PureDP(0.5), "again").takes_part == (False,)


ONE, TWO = (id_name(name) for name in ("one", "two"))
ANSWERS, TOTAL = "leakbound_answers", "leakbound_total"
REMOVED, CHANGED = "some were removed", "some account was changed"
SEAL = "not those that its key file confirms"


def spent(factor: float) -> Callable[[Any], None]:
    def change(accounts: Any) -> None:
        accounts["spent"] *= factor

    return change


def one_more(accounts: Any) -> None:
    accounts["answers"] += 1


EDITS: list[tuple[Edit, list[str]]] = [
    (f"DELETE FROM {ANSWERS} WHERE number = 1", [REMOVED, CHANGED]),
    (f"DELETE FROM {ANSWERS} WHERE number = 2",
     [REMOVED, CHANGED, SEAL, "number 2 was released"]),
    ("UPDATE leakbound_datasets SET answers = 3", ["the data sets count 3; " + REMOVED, SEAL]),
    ("UPDATE leakbound_datasets SET spent = 0", [SEAL]),
    ("DELETE FROM leakbound_accounts", [CHANGED, SEAL]),
    (one_more, ["charged 3 times, and the accounts were charged 5 times; " + CHANGED, SEAL]),
    (spent(1 + 1e-7), [SEAL]),  # as far as a sum of floats may be off
    (spent(0.0), [CHANGED, SEAL]),
    (spent(5.0), [CHANGED, SEAL, "2 records have spent more than the"]),
    (f"UPDATE {TOTAL} SET value = '9.0' WHERE name = 'capacity'",
     [SEAL, "accounts may spend 9, and the budget is 1 in this unit"]),
    (f"UPDATE {TOTAL} SET value = '0' WHERE name = 'root'", [SEAL]),
    (f"DELETE FROM {TOTAL} WHERE name = 'names'", [SEAL]),
    (f"UPDATE {ANSWERS} SET tag = '' WHERE number = 2", [SEAL, "number 2 was released"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "found"), EDITS)
def test_a_changed_ledger_is_told_from_a_sound_one_and_refused(
    place: File, change: Edit, found: list[str]
) -> None:
    """An account set to 0 bought one more answer, which only `ledger check` saw."""
    ledger = Ledger(place.address, 1.0, DELTA, place.key)
    ledger.spend([ONE, TWO], PureDP(0.25), "mail")
    ledger.spend([ONE], PureDP(0.25), "mail")
    assert problems(place.address, place.key) == []
    Ledger(place.address, 1.0, DELTA, place.key)
    edit(place.address, change)
    said = problems(place.address, place.key)
    assert len(said) == len(found), said
    assert all(words in one for words, one in zip(found, said, strict=True))
    with pytest.raises(StoreError, match=r"(?i)nothing was released") as caught:
        Ledger(place.address, 1.0, DELTA, place.key)
    assert "one" not in str(caught.value).replace("another one", "").split()


@pytest.mark.parametrize("change", [change for change, _ in EDITS if change is not one_more])
def test_no_later_answer_covers_up_an_edit(place: File, change: Edit) -> None:
    """Of a ledger that is open: what it writes next rests on what it read."""
    ledger = Ledger(place.address, 8.0, DELTA, place.key)
    for _ in range(2):
        ledger.spend([ONE, TWO], PureDP(0.25), "mail")
    edit(place.address, change)
    with suppress(StoreError):
        for _ in range(3):
            ledger.spend([ONE, TWO], PureDP(0.25), "mail")
    with pytest.raises(StoreError, match=r"(?i)nothing was released"):
        Ledger(place.address, 8.0, DELTA, place.key)


def test_an_older_state_of_one_account_is_refused(place: File) -> None:
    """It was written by the ledger itself; also where the ledger goes on with it."""
    ledger = Ledger(place.address, 8.0, DELTA, place.key)
    states = []
    for _ in range(3):
        ledger.spend([ONE], PureDP(0.25), "mail")
        with closing(sqlite3.connect(place.address)) as db:
            states += db.execute("SELECT hex(data) FROM leakbound_accounts").fetchone()
    for old in (states[0], states[1]):
        edit(place.address, f"UPDATE leakbound_accounts SET data = x'{old}'")
        for _ in range(2):
            with pytest.raises(StoreError, match="changed by another hand"):
                Ledger(place.address, 8.0, DELTA, place.key)
            ledger.spend([ONE], PureDP(0.25), "mail")


def test_the_files_of_a_sound_ledger_are_its_owners_and_belong_together(place: File) -> None:
    Ledger(place.address, 1.0, DELTA).spend([ONE], PureDP(0.25))
    own = Path(f"{place.address}.key")
    assert problems(place.address) == []
    Path(place.address).chmod(0o640)
    own.chmod(0o604)
    said = problems(place.address)
    assert [words in one for words, one in zip(("has mode 640", "has mode 604"), said, strict=True)]
    Path(place.address).chmod(0o600)
    Ledger(place.folder / "other", 1.0, DELTA, place.key)
    (said,) = problems(place.address, place.key)
    assert "belongs to another ledger" in said
    own.unlink()
    (said,) = problems(place.address)
    assert "is missing; without it no account can be found" in said


@pytest.mark.parametrize("budget", [1.0, math.inf])
def test_a_ledger_reports_what_was_spent_from_the_first_answer_on(
    place: File, budget: float
) -> None:
    """An account pays for another answer like the newest one, or it is exhausted."""
    ledger, finite = Ledger(place.address, budget, DELTA), math.isfinite(budget)
    found = report(place.address)
    assert (found.answers, found.records, found.exhausted, found.most_spent) == (0, 0, 0, 0.0)
    assert (found.unit, found.relation, found.datasets) == ("", "", ())
    assert account(place.address, "one") == Account(0, 0.0, True)
    for _ in range(2):
        assert account(place.address, "one").pays
        ledger.spend([ONE], PureDP(0.5), "mail")
    ledger.spend([TWO], PureDP(0.5), "post")
    found = report(place.address)
    assert (found.answers, found.records, found.exhausted) == (3, 2, int(finite))
    assert found.unit == ("pure epsilon" if finite else "unlimited")
    both = 1.0 if finite else pure_composition_epsilon(0.5, 2, DELTA)
    assert [(one.name, one.answers, one.epsilon) for one in found.datasets] == [
        ("mail", 2, both), ("post", 1, 0.5),
    ]  # fmt: skip
    assert found.most_spent == (1.0 if finite else math.inf)
    one, two = (account(place.address, name) for name in ("one", "two"))
    assert (one.answers, two.answers, one.pays, two.pays) == (2, 1, not finite, True)
    assert not finite or (one.epsilon, two.epsilon) == (1.0, 0.5)
    assert problems(place.address) == []
    with pytest.raises(StoreError, match="there is no ledger at"):
        report(place.folder / "none")


@pytest.mark.parametrize(
    "again",
    [
        "Zoë works here ",
        "Zoe\u0308 works here",
        "ZOË\tWORKS  here\r\n",
        "Zoë\u200b works here",
        "Zoe\u200d\u0308 works here",
        "Zoë\ufe0f works here",
        "Zo\u034fë works here\0",
        "Zoë\u3164 works here",
        "\ufeffZoe\ufe00\u0308\u2028works \u2060 here\U000e0020",
    ],
)
def test_another_spelling_of_a_row_is_no_other_record(again: str) -> None:
    """A trailing blank bought every person a second budget."""
    row = Example("Zoë works here", "Yes")
    other = Example(again, "yes ")
    assert record_names((row,)) == record_names((other,))
    with pytest.raises(DataError, match=r"equal but for case and white space .numbers 1 and 2"):
        record_names((row, other))
    assert record_names((row,)) != record_names((Example("Zoe works here", "Yes"),))


def steps_of_a_spend(monkeypatch: pytest.MonkeyPatch, ledger: Ledger, names: list[str]) -> int:
    """Instructions of SQLite's machine, which do not depend on how busy this one is."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    class Counted(sqlite3.Connection):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.set_progress_handler(count, 1)

    with monkeypatch.context() as patched:
        connect = partial(sqlite3.connect, factory=Counted)
        patched.setattr("leakbound.serving.ledger.storage.sqlite3.connect", connect)
        ledger.spend(names, PureDP(0.001), "mail")
    return steps


@pytest.mark.parametrize("budget", [10.0, math.inf])
def test_a_spend_does_not_read_earlier_answers(
    place: File, monkeypatch: pytest.MonkeyPatch, budget: float
) -> None:
    """Of a budget without limit, each one read them all."""
    ledger, names = Ledger(place.address, budget, DELTA, place.key), list("abcdef")
    few = [steps_of_a_spend(monkeypatch, ledger, names) for _ in range(3)][-1]
    for _ in range(100):
        ledger.spend(names, PureDP(0.001), "mail")
    assert steps_of_a_spend(monkeypatch, ledger, names) <= 1.1 * few


def test_many_records_are_charged_together(place: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two statements for each of them took 17 seconds of a million."""
    written = 0
    run_each = Database.run_each

    def count(self: Database, sql: str, rows: Sequence[Any]) -> None:
        nonlocal written
        written += len(rows)
        run_each(self, sql, rows)

    ledger = Ledger(place.address, 1.0, DELTA, place.key)
    names = [f"person {i}" for i in range(40_000)]
    monkeypatch.setattr(Database, "run_each", count)
    for able in (40_000, 20_000, 20_000):
        paid = ledger.spend(names, PureDP(0.25), "mail")
        assert sum(paid.takes_part) == 40_000
        paid = ledger.spend(names[:able], PureDP(0.125), f"small {able}")
    assert written <= 6 * (1 << BLOCK_BITS) + 3
    # three times 0.25 and three of 0.125, or one of 0.125
    paid = ledger.spend(names, PureDP(0.125), "last")
    assert paid.takes_part == (False,) * 20_000 + (True,) * 20_000
    assert problems(place.address, place.key) == []


FIXED = "INSERT INTO leakbound_total VALUES ('relation', 'replace'), ('unit', '{unit}'), "
BEHIND = {
    "a limit before the first answer": (
        0, [FIXED.format(unit="pure epsilon") + "('capacity', '1e9')"]
    ),
    "no budget before the first answer": (
        0, [FIXED.format(unit="unlimited") + "('capacity', 'inf')"]
    ),
    "a trigger that undoes charges": (1, [
        "CREATE TRIGGER undo AFTER UPDATE ON leakbound_accounts BEGIN UPDATE leakbound_accounts "
        "SET data = OLD.data WHERE block = OLD.block; END"
    ]),
    "an index that may be stale": (1, [
        "CREATE INDEX old ON leakbound_answers (number, tag) WHERE number IS NOT NULL"
    ]),
    "a ledger that begins again": (2, [
        "DELETE FROM leakbound_answers", "DELETE FROM leakbound_accounts",
        "DELETE FROM leakbound_datasets",
        "DELETE FROM leakbound_total WHERE name IN ('unit', 'capacity', 'relation')",
        "UPDATE leakbound_total SET value = '0' WHERE name = 'root'",
        "UPDATE leakbound_total SET value = '00ff00ff00ff00ff00ff00ff00ff00ff' "
        "WHERE name = 'ledger'",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("what", BEHIND)
def test_what_is_written_behind_its_back_buys_no_answer(place: File, what: str) -> None:
    answers, changes = BEHIND[what]
    ledger = Ledger(place.address, 1.0, DELTA, place.key)
    for _ in range(answers):
        ledger.spend([ONE], PureDP(0.25), "mail")
    for change in changes:
        edit(place.address, change)
    with pytest.raises(StoreError):
        ledger.spend([ONE], PureDP(0.25), "mail")
    with pytest.raises(StoreError):
        Ledger(place.address, 1.0, DELTA, place.key)


def test_an_id_that_looks_the_same_is_the_same() -> None:
    """A blank, or another way to compose a letter, gave every person a second budget."""
    forms = ("Zo\u00eb", "Zoe\u0308", " Zo\u00eb", "Zo\u00eb\u200b", "Zo\u00eb\u2800")
    assert len({id_name(form) for form in forms}) == 1
    assert len({id_name(form) for form in ("zoe", "Zoe", "Zo e")}) == 3
    with pytest.raises(
        DataError, match=r"2 record ids are equal but for white space .numbers 1 and 2"
    ):
        record_names((Example("a", "x"), Example("b", "x")), forms[:2])
    with pytest.raises(DataError, match="a record id is not a text"):
        record_names((Example("a", "x"),), [1])  # type: ignore[list-item]


def test_a_refusal_reads_no_record(place: File) -> None:
    """It took longer for each row, and for each character of one that its content names."""
    ledger = Ledger(place.address, 1.0, DELTA, place.key)
    ledger.spend(["a"], PureDP(1.0))
    with pytest.raises(BudgetExhausted):
        ledger.spend([1], PureDP(1.0))  # type: ignore[list-item]


def test_a_table_of_others_beside_it_changes_nothing(place: File) -> None:
    """Tools that copy databases keep their own."""
    ledger = Ledger(place.address, 1.0, DELTA, place.key)
    ledger.spend([ONE], PureDP(0.25), "mail")
    edit(place.address, "CREATE TABLE _copied (sequence INTEGER)")
    assert ledger.spend([ONE], PureDP(0.25), "mail").takes_part == (True,)
    assert Ledger(place.address, 1.0, DELTA, place.key).state("mail").answers == 2


def test_copies_that_pay_at_one_time_release_one_answer(place: File) -> None:
    """Equal answers had equal tags, and a mark that another copy had set was overlooked."""
    Ledger(place.address, 2.0, DELTA, place.key).spend([ONE], PureDP(1.0), "mail")
    copies = [f"{place.address}.{number}" for number in range(5)]
    for copy in copies:
        shutil.copy(place.address, copy)
    ledgers = [Ledger(one, 2.0, DELTA, place.key) for one in (place.address, *copies)]
    ready = threading.Barrier(len(ledgers))

    def pay(ledger: Ledger) -> int:
        ready.wait()
        try:
            return sum(ledger.spend([ONE], PureDP(1.0), "mail").takes_part)
        except StoreError:
            return 0

    with ThreadPoolExecutor(len(ledgers)) as pool:
        assert sum(pool.map(pay, ledgers)) <= 1


def test_the_name_of_a_data_set_is_a_text(place: File) -> None:
    with pytest.raises(UsageError, match="must be a text"):
        Ledger(place.address, 1.0, DELTA, place.key).spend([ONE], PureDP(0.25), 7)  # type: ignore[arg-type]
