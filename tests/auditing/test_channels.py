"""Audits by channel: each channel apart, all together, and what an audit of the answer misses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbound
from leakbound.errors import TargetError, UsageError
from leakbound.estimators import Claim, Observations, PairedScores, TrialDesign
from leakbound.estimators.e_process import ByChannel, channel_design
from leakbound.estimators.witness import WitnessEvidence
from leakbound.report import page, summary
from leakbound.stats.e_values.anytime import MixedEProcess
from leakbound.tasks import Context
from leakbound.witness import ReplyFacts

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from agent_system import LEAKS, AgentSystem

GIVEN: dict[str, Any] = {
    "query": "recall", "canary": "coded", "shots": 6, "simulations": 0, "state_check": 0.0,
}  # fmt: skip
OWN = ("files", "logs", "memory", "messages", "tool_inputs", "tool_outputs")
NAMES = ("answer", "seconds", *OWN)  # in the order of a result


class Everywhere:
    """Leaks the record that a query begins, in every channel."""

    def answer(self, context: Context, query: str) -> dict[str, object]:
        start = " ".join(query.split()[:5])
        found = next((row.text for row in context if row.text.startswith(start)), "nothing")
        slow = 0.9 if found == "nothing" else 0.1
        return {"text": found, "seconds": slow, "channels": dict.fromkeys(OWN, found)}


class Silent:
    """Names the record that a query begins nowhere but in its logs."""

    def answer(self, context: Context, query: str) -> dict[str, object]:
        found = str(Everywhere().answer(context, query)["text"])
        channels = {"logs": f"read {found} zweifel", "memory": "one question was asked"}
        return {"text": "Please see the handbook.", "channels": channels, "seconds": 0.5}


class Later(Silent):
    """Writes a channel that leaks once it has answered so often."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, context: Context, query: str) -> dict[str, object]:
        self.asked += 1
        found = str(Everywhere().answer(context, query)["text"])
        guarded = found if sum(row.text == found for row in context) > 1 else "nothing"
        trace = {"trace": found} if self.asked > 100 else {}
        return {"text": guarded, "channels": trace, "seconds": 0.5}


@pytest.mark.slow
def test_a_channel_that_appears_after_the_controls_is_not_called_clean(
    rows: Context, tmp_path: Path
) -> None:
    """It was not tested, and the audit said `no_violation`."""
    result = leakbound.audit(
        rows, system=Later(), channels=("all",), pairs=64, epsilon=1, out=tmp_path, **GIVEN
    )
    assert (result.verdict, result.reason) == ("inconclusive", "untested_channels")
    assert "(trace)" in result.sentences[0]


@pytest.fixture(scope="module")
def everywhere(rows: Context, tmp_path_factory: pytest.TempPathFactory) -> leakbound.AuditResult:
    out = tmp_path_factory.mktemp("everywhere")
    return leakbound.audit(
        rows, system=Everywhere(), channels=("all",), pairs=32, epsilon=0.2, out=out, **GIVEN
    )


@pytest.mark.slow
def test_each_channel_has_a_verdict_and_a_bound(everywhere: leakbound.AuditResult) -> None:
    assert tuple(one.name for one in everywhere.channels) == NAMES
    texts = [one for one in everywhere.channels if one.name != "seconds"]  # a witness needs more
    assert {one.verdict for one in texts} == {"violation"}
    assert all((one.bound.epsilon or 0.0) > 0.2 for one in texts)
    assert everywhere.verdict == "violation"
    assert everywhere.decided_by[0] == "by_channel"


@pytest.mark.slow
def test_errors_are_split_over_channels_and_the_mean_rejects_first(
    everywhere: leakbound.AuditResult,
) -> None:
    assert {one.bound.confidence for one in everywhere.channels} == {1 - (1 - 0.95) / 8}
    assert everywhere.bound.confidence == 0.95
    assert everywhere.e_values is not None
    together, alone = everywhere.e_values.rejected_at, everywhere.channels[0].rejected_at
    assert together is not None
    assert alone is not None
    assert together <= alone <= 2  # a code quoted once decides


