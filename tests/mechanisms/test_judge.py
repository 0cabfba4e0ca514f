"""The judge of CL's level L3: it sees every answer, may be another model, and may be blind."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.errors import UsageError
from leakbound.mechanisms import JudgeDefense
from leakbound.models import Counted, Model, Scripted, WithJudge
from leakbound.tasks import Example, Job, Query, Task, Votes

CONTEXT = tuple(Example(f"text {i}", "ab"[i % 2]) for i in range(4))
JOB = Job(CONTEXT, Query("is it there?", ("yes", "no")))
ROWS = tuple(Example(f"a row about number {i}", "ab"[i % 2]) for i in range(20))


def votes(model: Model) -> list[object]:
    return list(JudgeDefense().collect(Task("t"), [JOB], [0], model))


def test_an_answer_of_the_query_is_judged_too() -> None:
    """The first release asked the judge nothing about yes and no: 0 refusals by construction."""
    asked = Counted(Scripted(complete=lambda p: "leak" if 'text "yes"' in p else "yes"))
    assert votes(asked) == [Votes((0, 0, 1))]
    assert asked.calls == 2


def test_another_model_may_judge() -> None:
    answers = Counted(Scripted(complete=lambda p: "yes", name="answers"))
    judge = Counted(Scripted(complete=lambda p: "safe", name="judge"))
    both = WithJudge(answers, judge)
    assert votes(both) == [Votes((1, 0, 0))]
    assert (answers.calls, judge.calls) == (1, 1)
    assert both.fingerprint not in (answers.fingerprint, judge.fingerprint)


@pytest.mark.parametrize("verdict", ["leak", "safe", "fair"])
def test_a_judge_that_refuses_everything_is_no_defense_that_holds(
    verdict: str, tmp_path: Path
) -> None:
    """It is counted what was withheld in both contexts, and a blind judge is told as such."""

    def say(prompt: str) -> str:
        context, query = prompt.rsplit("Input: ", 1)
        return "yes" if query.split('"')[1] in context else "no"

    def judged(prompt: str) -> str:
        return {"fair": "leak" if 'text "yes"' in prompt else "safe"}.get(verdict, verdict)

    both = WithJudge(Scripted(complete=say, name="m"), Scripted(complete=judged, name=verdict))
    spec = make_spec({"mechanism": "judge_defense", "shots": 3, "pairs": 12, "labels": ["a", "b"],
                      "simulations": 0})  # fmt: skip
    record = run_audit(prepare(spec, both, rows=ROWS), tmp_path)[0]
    counts = record.counts["withheld_member"], record.counts["withheld_nonmember"]
    assert counts == {"leak": (12, 12), "safe": (0, 0), "fair": (12, 0)}[verdict]
    code = {one.code: one.sentence for one in record.findings}
    assert ("judge_refuses_all" in code) == (verdict == "leak")
    assert record.verdict != "no_violation"
    if verdict == "leak":
        assert "cannot judge" in str(record)
        assert record.verdict == "inconclusive"


def test_a_question_without_the_answer_is_refused() -> None:
    with pytest.raises(UsageError, match=r"must hold \{output\}"):
        JudgeDefense("Is this a leak?")
