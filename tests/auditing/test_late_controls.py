"""Controls are asked again after the last pair: does the attack still see what it saw at first?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stores import NearestStore, documents

import leakbound
from leakbound.auditing import AuditResult, load_result, make_spec, prepare, run_audit
from leakbound.auditing.build import Handed
from leakbound.auditing.chain import LATE
from leakbound.auditing.collect import Batches, CollectionPlan, run_serial
from leakbound.auditing.controls import ControlCheck
from leakbound.auditing.merge import merge
from leakbound.auditing.plan import plan
from leakbound.auditing.run import collection_plan, run_shard
from leakbound.auditing.store import RunStore
from leakbound.errors import StoreError
from leakbound.models import Model, Scripted
from leakbound.report import summary
from leakbound.systems import SystemMechanism
from leakbound.tasks import Context, Example

CONTROLS, PAIRS = 8, 40
LOST = "the attack saw the canary at the beginning and no longer at the end"


class Quota:
    """Leaks for so many answers; then it says something else to everybody."""

    stateful = True

    def __init__(self, answers: int, then: str = "no") -> None:
        self.left, self.then, self.asked = answers, then, 0

    def __call__(self, context: Context, query: str) -> str:
        self.asked += 1
        if self.asked > self.left:
            return self.then
        return "yes" if any(example.text in query for example in context) else "no"


def audited(system: Any, rows: Context, out: Path, **values: Any) -> AuditResult:
    given = {"pairs": PAIRS, "shots": 4, "epsilon": 1.0, **values}
    return leakbound.audit(rows, system=system, out=out, simulations=0, **given)


@pytest.mark.parametrize("answers", [2 * CONTROLS, 2 * CONTROLS + 6, 2 * CONTROLS + 3 * PAIRS])
@pytest.mark.parametrize("then", ["no", "Quota exceeded."])
def test_a_system_that_changes_after_the_controls_is_not_called_clean(
    rows: Context, tmp_path: Path, answers: int, then: str
) -> None:
    """It was `no_violation`, and `gate` passed."""
    result = audited(Quota(answers, then), rows, tmp_path)
    assert result.verdict != "no_violation"
    if result.verdict == "inconclusive":
        assert any(sentence.startswith(LOST) for sentence in result.sentences)
        assert "no longer after the last pair" in summary(result)


def guarded(context: Context, query: str) -> str:
    """Shows what stands in its context more than once, and nothing of a single record."""
    return "yes" if sum(example.text in query for example in context) > 1 else "no"


@pytest.mark.parametrize("design", ["paired", "session"])
def test_a_system_that_stays_as_it_is_is_asked_as_often_as_planned(
    rows: Context, tmp_path: Path, design: Any
) -> None:
    system: Any = Quota(1 << 20)
    data = rows
    if design == "session":
        system, data = NearestStore(), tuple(Example(*row) for row in documents(120))
    given = {"pairs": PAIRS, "shots": 4, "design": design, "simulations": 0}
    mechanism = SystemMechanism(system)
    prepared = prepare(make_spec(given), rows=data, handed=Handed(mechanism=mechanism))
    result, folder = run_audit(prepared, tmp_path)
    assert plan(prepared).model_calls == result.counts["model_calls"] == system.asked
    assert result.controls is not None
    assert result.controls.late == result.controls.combined
    assert load_result(folder) == result


def test_what_is_seen_early_and_late_may_be_called_clean(rows: Context, tmp_path: Path) -> None:
    result = audited(guarded, rows, tmp_path)
    assert result.verdict == "no_violation"
    assert "and again after the last pair" in summary(result)


def test_a_model_is_asked_no_later_controls(rows: Context, leaky: Scripted, tmp_path: Path) -> None:
    """Each of its requests holds the whole prompt."""
    prepared = prepare(make_spec({"pairs": 8, "shots": 4}), leaky, rows=rows)
    assert not collection_plan(prepared).late_batches()


def test_an_audit_that_ends_early_asks_none(rows: Context, tmp_path: Path) -> None:
    given = {"pairs": 60, "shots": 4, "epsilon": 0.5}
    known = Handed(mechanism=SystemMechanism(Quota(1 << 20)))
    early = prepare(make_spec({**given, "stop_when_rejected": True}), rows=rows, handed=known)
    alone, folder = run_audit(early, tmp_path / "alone")
    assert (alone.verdict, alone.counts["pairs"] < 60) == ("violation", True)
    assert not RunStore(folder, early.manifest).late_controls()
    assert load_result(folder) == alone


SYSTEM = """
from pathlib import Path

