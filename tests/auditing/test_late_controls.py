"""Controls are asked again after the last pair: does the attack still see what it saw at first?"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from stores import DISPOSABLE, NearestStore, documents

import leakbound
from leakbound.auditing import AuditResult, load_result, make_spec, prepare, run_audit
from leakbound.auditing.collect.collect import Batches, CollectionPlan, run_serial
from leakbound.auditing.design.pairs import LATE
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.auditing.observe.one_pass import OnePass
from leakbound.auditing.plan import plan
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.shards import _require_late, merge, run_shard
from leakbound.auditing.store.run_store import PriorResults, RunStore
from leakbound.errors import StoreError, TargetError
from leakbound.models import (
    Answers,
    Cached,
    Complete,
    Counted,
    Distinct,
    Endpoint,
    Model,
    Scripted,
    Unopened,
    WithEmbedder,
    WithJudge,
    open_model,
)
from leakbound.report import summary
from leakbound.systems import SystemMechanism
from leakbound.tasks import Context, Example

CONTROLS, PAIRS = 8, 40
FIRST = 4 * CONTROLS  # answers to controls before the first pair, half of them with one canary
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


@pytest.mark.parametrize("answers", [FIRST, FIRST + 6, FIRST + 3 * PAIRS])
@pytest.mark.parametrize("then", ["no", "Quota exceeded."])
def test_a_system_that_changes_after_the_controls_is_not_called_clean(
    rows: Context, tmp_path: Path, answers: int, then: str
) -> None:
    """It was `no_violation`, and `gate` passed."""
    result = audited(Quota(answers, then), rows, tmp_path)
    assert result.verdict != "no_violation"
    if result.verdict == "inconclusive":
        assert any(sentence.startswith(LOST) for sentence in result.sentences)
        assert "no longer after the last pair" in summary(result, verbose=True)


def guarded(context: Context, query: str) -> str:
    """Shows what stands more than once; of a single record, randomised response."""
    copies, coin = sum(example.text in query for example in context), zlib.crc32(query.encode()) % 4
    return "yes" if copies > 1 or bool(copies) == bool(coin) else "no"


@pytest.mark.parametrize("design", ["paired", "session"])
def test_a_system_that_stays_as_it_is_is_asked_as_often_as_planned(
    rows: Context, tmp_path: Path, design: Any
) -> None:
    system: Any = Quota(1 << 20)
    data = rows
    if design == "session":
        system, data = NearestStore(), tuple(Example(*row) for row in documents(120))
    given = {"pairs": PAIRS, "shots": 4, "design": design, "simulations": 0}
    mechanism = SystemMechanism(system, calls=DISPOSABLE)
    prepared = prepare(make_spec(given), rows=data, handed=Handed(mechanism=mechanism))
    result, folder = run_audit(prepared, tmp_path)
    assert plan(prepared).model_calls == result.counts["model_calls"] == system.asked
    assert result.controls is not None
    assert result.controls.late == result.controls.combined
    assert load_result(folder) == result


@pytest.mark.slow
def test_what_is_seen_early_and_late_may_be_called_clean(rows: Context, tmp_path: Path) -> None:
    result = audited(guarded, rows, tmp_path, epsilon=2.0)
    assert result.verdict == "no_violation"
    assert "; after the last pair, p = " in summary(result, verbose=True)


class Remote(Scripted):
    """A model behind a server, which refuses everybody once it has answered so often."""

    may_change = True

    def __init__(self, model: Model, answers: int, then: str) -> None:
        super().__init__(complete=self.said, name="remote")
        self.model, self.left, self.then, self.asked = model, answers, then, 0

    def said(self, prompt: str) -> str:
        self.asked += 1
        return self.model.answer([Complete(prompt)])[0] if self.asked <= self.left else self.then


@pytest.mark.parametrize("then", ["no", "I cannot help with that."])
def test_a_model_behind_a_server_that_changes_after_the_controls_is_not_called_clean(
    rows: Context, leaky: Scripted, tmp_path: Path, then: str
) -> None:
    """It was `no_violation`: late controls were for systems only."""
    asked = {"pairs": PAIRS, "shots": 4, "mechanism": "few_shot", "simulations": 0}
    prepared = prepare(make_spec(asked), Remote(leaky, FIRST, then), rows=rows)
    result, _ = run_audit(prepared, tmp_path)
    assert result.verdict == "inconclusive"
    assert any(sentence.startswith(LOST) for sentence in result.sentences)


def test_a_model_behind_a_server_is_asked_as_often_as_planned(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """Runs that reuse its answers ask further controls after the pairs that they add."""
    model = Remote(leaky, 1 << 20, "")
    asked = {"shots": 4, "mechanism": "few_shot", "simulations": 0, "batch_pairs": 4}
    first = prepare(make_spec({**asked, "pairs": 8}), model, rows=rows)
    found, _ = run_audit(first, tmp_path)
    assert found.controls is not None
    assert found.controls.late == found.controls.p_value
    assert model.asked == plan(first).model_calls == found.counts["model_calls"]
    more = prepare(make_spec({**asked, "pairs": 16}), model, rows=rows)
    result, folder = run_audit(more, tmp_path)
    assert len(RunStore(folder, more.manifest).late_controls()) == 2 * CONTROLS
    assert model.asked == FIRST + 2 * (16 + 2 * CONTROLS)
    assert load_result(folder) == result


def test_late_controls_are_asked_past_the_cache_where_pairs_were_asked(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """A cache answered both the first and the last controls of an endpoint that refuses by now."""
    pytest.importorskip("cryptography")
    answers = Answers(tmp_path / "cache")
    asked = {"shots": 4, "mechanism": "few_shot", "simulations": 0}
    calls = FIRST + 2 * (4 + CONTROLS)
    for pairs, left in ((4, 1 << 20), (PAIRS, 0)):
        model = Remote(leaky, left, "no")
        prepared = prepare(make_spec({**asked, "pairs": pairs}), Cached(model, answers), rows=rows)
        result, _ = run_audit(prepared, tmp_path / str(pairs))
    assert (result.verdict, result.reason) == ("inconclusive", "stateful_system")
    assert model.asked == 2 * (PAIRS - 4) + 2 * CONTROLS
    again = Remote(leaky, 1 << 20, "")
    prepared = prepare(make_spec({**asked, "pairs": 4}), Cached(again, answers), rows=rows)
    found, _ = run_audit(prepared, tmp_path / "again")
    assert (found.counts["model_calls"], again.asked) == (calls, 0)


def test_late_controls_are_not_read_from_a_cache_after_a_crash(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """Killed after its last pair, an audit took the last controls of an earlier one."""
    pytest.importorskip("cryptography")
    answers = Answers(tmp_path / "cache")
    asked = {"shots": 4, "mechanism": "few_shot", "simulations": 0, "pairs": 8}
    first = prepare(make_spec(asked), Cached(Remote(leaky, 1 << 20, ""), answers), rows=rows)
    run_audit(first, tmp_path / "whole")

    def killed(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
        return run_serial(questions, model, [first for first in batches if first > -LATE])

    gone = Remote(leaky, 0, "no")
    prepared = prepare(make_spec(asked), Cached(gone, answers), rows=rows)
    run_shard(prepared, (1, 1), tmp_path / "cut", ask=killed)
    result, _ = run_audit(prepared, tmp_path / "cut")
    assert (result.reason, gone.asked) == ("stateful_system", 2 * CONTROLS)
    assert result.sentences[0].startswith(LOST)
    unopened = Cached(Unopened(gone.name, gone.fingerprint, may_change=True), answers)
    again = prepare(make_spec(asked), unopened, rows=rows)
    run_shard(again, (1, 1), tmp_path / "replayed", ask=killed)
    with pytest.raises(TargetError, match="16 answers of remote are not kept"):
        run_audit(again, tmp_path / "replayed")


def without_late(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
    """Killed before the controls after the last pair."""
    return run_serial(questions, model, [first for first in batches if first > -LATE])


@pytest.mark.parametrize("shard", [(1, 1), (1, 2)])
def test_late_controls_of_a_smaller_run_say_nothing_of_pairs_that_were_added(
    rows: Context, leaky: Scripted, tmp_path: Path, shard: tuple[int, int]
) -> None:
    """Resumed after its last pair, a run took those of the run that it had begun with."""
    asked = {"shots": 4, "mechanism": "few_shot", "simulations": 0, "batch_pairs": 4}
    run_audit(
        prepare(make_spec({**asked, "pairs": 4}), Remote(leaky, 1 << 20, ""), rows=rows), tmp_path
    )
    gone = Remote(leaky, 0, "no")
    many = prepare(make_spec({**asked, "pairs": PAIRS}), gone, rows=rows)
    folder = run_shard(many, shard, tmp_path, ask=without_late)
    pairs = gone.asked
    with pytest.raises(StoreError, match="the controls after its last pair are missing"):
        merge_with(many, folder)
    run_shard(many, shard, tmp_path)
    assert gone.asked == pairs + 2 * CONTROLS
    if shard == (1, 1):
        assert run_audit(many, tmp_path)[0].reason == "stateful_system"


def merge_with(prepared: Any, folder: Path) -> None:
    """What `merge` asks of a folder."""
    _require_late(CollectionPlan.of(prepared), RunStore(folder, prepared.manifest))


def test_late_controls_of_a_run_that_began_with_two_others_are_its_own(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """A part of a killed run, and the late controls of a smaller one, were taken for a whole."""
    asked = {"shots": 4, "mechanism": "few_shot", "simulations": 0, "batch_pairs": 4}
    first = prepare(make_spec({**asked, "pairs": 4}), Remote(leaky, 1 << 20, ""), rows=rows)
    run_audit(first, tmp_path)
    gone = Remote(leaky, 0, "no")
    many = prepare(make_spec({**asked, "pairs": PAIRS}), gone, rows=rows)
    run_shard(many, (1, 1), tmp_path, ask=without_late)
    before = gone.asked
    few = prepare(make_spec({**asked, "pairs": 20}), gone, rows=rows)
    result, _ = run_audit(few, tmp_path)
    assert (result.reason, gone.asked - before) == ("stateful_system", 2 * CONTROLS)


def test_a_cache_answers_late_controls_only_with_what_came_after_its_pairs(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """All pairs were in the cache, and late controls of an earlier, smaller audit."""
    pytest.importorskip("cryptography")
    answers = Answers(tmp_path / "cache")
    asked = {"shots": 4, "mechanism": "few_shot", "simulations": 0}
    few = make_spec({**asked, "pairs": 4})
    run_audit(prepare(few, Cached(Remote(leaky, 1 << 20, ""), answers), rows=rows), tmp_path / "a")
    gone = Remote(leaky, 0, "no")
    many = make_spec({**asked, "pairs": PAIRS})
    cut = prepare(many, Cached(gone, answers), rows=rows)
    run_shard(cut, (1, 1), tmp_path / "b", ask=without_late)
    unopened = Cached(Unopened(gone.name, gone.fingerprint, may_change=True), answers)
    with pytest.raises(TargetError, match="are not kept"):
        run_audit(prepare(many, unopened, rows=rows), tmp_path / "c")
    before = gone.asked
    result, _ = run_audit(prepare(many, Cached(gone, answers), rows=rows), tmp_path / "d")
    assert (result.reason, gone.asked - before) == ("stateful_system", 2 * CONTROLS)
    again, _ = run_audit(prepare(many, Cached(gone, answers), rows=rows), tmp_path / "e")
    assert (again.results(), gone.asked - before) == (result.results(), 2 * CONTROLS)


def test_answers_without_the_last_controls_are_not_called_clean(
    rows: Context, tmp_path: Path
) -> None:
    """A log that ends before them looked as if nothing had changed."""
    given = {"pairs": PAIRS, "shots": 4, "simulations": 0}
    handed = Handed(mechanism=SystemMechanism(Quota(FIRST)))
    prepared = prepare(make_spec(given), rows=rows, handed=handed)
    folder = run_shard(prepared, (1, 1), tmp_path, ask=without_late)
    store = RunStore(folder, prepared.manifest)
    seen = OnePass(prepared, store, CollectionPlan.of(prepared), PriorResults({}))
    seen()
    assert seen.controls().late == 1.0


def test_embeddings_that_pairs_share_are_read_from_a_cache(rows: Context, tmp_path: Path) -> None:
    """A finished audit asked 45 calls again each time, and could not be replayed."""
    pytest.importorskip("cryptography")

    class Embedding(Scripted):
        may_change = True

        def __init__(self) -> None:
            super().__init__(complete=self.said, embed=self.vector, name="remote")
            self.asked = 0

        def said(self, prompt: str) -> str:
            self.asked += 1
            return f"{prompt[-30:]} {len(prompt) % 7}"

        def vector(self, text: str) -> list[float]:
            self.asked += 1
            return [byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()[:8]]

    answers = Answers(tmp_path / "cache")
    spec = make_spec({
        "shots": 4, "mechanism": "embedding_mean", "mechanism.partitions": 4, "simulations": 0,
        "pairs": 6, "epsilon": 2.0, "labels": sorted({row.label for row in rows}),
    })  # fmt: skip
    first, again = Embedding(), Embedding()
    found, _ = run_audit(prepare(spec, Cached(first, answers), rows=rows), tmp_path / "a")
    same, _ = run_audit(prepare(spec, Cached(again, answers), rows=rows), tmp_path / "b")
    assert (same.results(), again.asked) == (found.results(), 0)
    unopened = Cached(Unopened(first.name, first.fingerprint, may_change=True), answers)
    assert run_audit(prepare(spec, unopened, rows=rows), tmp_path / "c")[0].results() == (
        found.results()
    )


def test_another_test_does_not_make_up_for_the_one_that_saw_the_control() -> None:
    """Labels in a refusal told contexts full of one record apart, and no single record."""
    early = ControlCheck(8, 7.8e-5, witness=0.0081)
    assert not early.followed_by([ControlCheck(8, 1.0, witness=0.0081)]).seen_late
    assert early.followed_by([ControlCheck(8, 0.01, witness=1.0)]).seen_late
    better = ControlCheck(8, 0.02, witness=0.0005)
    assert better.followed_by([ControlCheck(8, 0.2, witness=0.0005)]).seen_late
    blind = ControlCheck(8, 0.6, witness=0.0081)
    assert blind.followed_by([ControlCheck(8, 0.6, witness=0.01)]).seen_late
    assert not blind.followed_by([ControlCheck(8, 0.01, witness=0.5)]).seen_late


def test_shards_number_their_late_controls_apart(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    """A shard that reused a smaller run took the numbers of the next one: they were not joined."""
    model, asked = Remote(leaky, 1 << 20, ""), {"shots": 4, "mechanism": "few_shot"}
    few, many = (
        prepare(make_spec({**asked, "pairs": pairs, "batch_pairs": 4}), model, rows=rows)
        for pairs in (8, 16)
    )
    run_shard(few, (1, 2), tmp_path / "1")
    one, two = run_shard(many, (1, 2), tmp_path / "1"), run_shard(many, (2, 2), tmp_path / "2")
    late = [
        {row.pair // LATE for row in RunStore(folder, many.manifest).late_controls()}
        for folder in (one, two)
    ]
    assert late[0].isdisjoint(late[1])
    assert len(late[0]) == 2


def test_models_say_whether_they_may_change(leaky: Scripted) -> None:
    endpoint = open_model("openai/m", endpoint=Endpoint(("http://127.0.0.1:9/v1",)))
    assert endpoint.may_change
    assert Counted(Distinct(endpoint)).may_change
    assert not leaky.may_change
    assert not Counted(leaky).may_change
    assert WithJudge(leaky, endpoint).may_change
    assert WithEmbedder(endpoint, leaky).may_change


def test_a_model_in_this_process_is_asked_no_later_controls(
    rows: Context, leaky: Scripted, tmp_path: Path
) -> None:
    prepared = prepare(make_spec({"pairs": 8, "shots": 4}), leaky, rows=rows)
    assert not CollectionPlan.of(prepared).late_batches()


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


@pytest.mark.slow
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