@pytest.mark.slow
def test_the_mean_rejects_first_where_what_is_quoted_may_be_guessed(
    rows: Context, tmp_path: Path
) -> None:
    given = GIVEN | {"canary": "natural", "pairs": 32, "epsilon": 0.2, "out": tmp_path}
    found = leakbound.audit(rows, system=Everywhere(), channels=("all",), **given)
    assert found.e_values is not None
    together, alone = found.e_values.rejected_at, found.channels[0].rejected_at
    assert together is not None
    assert alone is not None
    assert together < alone  # seven leak


def test_reports_have_a_table_by_channel(everywhere: leakbound.AuditResult) -> None:
    text, html = summary(everywhere, verbose=True), page([everywhere])
    for name in NAMES:
        assert f"  {name} " in text
        assert f">{name}</td>" in html
    assert "99.38% confidence, so that all hold together with 95%" in text
    assert "By channel" in html


def test_a_result_keeps_its_channels(everywhere: leakbound.AuditResult) -> None:
    again = leakbound.AuditResult.model_validate_json(everywhere.to_json())
    assert again.channels == everywhere.channels


@pytest.mark.slow
def test_an_audit_of_the_answer_misses_what_the_logs_tell(rows: Context, tmp_path: Path) -> None:
    """On the first release there is no other audit: it reads answers and metadata."""
    small = {**GIVEN, "pairs": 24, "epsilon": 0.2, "out": tmp_path, "store_text": "canary_only"}
    answer = leakbound.audit(rows, system=Silent(), channels=("answer",), **small)
    assert (answer.verdict, answer.reason) == ("inconclusive", "attack_blind")
    assert answer.bound.epsilon == 0.0
    some = leakbound.audit(rows, system=Silent(), channels=("answer", "logs", "memory"), **small)
    assert some.verdict == "violation"
    assert [one.verdict for one in some.channels] == ["inconclusive", "violation", "inconclusive"]
    (finding,) = [one for one in some.findings if one.code == "unseen_channels"]
    assert "canary in answer, memory:" in finding.sentence
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"zweifel" not in kept  # of a text that was logged, the code of the canary alone


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_in_one_channel_of_an_agent_is_found(leak: str, tmp_path: Path) -> None:
    small = {**GIVEN, "pairs": 60, "epsilon": 0.2, "out": tmp_path}
    result = leakbound.audit(system=AgentSystem(leak), channels=("all",), **small)
    assert result.verdict == "violation"
    assert [one.name for one in result.channels if one.verdict == "violation"] == [leak]
    answer = leakbound.audit(system=AgentSystem(leak), channels=("answer",), **small)
    assert (answer.verdict == "violation") == (leak == "answer")


def test_the_seconds_of_a_cache_give_a_record_away(tmp_path: Path) -> None:
    """The agent's answers say nothing; what it embedded before, it need not embed again."""
    given = {**GIVEN, "pairs": 40, "epsilon": 0.2, "out": tmp_path, "stop_when_rejected": True}
    cached = AgentSystem("seconds", rate=1.0)
    assert leakbound.audit(system=cached, channels=("seconds",), **given).verdict == "violation"


@pytest.mark.slow
def test_an_agent_that_leaks_nowhere_is_not_accused(tmp_path: Path) -> None:
    result = leakbound.audit(
        system=AgentSystem(), channels=("all",), pairs=16, epsilon=0.2, out=tmp_path, **GIVEN
    )
    assert tuple(one.name for one in result.channels) == NAMES
    assert {one.verdict for one in result.channels} == {"inconclusive"}
    assert (result.verdict, result.reason) == ("inconclusive", "attack_blind")


