"""PrivateICL: checks are free and blind, payment comes before the model, randomness from the
operating system.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from leakbound.errors import BudgetExhausted, TargetError, UsageError
from leakbound.mechanisms import FewShot, ReportNoisyMax
from leakbound.models import Model, Scripted
from leakbound.privacy import Gaussian
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.systems import SystemMechanism
from leakbound.tasks import Aggregate, Example, Job, Query, Task, Votes

DELTA = 1e-5
TASK = Task("classification", labels=("plain", "odd"))
CANARY = "sesame-7731"
ROWS = tuple(Example(f"{CANARY} row {i}", "plain") for i in range(20))


def make(
    tmp_path: Path, model: Model, budget: float = 1.0, mechanism: Any = None, **options: Any
) -> PrivateICL:
    chosen = mechanism or ReportNoisyMax.calibrated(1.0, DELTA, 10)
    return PrivateICL(
        chosen, ROWS, TASK, model, Ledger(tmp_path / "ledger", budget, DELTA), **options
    )


def plain() -> Scripted:
    return Scripted(complete=lambda prompt: "plain", name="plain")


def test_an_answer_says_what_it_cost(tmp_path: Path) -> None:
    private = make(tmp_path, plain(), 2.0)
    answer = private.answer("what is this")
    assert answer.text in (*TASK.labels, "(no answer)")
    assert (answer.spent, answer.remaining) == (pytest.approx(1.0), pytest.approx(1.0))
    assert private.state.answers == 1
    assert CANARY not in repr(private) + repr(answer)


def test_an_exhausted_budget_asks_the_model_nothing(tmp_path: Path) -> None:
    """Nothing about private rows; after the first refusal, nothing at all."""
    asked: list[str] = []
    private = make(tmp_path, Scripted(complete=lambda prompt: asked.append(prompt) or "plain"))
    private.answer("one")
    for most in (1, 0):
        asked.clear()
        with pytest.raises(BudgetExhausted):
            private.answer("two")
        assert len(asked) == most
        assert not any(CANARY in prompt for prompt in asked)


def test_payment_comes_before_the_model_is_asked(tmp_path: Path) -> None:
    states: list[float] = []
    ledger = Ledger(tmp_path / "ledger", 1.0, DELTA)

    def watch(prompt: str) -> str:
        if CANARY in prompt:
            states.append(ledger.state().epsilon)
        return "plain"

    private = make(tmp_path, Scripted(complete=watch))
    private.answer("one")
    assert states == [pytest.approx(1.0)] * 10
    with pytest.raises(BudgetExhausted):
        private.answer("one")


@pytest.mark.parametrize("query", ["", "  \n", "x" * 1001, "é" * 501, "half \ud800"])
def test_bad_queries_are_refused_for_free(tmp_path: Path, query: str) -> None:
    private = make(tmp_path, plain())
    with pytest.raises(UsageError, match="must"):
        private.answer(query)
    assert private.state.epsilon == 0.0


def test_whether_a_query_is_refused_does_not_depend_on_the_rows(tmp_path: Path) -> None:
    """A window that the private rows nearly fill: refused at the start, never query by query."""
    for window, fits in ((30, False), (600, True)):
        model = Scripted(complete=lambda prompt: "plain", window=window)
        if fits:
            private = make(tmp_path, model, 5.0)
            assert private.check("a " * 500) == Query("a " * 500)
        else:
            with pytest.raises(
                TargetError, match="a query of 1000 bytes and all new tokens may not fit"
            ):
                make(tmp_path, model)


def test_equal_queries_get_independent_noise(tmp_path: Path) -> None:
    votes = Scripted(
        complete=lambda prompt: "plain" if "row 0" in prompt or "row 2" in prompt else "odd"
    )
    seeded = random.Random(1).getrandbits
    private = make(tmp_path, votes, math.inf, ReportNoisyMax(50.0, 10), randbits=seeded)
    assert len({private.answer("same").text for _ in range(60)}) == 3


@dataclass(frozen=True, slots=True)
class Watched(ReportNoisyMax):
    """Keeps the draws it was given."""

    seen: tuple[list[int], ...] = field(default=([],), repr=False)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        self.seen[0].extend(draws)
        return [Votes((10, 0, 0))]


def test_draws_come_from_the_operating_system(tmp_path: Path) -> None:
    """Two of 20 draws of 128 bits are equal with probability below 20**2 / 2 / 2**128 < 1e-36."""
    assert signature(PrivateICL).parameters["randbits"].default is secrets.randbits
    mechanism = Watched(1.0, 10, seen=([],))
    private = make(tmp_path, plain(), math.inf, mechanism)
    for _ in range(20):
        private.answer("same")
    assert len(set(mechanism.seen[0])) == 20
    make(tmp_path, plain(), math.inf, mechanism, randbits=lambda bits: bits).answer("same")
    assert mechanism.seen[0][-1] == 128


def test_the_price_is_that_of_this_task_and_query(tmp_path: Path) -> None:
    @dataclass(frozen=True, slots=True)
    class ByWord(ReportNoisyMax):
        def cost(self, task: Task, query: Query) -> Gaussian:
            return Gaussian(float(len(query.text.split())), 100.0)

    private = make(tmp_path, plain(), math.inf, ByWord(1.0, 10))
    private.answer("three words here")
    assert private.state.epsilon == pytest.approx(Gaussian(3.0, 100.0).epsilon(DELTA))


def test_no_guarantee_needs_an_infinite_budget_from_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--budget inf"):
        make(tmp_path, plain(), 1e9, FewShot())
    assert make(tmp_path, plain(), math.inf, FewShot()).answer("x").spent == math.inf


def test_a_model_that_lacks_what_is_asked_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="needs Complete"):
        make(tmp_path, Scripted(embed=lambda text: [0.0]))


def test_any_callable_can_be_served_at_its_own_price(tmp_path: Path) -> None:
    system = SystemMechanism(
        lambda context, query: f"{len(context)} rows", "mine", Gaussian(1.0, 2.0)
    )
    private = PrivateICL(
        system, ROWS, Task("g"), Scripted(), Ledger(tmp_path / "ledger", 3.0, DELTA)
    )
    answer = private.answer("how many")
    assert (answer.text, answer.spent) == ("20 rows", Gaussian(1.0, 2.0).epsilon(DELTA))


def test_the_budget_follows_the_rows_and_not_the_object(tmp_path: Path) -> None:
    make(tmp_path, plain()).answer("one")
    with pytest.raises(BudgetExhausted):
        make(tmp_path, plain()).answer("one")
