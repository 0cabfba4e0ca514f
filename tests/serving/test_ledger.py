"""The ledger: never over its total, whoever races, crashes or tampers."""

from __future__ import annotations

import math
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.errors import BudgetExhausted, LeakboundError, StoreError, UsageError
from leakbound.privacy import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    Guarantee,
    NonPrivate,
    PureDP,
    Subsampled,
    calibrate_gaussian,
    compose,
    gdp_epsilon,
)
from leakbound.serving.ledger import BudgetState, Ledger, affordable_answers
from leakbound.serving.ledger.inspection import report
from leakbound.serving.ledger.units import (
    MU_SQUARED,
    PURE,
    RHO,
    UNLIMITED,
    Unit,
    choose_unit,
    compose_epsilon,
    divergence,
    equal_answers,
    share,
    to_json,
    unit_named,
    whole_answers,
)

DELTA = 1e-5
ROUNDING = 1 + 2e-9


def pay(ledger: Ledger, guarantee: Guarantee) -> BudgetState:
    """One answer from one record."""
    return ledger.spend(["rows"], guarantee).state


def test_a_claim_pays_for_exactly_one_answer_calibrated_to_it(tmp_path: Path) -> None:
    for i, epsilon in enumerate((0.1, 1.0, 3.0, 8.0)):
        ledger = Ledger(tmp_path / f"{i}", epsilon, DELTA)
        price = Gaussian(math.sqrt(2), calibrate_gaussian(epsilon, DELTA, math.sqrt(2)))
        assert pay(ledger, price).remaining <= 1e-9
        with pytest.raises(BudgetExhausted, match="1 so far cost epsilon"):
            pay(ledger, price)
        assert ledger.state().answers == 1


@pytest.mark.parametrize("answers", [1, 3, 10])
def test_the_rounding_of_a_budget_is_no_more_than_the_guarantee_states(
    tmp_path: Path, answers: int
) -> None:
    """Equal parts of a budget are all granted; a part of 1e-9 more at most, in exact sums."""
    assert "a part of 1e-9 of it, and by 2e-16 of it for each" in " ".join(
        str(Ledger.__doc__).split()
    )
    for more, times in ((0.0, answers), (9e-10, answers), (2e-9, answers - 1)):
        price = 1.0 / answers * (1 + more)
        ledger, spent = Ledger(tmp_path / f"{more}", 1.0, 0.0), Fraction(0)
        for _ in range(times):
            ledger.spend(["rows"], PureDP(price))
            spent += Fraction(price)
        with pytest.raises(BudgetExhausted):
            ledger.spend(["rows"], PureDP(price))
        assert spent <= 1 + Fraction(1e-9) + times * Fraction(2e-16)


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


