"""What one run costs and can show, its looks and stored answers, and who takes or refuses it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from stores import DISPOSABLE, NearestStore, documents

import leakbound
from leakbound.auditing import make_spec
from leakbound.auditing.one_run import PreparedOneRun, prepare_one_run, run_one_run
from leakbound.auditing.prepare.build import Handed
from leakbound.cli.main import main
from leakbound.errors import StoreError, UsageError
from leakbound.gating.gate import Gate, check_gate
from leakbound.stats import one_run
from leakbound.systems import SystemMechanism
from leakbound.tasks import as_context

ROWS = documents(200)
STORE = f"python:{Path(__file__).parents[2]}/examples/note_store.py:NoteStore"
RUN = {"design": "one_run", "canaries": 40, "claim_for": "run", "epsilon": 2}


def prepared(store: NearestStore, rows: Any = ROWS, **keys: object) -> PreparedOneRun:
    mechanism = SystemMechanism(store, "store", source="test", calls=DISPOSABLE)
    handed = Handed(mechanism=mechanism)
    return prepare_one_run(make_spec({**RUN, **keys}), rows=as_context(rows), handed=handed)


# -- plan


def test_a_plan_says_what_one_run_asks_and_can_show() -> None:
    store = NearestStore()
    how: dict[str, Any] = {"system": store, "design": "one_run", "canaries": 100}
    found = leakbound.plan(ROWS, **how, epsilon=3, settings={"claim_for": "run"})
    assert (found.pairs, found.model_calls, found.builds) == (100, 116, 1)
    assert found.largest_epsilon == one_run(100, 100, 100, 1e-5).epsilon
    assert found.pairs_needed == 62
    chances = [power.chance for _, power in found.power]
    assert chances[0] <= 0.05  # a true claim is rejected so often
    assert chances == sorted(chances)
    weak = leakbound.plan(ROWS, **how, epsilon=3, assume_hit=0.8, settings={"claim_for": "run"})
    assert weak.power[-1][1].chance < chances[-1]
    assert (store.builds, store.asked) == (0, 0)


def test_a_claim_for_an_answer_outgrows_every_number_of_canaries() -> None:
    found = leakbound.plan(ROWS, system=NearestStore(), design="one_run", canaries=100, epsilon=1)
    assert found.pairs_needed is None
    assert "116 of the 116 answers" in found.tested
    assert {power.chance for _, power in found.power} == {0.0}
    small = leakbound.plan(ROWS, system=NearestStore(), design="one_run", canaries=60, epsilon=0.01)
    assert small.pairs_needed is not None  # .76 for the 76 answers of the run


def test_guesses_by_rank_certify_less_and_have_no_known_power() -> None:
    every, half = (
        leakbound.plan(ROWS, system=NearestStore(), design="one_run", canaries=60, epsilon=2,
                       threshold=threshold, settings={"claim_for": "run"})
        for threshold in (None, "rank:0.5")
    )  # fmt: skip
    assert half.largest_epsilon < every.largest_epsilon
    assert half.power == ()
    assert every.pairs_needed is not None
    assert half.pairs_needed is not None
    assert half.pairs_needed > every.pairs_needed


def test_the_command_plans_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "--system", STORE, "--design", "one_run", "--canaries", "60"]
    with pytest.raises(SystemExit):
        main(asked)
    short = capsys.readouterr().out
    assert short.startswith("? PLAN   ")
    assert "76 calls · 60 canaries · price unknown" in short
    with pytest.raises(SystemExit) as ended:
        main([*asked, "-v"])
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert "60 canaries in one store, which is built once; 76 questions" in out
    assert "use --design session for it, or --claim-for run" in out
    assert "no number of canaries is enough for a perfect attack" in out


# -- looks and stored answers


def test_another_threshold_or_claim_asks_nothing_again(tmp_path: Path) -> None:
    store = NearestStore()
    first, _ = run_one_run(prepared(store), tmp_path)
    asked = store.asked
    again, _ = run_one_run(prepared(store, threshold=0.3, confidence=0.9), tmp_path)
    assert (store.asked, store.builds) == (asked, 1)
    assert (first.counts["looks"], again.counts["looks"]) == (0, 1)
    assert again.counts["model_calls"] == first.counts["model_calls"]
    assert again.stored_on is not None
    assert "same canaries before" in again.warnings[0]
    assert not first.warnings
    same, _ = run_one_run(prepared(store), tmp_path)
    assert same.results() == first.results()
    replayed, _ = run_one_run(prepared(store, epsilon=1), tmp_path, replay=True)
    assert replayed.counts["looks"] == 2


def test_another_query_or_unknown_store_is_asked(tmp_path: Path) -> None:
    store = NearestStore()
    run_one_run(prepared(store), tmp_path)
    other, _ = run_one_run(prepared(store, query="lookup"), tmp_path)
    assert store.builds == 2
    assert other.counts["looks"] == 0
    with pytest.raises(StoreError, match="--replay asks nothing"):
        run_one_run(prepared(store, seed=1), tmp_path, replay=True)
    with pytest.raises(StoreError, match="--replay asks nothing"):
        run_one_run(prepared(store, epsilon=1), tmp_path, replay=True, reuse=False)


def test_the_number_of_canaries_is_fixed_before_any_result(tmp_path: Path) -> None:
    store = NearestStore()
    run_one_run(prepared(store), tmp_path)
    asked = store.asked
    with pytest.raises(UsageError, match=r"it is 60 here, .* from 40 of these canaries"):
        run_one_run(prepared(store, canaries=60), tmp_path)
    assert store.asked == asked
    run_one_run(prepared(store, canaries=60, seed=1), tmp_path)


# -- repeated rows


def test_repeated_documents_are_counted_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [*documents(120), *documents(60)]  # the same sixty again
    with caplog.at_level(logging.WARNING, "leakbound.data"):
        found = prepared(NearestStore(), rows)
    assert "60 of 180 rows repeat an earlier row" in caplog.text
    assert "w1" not in caplog.text
    assert found.warnings == ()  # a code makes each canary another record


def test_canaries_that_were_there_before_are_told(tmp_path: Path) -> None:
    rows = [*documents(120), *documents(10)]
    for seed in range(9):  # two canaries that are the same record are refused
        try:
            ready = prepared(NearestStore(), rows, canary="natural", query="lookup", seed=seed,
                             canaries=20)  # fmt: skip
        except UsageError:
            continue
        if ready.warnings:
            break
    result, _ = run_one_run(ready, tmp_path)
    assert result.warnings[-1] == ready.warnings[0]
    assert "of 20 canaries repeat a document" in ready.warnings[0]


# -- who takes one run, and who refuses it


def test_sweeps_refuse_one_run_before_any_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("sweep", "--grid", "epsilon=1,2", "--system", STORE, "--design", "one_run")
    with pytest.raises(SystemExit) as ended:
        main([*command, "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert "a one_run design has no paired trials" in capsys.readouterr().err
    assert not list((tmp_path / "out").glob("*/trials.sqlite"))


def test_a_gate_holds_a_bound_of_a_run_against_a_limit_for_a_run(tmp_path: Path) -> None:
    whole, _ = run_one_run(prepared(NearestStore(), epsilon=3), tmp_path / "run")
    assert check_gate(whole, Gate(3.0)).outcome == "inconclusive"  # 40 canaries show at most 2.57
    assert check_gate(whole, Gate(2.0)).outcome == "violation"
    each, _ = run_one_run(prepared(NearestStore(), claim_for="answer"), tmp_path / "answer")
    found = check_gate(each, Gate(2.0))  # for an answer; the bound of 2.57 is of 56
    assert found.outcome == "inconclusive"
    assert "is that of all 56 answers" in found.why
    assert leakbound.gate(each).outcome == "inconclusive"


def test_a_gate_reads_the_power_of_one_run(tmp_path: Path) -> None:
    quiet = prepared(NearestStore(), epsilon=1, assume_hit=0.95, query="lookup")
    result, _ = run_one_run(quiet, tmp_path)
    assert dict(result.power)[4.0] > 0.9
    assert dict(result.power)[1.25] < 0.5
