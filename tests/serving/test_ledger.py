"""The ledger: never over its total, whoever races, crashes or tampers."""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.errors import BudgetExhausted, LeakboundError, StoreError, UsageError
from leakbound.privacy import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Gaussian,
    Guarantee,
    NonPrivate,
    PureDP,
    Subsampled,
    calibrate_gaussian,
    compose,
    gdp_epsilon,
)
from leakbound.serving.ledger import Ledger

DELTA = 1e-5
ROUNDING = 1 + 2e-9
RACER = """
import sys
from leakbound.errors import BudgetExhausted
from leakbound.privacy import Gaussian, PureDP
from leakbound.serving.ledger import Ledger
path, epsilon, kind = sys.argv[1], float(sys.argv[2]), sys.argv[3]
price = PureDP(0.25) if kind == "pure" else Gaussian(1.0, 10.0)
sys.stdin.readline()
granted = 0
ledger = Ledger(path, epsilon, 1e-5)
for _ in range(8):
    try:
        ledger.spend("rows", price)
        granted += 1
    except BudgetExhausted:
        pass
print(granted)
"""


def race(path: Path, epsilon: float, kind: str, processes: int = 8) -> int:
    """Start all, let all go at once, count what they were granted."""
    command = [sys.executable, "-c", RACER, str(path), str(epsilon), kind]
    racers = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    replies = [racer.communicate(timeout=240) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * processes, [
        reply[1] for reply in replies
    ]
    return sum(int(reply[0]) for reply in replies)


def test_eight_racing_processes_get_exactly_what_is_affordable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    assert race(path, 3.0, "pure") == 12
    state = Ledger(path, 3.0, DELTA).state("rows")
    assert (state.epsilon, state.remaining, state.answers) == (3.0, 0.0, 12)


def test_racing_gaussians_add_in_mu_squared(tmp_path: Path) -> None:
    total = gdp_epsilon(0.1 * math.sqrt(21), DELTA)
    assert race(tmp_path / "ledger.sqlite", total, "gaussian") == 21


def test_a_claim_pays_for_exactly_one_answer_calibrated_to_it(tmp_path: Path) -> None:
    for i, epsilon in enumerate((0.1, 1.0, 3.0, 8.0)):
        ledger = Ledger(tmp_path / f"{i}", epsilon, DELTA)
        price = Gaussian(math.sqrt(2), calibrate_gaussian(epsilon, DELTA, math.sqrt(2)))
        assert ledger.spend("rows", price).remaining <= 1e-9
        with pytest.raises(BudgetExhausted, match="1 so far cost epsilon"):
            ledger.spend("rows", price)
        assert ledger.state("rows").answers == 1


SMALL = st.floats(0.01, 1.5)
GUARANTEES = st.one_of(
    st.builds(PureDP, SMALL),
    st.builds(BoundedRange, SMALL),
    st.builds(ZCDP, st.floats(0.001, 0.3)),
    st.builds(lambda mu: Gaussian(mu, 1.0), st.floats(0.05, 1.0)),
    st.builds(ApproxDP, SMALL, st.sampled_from([1e-7, 1e-6, 4e-6])),
)
NESTED = st.one_of(GUARANTEES, st.lists(GUARANTEES, min_size=1, max_size=3).map(compose))


def leaves(guarantee: Guarantee) -> list[Guarantee]:
    parts = getattr(guarantee, "parts", None)
    return [leaf for part in parts for leaf in leaves(part)] if parts else [guarantee]


@settings(max_examples=25, deadline=None)
@given(st.lists(NESTED, min_size=1, max_size=8), st.floats(0.2, 6.0))
def test_what_was_granted_never_exceeds_the_total(wanted: list[Guarantee], total: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger", total, DELTA)
        granted: list[Guarantee] = []
        for guarantee in wanted:
            after = compose([*granted, *leaves(guarantee)]).epsilon(DELTA)
            try:
                spent = ledger.spend("rows", guarantee)
            except BudgetExhausted:
                assert after > total
                continue
            granted += leaves(guarantee)
            assert spent.epsilon == pytest.approx(after, rel=1e-9)
            assert spent.epsilon <= total * ROUNDING
            assert spent.remaining <= max(0.0, total - spent.epsilon)
        assert ledger.state("rows").epsilon <= total * ROUNDING


def test_parts_of_nested_compositions_share_delta(tmp_path: Path) -> None:
    """Two compositions of k Gaussians cost what 2k Gaussians cost: delta is not paid out twice."""
    ledger = Ledger(tmp_path / "ledger", 50.0, DELTA)
    three = compose([Gaussian(1.0, 2.0)] * 3)
    ledger.spend("rows", three)
    assert ledger.spend("rows", three).epsilon == pytest.approx(
        gdp_epsilon(0.5 * math.sqrt(6), DELTA)
    )


def test_subsampled_answers_add_their_steps(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    ledger = Ledger(tmp_path / "ledger", 50.0, DELTA)
    for _ in range(2):
        spent = ledger.spend("rows", Subsampled(2.0, 0.1, 5))
    assert spent.epsilon == Subsampled(2.0, 0.1, 10).epsilon(DELTA)


def test_every_kind_of_guarantee_comes_back_as_it_was(tmp_path: Path) -> None:
    kinds = [
        PureDP(0.1),
        ApproxDP(0.1, 1e-6),
        ZCDP(0.1),
        BoundedRange(0.3),
        Gaussian(1 / 3, 7.1),
        NonPrivate(),
    ]
    for i, kind in enumerate(kinds):
        ledger = Ledger(tmp_path / str(i), math.inf, DELTA)
        ledger.spend("rows", kind)
        assert ledger.state("rows").epsilon == kind.epsilon(DELTA)


def test_every_context_has_its_own_budget_and_survives_reopening(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    Ledger(path, 1.0, DELTA).spend("one", PureDP(0.75))
    again = Ledger(path, 1.0, DELTA)
    assert again.state("one").remaining == pytest.approx(0.25)
    assert again.state("two").epsilon == 0.0
    assert again.spend("two", PureDP(1.0)).remaining == 0.0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["ledger"]


def test_a_process_that_dies_between_spend_and_release_has_lost_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    code = (
        "import os, sys; from leakbound.privacy import PureDP; from leakbound.serving.ledger "
        "import Ledger;"
        "Ledger(sys.argv[1], 1.0, 1e-5).spend('rows', PureDP(0.6)); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9
    ledger = Ledger(path, 1.0, DELTA)
    assert ledger.state("rows").epsilon == 0.6
    with pytest.raises(BudgetExhausted):
        ledger.spend("rows", PureDP(0.6))


def test_a_process_that_dies_before_the_commit_leaves_the_ledger_usable(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    Ledger(path, 1.0, DELTA).spend("rows", PureDP(0.4))
    code = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); db.execute('DELETE FROM spends'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9
    assert Ledger(path, 1.0, DELTA).spend("rows", PureDP(0.4)).epsilon == 0.8


def test_a_total_changes_only_until_the_first_spend(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    old = Ledger(path, 1.0, DELTA)
    new = Ledger(path, 5.0, DELTA)
    with pytest.raises(UsageError, match="was opened with epsilon 1 "):
        old.spend("rows", PureDP(0.5))
    new.spend("rows", PureDP(0.5))
    for epsilon, delta in ((1.0, DELTA), (math.inf, DELTA), (5.0, 1e-3)):
        with pytest.raises(UsageError, match="a budget never changes"):
            Ledger(path, epsilon, delta)
    assert Ledger(path, 5.0, DELTA).state("rows").epsilon == 0.5


def test_relations_do_not_mix(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", 5.0, DELTA)
    ledger.spend("rows", PureDP(0.5, "add_remove"))
    for refuse in (ledger.check, lambda guarantee: ledger.spend("rows", guarantee)):
        with pytest.raises(
            UsageError, match="add_remove, and this guarantee is stated under replace_one"
        ):
            refuse(PureDP(0.5))
    assert ledger.state("rows").epsilon == 0.5


def test_no_guarantee_needs_an_infinite_total(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--budget inf"):
        Ledger(tmp_path / "a", 1e6, DELTA).spend("rows", compose([PureDP(1.0), NonPrivate()]))
    ledger = Ledger(tmp_path / "b", math.inf, DELTA)
    assert ledger.spend("rows", PureDP(1.0)).epsilon == 1.0
    assert ledger.spend("rows", NonPrivate()).epsilon == math.inf
    assert ledger.state("rows").remaining == math.inf


def test_the_delta_of_the_total_is_spent_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", 100.0, DELTA)
    ledger.spend("rows", ApproxDP(0.1, DELTA))
    with pytest.raises(BudgetExhausted, match="inf"):
        ledger.spend("rows", ApproxDP(0.1, DELTA))


def test_a_foreign_kind_of_guarantee_is_refused(tmp_path: Path) -> None:
    class Mine:
        relation = "replace_one"

        def epsilon(self, delta: float) -> float:
            return 0.0

        def describe(self) -> str:
            return "mine"

    with pytest.raises(UsageError, match="of the kind Mine"):
        Ledger(tmp_path / "ledger", 1.0, DELTA).spend("rows", Mine())  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "other", "row", "total", "folder"])
def test_a_damaged_ledger_is_refused_and_gives_nothing_back(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "ledger"
    Ledger(path, 1.0, DELTA).spend("rows", PureDP(0.9))
    _hurt(path, damage)
    with pytest.raises(StoreError, match=r"nothing was released") as caught:
        Ledger(path, 1.0, DELTA).spend("rows", PureDP(0.9))
    assert "--ledger" in str(caught.value)


def _hurt(path: Path, damage: str) -> None:
    if damage in ("row", "total"):
        table = {
            "row": 'spends SET guarantee = \'[{"kind": "Pear"}]\'',
            "total": "total SET value = 'x'",
        }[damage]
        with sqlite3.connect(path) as db:
            db.execute(f"UPDATE {table}")
        db.close()
        return
    data = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    elif damage == "other":
        sqlite3.connect(path).execute("CREATE TABLE pears (x)").connection.close()
    else:
        path.write_bytes(
            {"empty": b"", "text": b"spent nothing\n" * 99, "cut": data[: len(data) // 2]}[damage]
        )


def test_a_lost_ledger_is_not_replaced_while_in_use(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path, 1.0, DELTA)
    path.unlink()
    with pytest.raises(StoreError):
        ledger.spend("rows", PureDP(0.1))
    assert not path.exists()


def test_a_place_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nothing was released"):
        Ledger(tmp_path / "no" / "such" / "folder" / "ledger", 1.0, DELTA)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1.0, 0.1), (math.nan, 0.1), (1.0, 1.0), (1.0, -0.1)]
)
def test_totals_are_checked(tmp_path: Path, epsilon: float, delta: float) -> None:
    with pytest.raises(LeakboundError):
        Ledger(tmp_path / "ledger", epsilon, delta)
    assert not os.listdir(tmp_path)


def test_a_ledger_of_schema_version_1_keeps_what_was_spent(tmp_path: Path) -> None:
    """Written by the code before the names of today: six answers of every kind of guarantee."""
    file = tmp_path / "ledger"
    file.write_bytes((Path(__file__).parents[1] / "golden" / "ledger-1.sqlite").read_bytes())
    ledger = Ledger(file, 50.0, DELTA)
    found = ledger.state("rows")
    assert (found.answers, found.epsilon) == (6, pytest.approx(3.1862411216290667))
    assert ledger.spend("rows", PureDP(0.5)).answers == 7