@settings(max_examples=15, deadline=None)
@given(st.lists(NESTED, min_size=1, max_size=6), st.floats(0.2, 6.0))
def test_what_was_granted_never_exceeds_the_total(wanted: list[Guarantee], total: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger", total, DELTA)
        granted: list[Guarantee] = []
        for guarantee in wanted:
            try:
                spent = pay(ledger, guarantee)
            except (BudgetExhausted, UsageError):  # the first answer's unit may not take others
                continue
            granted += leaves(guarantee)
            assert spent.epsilon <= total * ROUNDING
            assert spent.remaining <= max(0.0, total - spent.epsilon)
        approximate = [part for part in granted if isinstance(part, ApproxDP)]
        rest = [part for part in granted if not isinstance(part, ApproxDP)]
        room = DELTA - sum(part.delta for part in approximate)
        epsilon = sum(part.value for part in approximate)
        epsilon += compose(rest).epsilon(max(room, 0.0)) if rest else 0.0
        assert room >= -1e-18
        assert epsilon <= total * ROUNDING


@pytest.mark.parametrize(
    ("price", "unit", "answers"),
    [
        (Gaussian(0.1, 1.0), "mu^2", 25),
        (PureDP(0.25), "pure epsilon", 8),
        (BoundedRange(0.1), "rho", 86),
        (ZCDP(0.01), "rho", 10),
        (RDP(12.0, 0.1), "renyi:12.0", 12),
        (ApproxDP(0.5, 2e-6), "share:2.0,1e-05", 4),
        (ApproxDP(0.1, 4e-6), "share:2.0,1e-05", 2),
    ],
)
def test_a_ledger_counts_in_the_unit_that_buys_most(
    tmp_path: Path, price: Guarantee, unit: str, answers: int
) -> None:
    """The numbers are those of exact composition: one more answer would exceed epsilon 2."""
    assert affordable_answers(price, 2.0, DELTA) == answers
    ledger = Ledger(tmp_path / "ledger", 2.0, DELTA)
    assert ledger.answers_left(price) == answers
    pay(ledger, price)
    assert (report(tmp_path / "ledger").unit, ledger.answers_left(price)) == (unit, answers - 1)
    assert f"buys {answers} answers" in ledger.describe(price)
    if not isinstance(price, ApproxDP):  # whose delta `compose` shares out evenly
        assert compose([price] * answers).epsilon(DELTA) <= 2.0 * ROUNDING
        assert compose([price] * (answers + 1)).epsilon(DELTA) > 2.0


@pytest.mark.parametrize(
    ("unit", "guarantee", "price"),
    [
        (MU_SQUARED, Gaussian(2.0, 4.0), 0.25),
        (MU_SQUARED, ZCDP(0.1), None),
        (PURE, PureDP(0.3), 0.3),
        (PURE, BoundedRange(0.3), 0.3),
        (PURE, Gaussian(1.0, 1.0), None),
        (RHO, Gaussian(1.0, 2.0), 0.125),
        (RHO, PureDP(0.4), 0.08),  # a value of epsilon is epsilon^2/2-zCDP
        (RHO, BoundedRange(0.4), 0.02),
        (RHO, ZCDP(0.3), 0.3),
        (RHO, DiscreteGaussian(2.0, 2), 0.25),
        (RHO, ApproxDP(0.1, 1e-6), None),
        (divergence(4.0), RDP(8.0, 0.1), 0.1),
        (divergence(4.0), RDP(4.0, 0.1), 0.1),
        (divergence(4.0), RDP(3.0, 0.1), None),
        (divergence(4.0), ZCDP(0.05), 0.2),
        (share(2.0, 1e-5), PureDP(0.5), 0.25),
        (share(2.0, 1e-5), ApproxDP(0.5, 4e-6), 0.4),
        (share(2.0, 1e-5), ApproxDP(1.5, 1e-6), 0.75),
        (share(2.0, 1e-5), ZCDP(0.1), None),
        (UNLIMITED, NonPrivate(), 1.0),
    ],
)
def test_a_unit_prices_what_it_can_express(
    unit: Unit, guarantee: Guarantee, price: float | None
) -> None:
    """Prices add over parts; one part without a price leaves the whole without one."""
    assert unit.price(guarantee) == (None if price is None else pytest.approx(price))
    assert unit_named(unit.name).price(guarantee) == unit.price(guarantee)
    if unit is UNLIMITED:
        return
    twice = unit.price(compose([guarantee, guarantee]))
    assert twice == (None if price is None else pytest.approx(2 * price))
    assert unit.price(compose([guarantee, NonPrivate()])) is None
    assert unit.capacity(0.0, DELTA) == (1.0 if unit.kind == "share" else 0.0)
    for budget in (0.5, 2.0) if unit.kind != "share" else ():
        spent = unit.capacity(budget, DELTA)
        assert spent == 0.0 or unit.epsilon(spent, DELTA) == pytest.approx(budget)
        assert spent > 0.0 or (unit.kind, budget) == ("renyi", 0.5)  # too little at this order
        assert unit.epsilon(0.0, DELTA) == 0.0


def test_a_unit_is_chosen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes up to a second, and the ledger is asked for every answer."""
    first = Ledger(tmp_path / "ledger", 2.0, DELTA)
    pay(first, PureDP(0.1))
    monkeypatch.setattr("leakbound.serving.ledger.ledger.choose_unit", None)
    for ledger in (first, Ledger(tmp_path / "ledger", 2.0, DELTA)):
        pay(ledger, PureDP(0.1))
    assert report(tmp_path / "ledger").answers == 3


def test_divergences_are_counted_at_the_smallest_order() -> None:
    parts = compose([RDP(64.0, 0.05), RDP(32.0, 0.05)])
    assert choose_unit(parts, 2.0, DELTA).name == "renyi:32.0"
    assert MU_SQUARED.capacity(1.0, 0.0) == 0.0
    assert choose_unit(PureDP(1.0), 0.0, 0.0).name.startswith("equal answers")


@pytest.mark.parametrize(
    ("capacity", "spent", "price", "left"),
    [(1.0, 0.25, 0.25, 3), (1.0, 0.0, 1 / 3, 3), (1.0, 0.9, 0.25, 0), (1.0, 2.0, 0.25, 0),
     (1.0, 0.0, 0.0, None), (math.inf, 5.0, 0.1, None)],
)  # fmt: skip
def test_what_is_left_pays_for_whole_answers(
    capacity: float, spent: float, price: float, left: int | None
) -> None:
    assert whole_answers(capacity, spent, price) == left


@pytest.mark.parametrize("epsilon", [0.01, 0.25, 2.0, 9.0])
def test_equal_answers_are_those_that_the_budget_composes(epsilon: float) -> None:
    """The largest number, but for one in 128."""
    price = compose([Gaussian(0.1, 1.0), ApproxDP(0.1, 1e-9)])
    unit = equal_answers(to_json(price))
    found = unit.capacity(epsilon, DELTA)
    assert compose_epsilon([(price, int(found))], DELTA) <= epsilon * ROUNDING
    more = int(found) + max(1, int(found) // 64)
    assert compose_epsilon([(price, more)], DELTA) > epsilon
    assert unit.price(price) == 1.0
    assert unit.price(PureDP(0.1)) is None
    assert equal_answers(to_json(PureDP(1e-9))).capacity(epsilon, DELTA) == 4096  # and no more


def test_what_no_unit_can_express_is_counted_in_equal_answers(tmp_path: Path) -> None:
    ledger, price = (
        Ledger(tmp_path / "ledger", 2.0, DELTA),
        compose([Gaussian(0.2, 1.0), PureDP(0.1)]),
    )
    assert ledger.answers_left(compose([Gaussian(0.1, 1.0), ApproxDP(0.1, 1e-7)])) == 13
    pay(ledger, compose([Gaussian(0.1, 1.0), ApproxDP(0.1, 1e-7)]))
    with pytest.raises(UsageError, match="counts in equal answers, which its first answer chose"):
        pay(ledger, price)
    with pytest.raises(UsageError, match="counts in equal answers"):
        ledger.check(price)


def test_parts_of_nested_compositions_share_delta(tmp_path: Path) -> None:
    """Two compositions of k Gaussians cost what 2k Gaussians cost: delta is not paid out twice."""
    ledger = Ledger(tmp_path / "ledger", 50.0, DELTA)
    three = compose([Gaussian(1.0, 2.0)] * 3)
    pay(ledger, three)
    assert pay(ledger, three).epsilon == pytest.approx(gdp_epsilon(0.5 * math.sqrt(6), DELTA))


@pytest.mark.parametrize("guarantee", [Gaussian(1.0, 1e6), PureDP(1e-9), RDP(8.0, 1e-13)])
def test_equal_answers_are_counted_and_not_listed(guarantee: Guarantee) -> None:
    """Without a limit of the budget, each answer composed a list of all earlier ones."""
    assert 0.0 < compose_epsilon([(guarantee, 10**12)], DELTA) < math.inf
    assert 0.0 < compose_epsilon([(guarantee, 10**12), (PureDP(0.1), 10**12)], DELTA) < math.inf
    few = compose_epsilon([(guarantee, 30)], DELTA)
    assert few == pytest.approx(compose([guarantee] * 30).epsilon(DELTA), rel=1e-12)


@pytest.mark.slow
def test_subsampled_answers_add_their_steps(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    ledger = Ledger(tmp_path / "ledger", 2.0, DELTA)
    for _ in range(2):
        spent = pay(ledger, Subsampled(2.0, 0.1, 5))
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
        pay(ledger, kind)
        assert ledger.state().epsilon == kind.epsilon(DELTA)


def test_every_record_has_its_own_budget_and_survives_reopening(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    Ledger(path, 1.0, DELTA).spend(["one"], PureDP(0.75), "a")
    again = Ledger(path, 1.0, DELTA)
    assert again.state("a").remaining == pytest.approx(0.25)
    assert again.state("b").epsilon == 0.0
    assert again.spend(["one", "two"], PureDP(1.0), "b").takes_part == (False, True)
    assert again.state("b").remaining == 0.0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger", "ledger.key"]


@pytest.mark.process
def test_a_process_that_dies_between_spend_and_release_has_lost_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    code = (
        "import os, sys; from leakbound.privacy import PureDP; from leakbound.serving.ledger "
        "import Ledger;"
        "Ledger(sys.argv[1], 1.0, 1e-5).spend(['rows'], PureDP(0.6)); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9
    ledger = Ledger(path, 1.0, DELTA)
    assert ledger.state().epsilon == 0.6
    with pytest.raises(BudgetExhausted):
        pay(ledger, PureDP(0.6))


@pytest.mark.process
def test_a_process_that_dies_before_the_commit_leaves_the_ledger_usable(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    pay(Ledger(path, 1.0, DELTA), PureDP(0.4))
    code = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); db.execute('DELETE FROM leakbound_accounts'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == 9
    assert pay(Ledger(path, 1.0, DELTA), PureDP(0.4)).epsilon == 0.8


def test_relations_do_not_mix(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", 5.0, DELTA)
    pay(ledger, PureDP(0.5, "add_remove"))
    for refuse in (ledger.check, lambda guarantee: pay(ledger, guarantee)):
        with pytest.raises(
            UsageError, match="add_remove, and this guarantee is stated under replace_one"
        ):
            refuse(PureDP(0.5))
    assert ledger.state().epsilon == 0.5


def test_no_guarantee_needs_an_infinite_total(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--budget inf"):
        pay(Ledger(tmp_path / "a", 1e6, DELTA), compose([PureDP(1.0), NonPrivate()]))
    ledger = Ledger(tmp_path / "b", math.inf, DELTA)
    assert pay(ledger, PureDP(1.0)).epsilon == 1.0
    assert pay(ledger, NonPrivate()).epsilon == math.inf
    assert ledger.state().remaining == math.inf


def test_the_delta_of_the_total_is_spent_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", 100.0, DELTA)
    pay(ledger, ApproxDP(0.1, DELTA))
    with pytest.raises(BudgetExhausted):
        pay(ledger, ApproxDP(0.1, DELTA))


def test_a_foreign_kind_of_guarantee_is_refused(tmp_path: Path) -> None:
    class Mine:
        relation = "replace_one"

        def epsilon(self, delta: float) -> float:
            return 0.0

        def describe(self) -> str:
            return "mine"

    with pytest.raises(UsageError, match="of the kind Mine"):
        pay(Ledger(tmp_path / "ledger", 1.0, DELTA), Mine())  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "other", "row", "total", "folder"])
def test_a_damaged_ledger_is_refused_and_gives_nothing_back(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "ledger"
    pay(Ledger(path, 1.0, DELTA), PureDP(0.9))
    _hurt(path, damage)
    with pytest.raises(StoreError, match=r"nothing was released") as caught:
        pay(Ledger(path, 1.0, DELTA), PureDP(0.9))
    assert "--ledger" in str(caught.value)


def _hurt(path: Path, damage: str) -> None:
    if damage in ("row", "total"):
        table = {
            "row": "leakbound_datasets SET spent = 'pear'",
            "total": "leakbound_total SET value = 'x'",
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
        pay(ledger, PureDP(0.1))
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
