"""Several answers: releases against the composed claim, and a server with a ledger, sound and
forgetful.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.attacks import Attack, Hex, Membership, PredictedMember
from leakbound.auditing.design.pairs import design
from leakbound.errors import BudgetExhausted
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted
from leakbound.privacy import ApproxDP, Guarantee
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import BudgetState, Ledger, RecordName, Spend
from leakbound.stats import EProcess
from leakbound.tasks import Context, Example, Query, Task, parse_answer

ROWS = tuple(Example(f"note {i}", "ab"[i % 2]) for i in range(40))
TASK = Task("t", ("a", "b"))
MODEL = Scripted(complete=lambda p: "yes" if p.count(p.split('"')[-2]) > 1 else "no")
ATTACK = Attack(Hex(), Membership(), PredictedMember())
TOTAL = ApproxDP(2.0, 1e-5)


class Forgetful(Ledger):
    """Writes nothing down: every answer is the first."""

    def spend(
        self,
        records: Sequence[str],
        guarantee: Guarantee,
        dataset: str = "",
        names: RecordName = "id",
    ) -> Spend:
        state = BudgetState(0.0, self.epsilon, self.delta, 0)
        return Spend(state, (True,) * len(records))


def server(kind: type[Ledger], folder: Path) -> Any:
    """Two partitions, so that a vote can turn the answer; one answer costs the whole total."""
    made, seeded = itertools.count(), random.Random(5)
    mechanism = ReportNoisyMax.calibrated(2.0, 1e-5, 2)

    def make(context: Context) -> Any:
        name = "none" if kind is Forgetful else next(made)  # a file that nothing is written to
        ledger = kind(folder / f"{name}.sqlite", 2.0, 1e-5)
        private = PrivateICL(mechanism, context, TASK, MODEL, ledger, randbits=seeded.getrandbits)
        return lambda query: private.answer(query).text

    return make


def answers_of(service: Any, query: Query, most: int) -> list[str]:
    """Answers until the service refuses."""
    found: list[str] = []
    for _ in range(most):
        try:
            found.append(service(query))
        except BudgetExhausted:
            break
    return found


def audited(make: Any, pairs: int = 60, queries: int = 100) -> tuple[float, float]:
    """(bound on epsilon of all answers together, mean number of answers) of fresh services.

    A trial's score is the share of its answers that speak for the canary. Ends at a rejection.
    """
    levels = (np.arange(queries) + 0.5) / queries
    process, answered = EProcess(TOTAL, deltas=(TOTAL.delta,)), 0
    bound = 0.0
    for pair in design(ROWS, TASK, ATTACK, pairs, 2, 0):
        shares = []
        for job in (pair.member, pair.nonmember):
            said = answers_of(make(job.context), job.query, queries)
            known = TASK.answers(job.query)
            yes = [parse_answer(text, known) == known.index(pair.asked.member) for text in said]
            shares.append(float(np.mean(yes)) if yes else 0.5)
            answered += len(said)
        process.update(*(np.asarray(share >= levels, float) for share in shares))
        bound = process.epsilon_lower_bound(TOTAL.delta).epsilon or 0.0
        if bound > TOTAL.value:
            break
    return bound, answered / (2 * process.pairs)


@pytest.mark.slow
def test_a_server_that_forgets_to_charge_is_rejected_and_a_correct_one_is_not(
    tmp_path: Path,
) -> None:
    broken, answered = audited(server(Forgetful, tmp_path / "a"))
    assert broken > TOTAL.value
    assert answered == 100
    correct, answered = audited(server(Ledger, tmp_path / "b"))
    assert correct <= TOTAL.value
    assert answered == 1


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()


@pytest.mark.slow
def test_more_answers_are_held_against_the_composed_claim(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "mechanism": "report_noisy_max",
        "epsilon": 1,
        "simulations": 20_000,
        "pairs": 60,
        "settings": {"labels": "odd,plain"},
    }
    one = leakbound.audit(rows, model=leaky, out=tmp_path, **options)
    nine = leakbound.audit(rows, model=leaky, out=tmp_path, answers=9, **options)
    assert nine.claim.epsilon == 9
    assert nine.claim.delta == pytest.approx(9e-5)
    assert nine.guarantee.mu == pytest.approx(3 * (one.guarantee.mu or 0))
    assert 2 * (one.mu_bound.mu or 0) < (nine.mu_bound.mu or 0) <= (nine.guarantee.mu or 0)
    assert nine.verdict == "no_violation"
    assert nine.counts["model_calls"] == one.counts["model_calls"]


def test_correlated_noise_over_answers_is_refuted(
    rows: Context, leaky: Scripted, tmp_path: Path, monkeypatch: Any
) -> None:
    """Noise that is drawn too small for its sigma shows all the sooner in the mean of several
    answers.
    """
    sound = ReportNoisyMax.release

    def weak(self: ReportNoisyMax, aggregate: Any, draws: int, rng: np.random.Generator) -> Any:
        return sound(
            ReportNoisyMax(self.sigma / math.sqrt(2), self.partitions), aggregate, draws, rng
        )

    monkeypatch.setattr(ReportNoisyMax, "release", weak)
    options: dict[str, Any] = {
        "mechanism": "report_noisy_max",
        "epsilon": 4,
        "simulations": 20_000,
        "pairs": 60,
        "settings": {"labels": "odd,plain"},
    }
    assert (
        leakbound.audit(rows, model=leaky, out=tmp_path, answers=4, **options).verdict
        == "violation"
    )


def test_a_query_is_asked_until_it_is_refused(tmp_path: Path) -> None:
    service = server(Ledger, tmp_path / "a")(ROWS[:4])
    assert service(Query('Is "x" there?', ("yes", "no"))) in ("yes", "no", "(no answer)")
