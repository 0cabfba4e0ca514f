"""The session design: one store, into which the canary of each trial is put and taken out."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stores import DISPOSABLE, NearestSession, NearestStore, PrivateStore, documents

import leakbound
from leakbound.errors import DataError, TargetError, UsageError
from leakbound.report import summary
from leakbound.systems import Reply
from leakbound.tasks import Context, Example

ROWS = documents(120)


def run(store: object, out: Path, **parameters: Any) -> leakbound.AuditResult:
    given = {"pairs": 40, "epsilon": 1.0, "simulations": 100, **parameters}
    return leakbound.audit(ROWS, system=store, design="session", out=out, calls=DISPOSABLE, **given)


@pytest.mark.slow
@pytest.mark.parametrize("insertion", ["add", "replace"])
def test_a_leaky_store_is_found_with_one_build(tmp_path: Path, insertion: Any) -> None:
    store = NearestStore()
    result = run(store, tmp_path, insertion=insertion)
    assert result.verdict == "violation"
    assert (store.builds, store.records) == (1, {})
    relation = {"add": "add_remove", "replace": "replace_one"}[insertion]
    assert result.claim == leakbound.Claim(1.0, 1e-5, relation)  # for one answer
    assert "40 paired trials in one store" in summary(result, verbose=True)


def test_a_private_store_shows_nothing(tmp_path: Path) -> None:
    result = run(PrivateStore(), tmp_path)
    assert (result.verdict, result.reason) == ("inconclusive", "attack_blind")
    assert result.bound.epsilon == 0  # nobody reads the time of an answer


@pytest.mark.slow
def test_an_answer_comes_after_a_pause_with_and_without_a_canary(tmp_path: Path) -> None:
    """Pauses after a canary alone made the next answer slower, and the witness found it: 10 of 14
    audits of a store that tells nothing had a bound above 0. Of 8, more than 5 have one with
    probability below 1e-6 where pauses do not tell contexts apart, as each has one with at most 5 %
    (4.0e-7)."""
    found = [
        run(PrivateStore(), tmp_path / str(seed), pairs=24, seed=seed, channels=("seconds",))
        for seed in range(8)
    ]
    assert sum(one.bound.epsilon > 0 for one in found) <= 5


def test_a_failing_store_is_left_as_it_was(tmp_path: Path) -> None:
    store = NearestStore(fail_at=5)
    with pytest.raises(TargetError):
        run(store, tmp_path)
    assert not store.records


def test_what_cannot_be_planted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="plants whole records"):
        run(NearestStore(), tmp_path, insertion="append")
    with pytest.raises(TargetError, match="no canary can be planted"):
        run(lambda context, query: "no", tmp_path)
    with pytest.raises(DataError, match="documents is 120"):
        run(NearestStore(), tmp_path, settings={"documents": 120})


def test_a_session_says_that_its_bound_is_given_one_build(tmp_path: Path) -> None:
    """Noise that is drawn when a store is built is the same in all trials, and may look like a
    leak: one coin for all answers is epsilon 1 for an answer, and a session rejects 1."""

    class OneCoin(NearestStore):
        flipped = False

        def open(self, context: Any) -> Any:
            self.flipped = random.Random(0).random() < 1 / (1 + math.e)  # epsilon 1
            return super().open(context)

        def said(self, rows: Any, query: str) -> str:
            there = any(str(row.input) in query for row in rows)
            return "no" if there == self.flipped else "yes"

    result = run(OneCoin(), tmp_path, query="lookup")
    assert result.verdict == "violation"
    assert "given this one build of the store" in result.sentences[-1]
    assert "one_build" in {finding.code for finding in result.findings}
    assert summary(result, verbose=True).count("one build of the store") == 1


class Lazy(PrivateStore):
    """Says nothing, and takes new records into its index at the next question."""

    new = False

    def plant(self, record: Example) -> str:
        self.new = True
        return super().plant(record)

    def said(self, rows: Sequence[Example], query: str) -> str:
        if self.new:
            time.sleep(0.02)
        self.new = False
        return super().said(rows, query)


@pytest.mark.slow
def test_the_time_to_take_in_a_record_is_no_leak(tmp_path: Path) -> None:
    """The question after an addition is slower in each canary-in context, in no other."""
    assert run(Lazy(), tmp_path / "whole").bound.epsilon == 0
    named = run(Lazy(), tmp_path / "named", channels=("seconds",))
    assert named.bound.epsilon > 0  # who names the time is told of it


class Failing(PrivateStore):
    """Fails where it holds what it is asked about, and tells nothing else."""

    def said(self, rows: Sequence[Example], query: str) -> str:
        if any(str(one.input)[:20] in query for one in self.records.values()):
            raise TimeoutError
        return super().said(rows, query)


@pytest.mark.parametrize(
    ("pairs", "epsilon"), [(24, 1.0), (60, 2.0), pytest.param(40, 1.0, marks=pytest.mark.slow)]
)
def test_a_leak_by_failures_is_never_clean(tmp_path: Path, pairs: int, epsilon: float) -> None:
    calls = replace(DISPOSABLE, retries=0)
    result = leakbound.audit(
        ROWS, system=Failing(), design="session", out=tmp_path, calls=calls, pairs=pairs,
        epsilon=epsilon, simulations=100, settings={"documents": 20},
    )  # fmt: skip
    assert result.verdict != "no_violation"
    assert result.controls is not None
    assert result.controls.by_replies_alone
    if result.verdict == "inconclusive":
        assert result.reason == "too_few_trials"
        assert "only measurements of whole replies" in " ".join(result.sentences)
    assert "by whole replies, not by the score" in summary(result, verbose=True)
    assert not result.power  # it would be that of a score


class Echoing(PrivateStore):
    """Says what it holds twice, and fails where it holds once what it is asked about."""

    def said(self, rows: Sequence[Example], query: str) -> str:
        held = [str(one.input) for one in self.records.values()]
        there = [one for one in held if one[:20] in query]
        if len(there) == 1:
            raise TimeoutError
        return there[0] if there else super().said(rows, query)


class Apologetic(PrivateStore):
    """Refuses where it holds a record twice, and fails where it holds it once."""

    def said(self, rows: Sequence[Example], query: str) -> str:
        held = [str(one.input) for one in self.records.values() if str(one.input)[:20] in query]
        if len(held) == 1:
            raise TimeoutError
        return "I am sorry, I cannot say." if held else super().said(rows, query)


class Silent(PrivateStore):
    """Answers nothing, and fails where it holds what it is asked about: both are empty texts."""

    def said(self, rows: Sequence[Example], query: str) -> str:
        if any(str(one.input)[:20] in query for one in self.records.values()):
            raise TimeoutError
        return ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Apologetic, Silent])
@pytest.mark.parametrize("pairs", [24, 58])
def test_what_shows_the_control_speaks_for_no_other_reply(
    tmp_path: Path, kind: type[PrivateStore], pairs: int
) -> None:
    """A control that differs in an easier way certifies more than the pairs can."""
    result = leakbound.audit(
        ROWS, system=kind(), design="session", out=tmp_path, pairs=pairs, simulations=100,
        calls=replace(DISPOSABLE, retries=0), settings={"documents": 20},
    )  # fmt: skip
    assert result.verdict != "no_violation"
    assert not result.power


@pytest.mark.slow
def test_an_estimator_that_reads_no_replies_is_told_of_them(tmp_path: Path) -> None:
    result = leakbound.audit(
        ROWS, system=Echoing(), design="session", out=tmp_path, pairs=200, simulations=100,
        calls=replace(DISPOSABLE, retries=0), settings={"documents": 20},
        estimator="clopper_pearson",
    )  # fmt: skip
    assert (result.verdict, result.reason) == ("inconclusive", "too_few_trials")
    assert "audit with --estimator e_process" in " ".join(result.sentences)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [(18, "inconclusive"), (26, "violation"), (100, "violation")],
)
def test_a_score_that_sees_the_control_alone_covers_for_no_failures(
    tmp_path: Path, pairs: int, verdict: str
) -> None:
    """The control canaries stand in many records, and that of a pair in one."""
    result = leakbound.audit(
        ROWS, system=Echoing(), design="session", out=tmp_path, pairs=pairs, simulations=100,
        calls=replace(DISPOSABLE, retries=0), settings={"documents": 20},
    )  # fmt: skip
    assert result.controls is not None
    assert not result.controls.by_replies_alone
    assert result.verdict == verdict
    assert not result.power  # it would be that of a score
    said = " ".join(result.sentences)
    assert ("tell the contexts of the pairs apart better" in said) == (verdict != "violation")
    assert ("read from whole replies" in said) == (verdict == "violation")


@pytest.mark.parametrize(
    "pairs", [18, *(pytest.param(n, marks=pytest.mark.slow) for n in (17, 19))]
)
def test_nor_is_it_against_random_guessing(tmp_path: Path, pairs: int) -> None:
    """A test of both sides has half of the error for each, and so takes more pairs."""
    result = leakbound.audit(
        ROWS, system=Failing(), design="session", out=tmp_path, pairs=pairs, simulations=100,
        claim="random-guessing", calls=replace(DISPOSABLE, retries=0), settings={"documents": 20},
    )  # fmt: skip
    assert result.verdict != "no_violation"
    assert not result.guessing_power


class Logging(NearestStore):
    """Answers with what it holds twice, and logs whether it holds it once."""

    def open(self, context: Context) -> Any:
        return LoggingSession(self, context)


class LoggingSession(NearestSession):
    def ask(self, query: str) -> Reply:
        held = [str(one.input) for one in self.store.records.values()]
        there = [one for one in held if one[:20] in query]
        said = there[0] if len(there) > 1 else "The desk is open."
        return Reply(said, channels={"logs": "hit" if there else "miss"})


@pytest.mark.slow
def test_a_channel_that_is_read_slowly_is_not_covered_by_another(tmp_path: Path) -> None:
    """The score sees the control in the answer, and a witness alone sees it in the logs."""
    result = run(Logging(), tmp_path, channels=("all",), settings={"documents": 20})
    found = {one.name: one for one in result.channels}
    assert found["answer"].controls.seen
    assert found["logs"].controls.by_replies_alone
    assert result.verdict != "no_violation"