@pytest.mark.parametrize("alike", [True, False], ids=["one text in all", "apart"])
@pytest.mark.parametrize(
    ("audits", "most"), [(40, 12), pytest.param(400, 44, marks=pytest.mark.slow)]
)
def test_channels_together_raise_no_more_false_alarms_than_one(
    audits: int, most: int, alike: bool
) -> None:
    """Four channels at the very claim (randomised response), audits of 30 pairs at 95 %: more
    rejections than `most` have a probability below 1e-6 if the error is 5 %."""
    design = TrialDesign(
        Claim(1.0, 0.0), pairs=30, replies=True, channels=("answer", "a", "b", "c")
    )
    rng = np.random.default_rng(18)
    rates = np.array([np.e / (1 + np.e), 1 / (1 + np.e)])
    together = apart = 0
    for _ in range(audits):
        drawn = rng.random((1 if alike else 4, 2, 30)) < rates[:, None]
        observer = ByChannel().begin(design)
        every = {name: shown(drawn[0 if alike else i]) for i, name in enumerate(design.channels)}
        observer.observe(Observations(0, 30, channels=every))
        together += observer.rejected
        apart += any(part.rejected for part in observer.parts.values())
    assert apart <= together <= most


def shown(drawn: np.ndarray) -> Observations:
    """What one channel shows: whether the canary is in it, and no reply that a witness reads."""
    scores = PairedScores(*drawn.astype(float))
    each = PairedScores(scores.member[:, None], scores.nonmember[:, None])
    replies = (((None, None), ""),) * len(scores)
    return Observations(
        0, len(scores), trial_scores=scores, simulated_scores=each, reply_pairs=replies
    )


def test_what_one_perfect_channel_certifies_is_the_limit() -> None:
    design = TrialDesign(Claim(1.0, 1e-5), pairs=40, channels=("answer", "logs"))
    assert channel_design(design).confidence == pytest.approx(0.975)
    alone = TrialDesign(Claim(1.0, 1e-5), pairs=40, replies=True)
    largest = [ByChannel().largest_certifiable(one, 40).epsilon for one in (design, alone)]
    assert 1.0 < largest[0] < largest[1]
    assert (ByChannel().pairs_needed(design) or 0) > (ByChannel().pairs_needed(alone) or 0)


@pytest.mark.parametrize(
    ("more", "why"),
    [({"mechanism": "few_shot", "system": None}, "few_shot is a mechanism, which has its answer"),
     ({"estimator": "clopper_pearson"}, "the estimator is clopper_pearson"),
     ({"channels": ("all",), "controls": 0}, "controls is 0"),
     ({"store_text": "none"}, "store_text is none")],
    ids=["mechanism", "estimator", "no controls", "no text"],
)  # fmt: skip
def test_what_cannot_be_tested_by_channel_is_refused_before_any_call(
    more: dict[str, Any], why: str, rows: Context
) -> None:
    given: dict[str, Any] = {**GIVEN, "system": Silent(), "channels": ("logs",), **more}
    with pytest.raises(UsageError, match=why):
        leakbound.plan(rows, pairs=8, **given)


def test_a_channel_that_no_reply_has_is_an_error(rows: Context, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no control reply of the system has the channel 'log'"):
        leakbound.audit(rows, system=Silent(), channels=("log",), pairs=8, out=tmp_path, **GIVEN)


def test_a_claim_that_replies_alone_reject_is_exceeded_by_the_bound() -> None:
    """On earlier code the e-value rejected the claim of 1, and the bound stayed at 0.99."""
    design = TrialDesign(Claim(1.0, 1e-5), pairs=60, replies=True)
    witness = WitnessEvidence(design, design.tested, 1.0)
    process = MixedEProcess(design.tested, {"witness": (1.0, witness)})
    while not process.rejected:
        witness.observe((ReplyFacts("I cannot answer that."), ReplyFacts("It is 12.")), "")
        assert process.pairs < 60
    assert (process.epsilon_lower_bound(1e-5).epsilon or 0.0) > 1.0