def answer(context, query):
    spent = Path(__file__).with_name("spent").exists()
    return "yes" if any(row.text in query for row in context) and not spent else "no"
"""


def sharded(folder: Path, rows: Context) -> Any:
    (folder / "system.py").write_text(SYSTEM)
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps({"input": row.text, "label": row.label}) + "\n" for row in rows)
    )
    given = {"data": str(folder / "rows.jsonl"), "system": f"python:{folder / 'system.py'}:answer"}
    return prepare(make_spec({**given, "pairs": 12, "shots": 4, "batch_pairs": 2}))


def test_every_shard_asks_them_after_its_last_pair(rows: Context, tmp_path: Path) -> None:
    made = sharded(tmp_path, rows)
    whole, _ = run_audit(made, tmp_path / "whole")
    one = run_shard(made, (1, 2), tmp_path / "1")
    two = run_shard(made, (2, 2), tmp_path / "2")
    assert merge([one, two], tmp_path / "merged")[0].results() == whole.results()
    assert run_audit(made, tmp_path / "merged")[0].results() == whole.results()

    def spent(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        yield from run_serial(questions, model, batches)
        (tmp_path / "spent").touch()

    late = run_shard(made, (1, 2), tmp_path / "spent-1", ask=spent)
    found = merge([late, two], tmp_path / "spent-merged")[0]
    assert found.controls is not None
    assert (found.controls.seen, found.controls.seen_late) == (True, False)


def test_a_shard_without_them_is_not_whole(rows: Context, tmp_path: Path) -> None:
    def killed(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        return run_serial(questions, model, [first for first in batches if first > -LATE])

    made = sharded(tmp_path, rows)
    one = run_shard(made, (1, 2), tmp_path / "1")
    two = run_shard(made, (2, 2), tmp_path / "2", ask=killed)
    with pytest.raises(StoreError, match=r"shard 2/2 was not collected to its end"):
        merge([one, two], tmp_path / "merged")
    run_shard(made, (2, 2), tmp_path / "2")
    assert merge([one, two], tmp_path / "merged")[0].counts["pairs"] == 12


def test_a_shard_that_became_a_whole_run_is_followed_by_others(
    rows: Context, tmp_path: Path
) -> None:
    """Those after the pairs of the shard show nothing of the pairs after them."""
    made = sharded(tmp_path, rows)
    run_shard(made, (1, 2), tmp_path / "out")
    result, folder = run_audit(made, tmp_path / "out")
    assert len(RunStore(folder, made.manifest).late_controls()) == 2 * CONTROLS
    assert result.results() == run_audit(made, tmp_path / "whole")[0].results()


def test_shards_that_see_something_each_make_up_for_few_controls_and_a_silent_one_does_not() -> (
    None
):
    """A system that answers partly at random is not called changed for being asked in shards."""
    early = ControlCheck(8, 0.001)
    unsure = [ControlCheck(8, p) for p in (0.02, 0.01, 0.08, 0.06)]
    assert early.followed_by(unsure).seen_late
    assert not early.followed_by([*unsure, ControlCheck(8, 1.0)]).seen_late
    assert not early.followed_by(unsure[2:3]).seen_late
    sure = [ControlCheck(8, p) for p in (0.02, 0.01)]
    assert early.followed_by(sure).late == 0.02
