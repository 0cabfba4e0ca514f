"""One run: many canaries in one store, each in or out by a fair coin."""

from __future__ import annotations

import math
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from stores import DISPOSABLE, NearestStore, NoisyStore, PrivateStore, documents

import leakbound
from leakbound.auditing import make_spec
from leakbound.auditing.one_run import prepare_one_run, run_one_run
from leakbound.auditing.prepare.build import Handed
from leakbound.errors import DataError, LeakboundError, StoreError, TargetError, UsageError
from leakbound.privacy import Gaussian
from leakbound.report import page, summary
from leakbound.systems import SystemMechanism
from leakbound.tasks import as_context

ROWS = documents(300)


def run(store: object, out: Path, **parameters: Any) -> leakbound.AuditResult:
    settings = {"claim_for": "run", **parameters.pop("settings", {})}
    given = {"canaries": 60, "epsilon": 2.0, "settings": settings, **parameters}
    return leakbound.audit(ROWS, system=store, design="one_run", out=out, calls=DISPOSABLE, **given)


def test_a_leaky_store_is_built_once_and_found(tmp_path: Path) -> None:
    """The first release builds an index for each of 2n calls, 400 for the same 200 questions."""
    store = NearestStore()
    result = leakbound.audit(
        documents(260), system=store, design="one_run", canaries=200, epsilon=4, out=tmp_path,
        calls=DISPOSABLE, settings={"claim_for": "run"},
    )  # fmt: skip
    assert result.verdict == "violation"
    assert result.bound.method == "one_run"
    assert result.bound.epsilon == pytest.approx(4.187, abs=0.01)
    assert (store.builds, store.asked) == (1, 216)
    assert not store.records  # nothing is left behind
    assert result.counts["model_calls"] == 216
    assert "200 coded canaries" in summary(result, verbose=True)
    assert "one store, which was built once" in page([result])
    assert "holds for one answer" not in page([result])


class Quota(NearestStore):
    """A leaky store whose answers are used up after some questions."""

    def said(self, rows: Any, query: str) -> str:
        return super().said(rows, query) if self.asked <= 20 else "Quota exceeded."


def test_what_a_canary_reads_from_a_file_is_part_of_the_run(tmp_path: Path) -> None:
    """Answers about other facts were reused."""
    file, names = tmp_path / "facts.txt", list[str]()
    facts = [f"Box {at} holds {at * at} lamps." for at in range(20_000)]
    for edited in (facts, [*facts[:150], "Box 150 is empty.", *facts[151:]]):
        file.write_text("\n".join(edited))
        given = {"design": "one_run", "canary": {"kind": "false_fact", "file": str(file)}}
        spec = make_spec({**given, "canaries": 20, "query": "lookup", "claim_for": "run"})
        made = Handed(mechanism=SystemMechanism(NearestStore(), "near", source="1"))
        names.append(prepare_one_run(spec, handed=made, rows=as_context(ROWS)).evidence)
    assert names[0] != names[1]


def test_a_store_that_changes_after_the_first_controls_is_not_called_clean(tmp_path: Path) -> None:
    """Half of the controls are asked about after all canaries."""
    result = run(Quota(), tmp_path, epsilon=8.0, canaries=100)
    assert result.reason == "attack_blind"
    assert result.verdict == "inconclusive"
    leaky = run(NearestStore(), tmp_path / "leaky", canaries=100)
    assert leaky.controls is not None
    assert leaky.controls.late is not None
    assert leaky.controls.late < 0.02


def test_controls_too_few_for_both_ends_support_no_clean_verdict(tmp_path: Path) -> None:
    few = run(Quota(), tmp_path, epsilon=8.0, canaries=100, controls=4)
    assert (few.verdict, few.reason) == ("inconclusive", "attack_blind")
    assert "use --controls 6 or more" in " ".join(few.sentences)


@pytest.mark.parametrize("controls", [0, 1, 3, 6, 7, 9])
@pytest.mark.parametrize("size", [1, 4, 7])
def test_batches_ask_about_each_canary_once_early_controls_first_and_late_ones_last(
    controls: int, size: int
) -> None:
    design = prepared(NearestStore(), canaries=20, controls=controls).design
    asked = [one.index for first in design.batches(size) for one in design.batch(first, size)]
    assert sorted(asked) == [one.index for one in design.every]
    first, last = asked.index(0), asked.index(19)
    assert all(index < 0 for index in asked[:first])
    late = [one for one in design.controls if one.index in asked[last + 1 :]]
    assert len(late) == design.late == 2 * (controls // 2 if controls >= 6 else 0)
    assert 2 * sum(one.planted for one in late) == len(late)


def test_a_private_store_shows_nothing(tmp_path: Path) -> None:
    result = run(PrivateStore(), tmp_path)
    assert result.verdict == "inconclusive"
    assert result.reason == "attack_blind"
    assert result.bound.epsilon == 0


def test_a_claim_for_an_answer_is_composed_over_all_of_them(tmp_path: Path) -> None:
    """A bound of the whole run is never compared with a claim for one answer."""
    result = run(NearestStore(), tmp_path, epsilon=1.0, settings={"claim_for": "answer"})
    assert result.bound.epsilon > 1
    assert result.claim.epsilon == 76  # 60 canaries and 16 controls
    assert (result.verdict, result.reason) == ("inconclusive", "too_few_trials")
    assert "--claim-for run" in result.sentences[0]


def test_a_declared_guarantee_is_composed_and_tested(tmp_path: Path) -> None:
    strong = Gaussian(sensitivity=1.0, sigma=60.0, relation="add_remove")
    result = run(NearestStore(), tmp_path, guarantee=strong, settings={"claim_for": "answer"})
    assert result.verdict == "violation"
    assert "for 76 answers" in result.sentences[0]


@pytest.mark.parametrize(("insertion", "relation"), [("add", "add_remove"),
                                                     ("replace", "replace_one")])  # fmt: skip
def test_the_relation_is_that_of_the_insertion(
    tmp_path: Path, insertion: Any, relation: str
) -> None:
    store = NearestStore()
    result = run(store, tmp_path, insertion=insertion)
    assert result.claim.relation == relation
    planted = result.counts["planted"] + 8  # the controls
    assert store.planted == (planted if insertion == "add" else 76)
    assert result.verdict == "violation"


def prepared(store: object, **keys: object) -> Any:
    spec = make_spec(
        {"design": "one_run", "canaries": 40, "claim_for": "run", "epsilon": 2, **keys}
    )
    mechanism = SystemMechanism(store, "store", source="test", calls=DISPOSABLE)  # type: ignore[arg-type]
    return prepare_one_run(spec, rows=as_context(ROWS), handed=Handed(mechanism=mechanism))


def test_an_interrupted_run_goes_on_and_says_so(tmp_path: Path) -> None:
    whole, _ = run_one_run(prepared(NearestStore()), tmp_path / "whole")
    with pytest.raises(TargetError) as error:
        run_one_run(prepared(NearestStore(fail_at=30)), tmp_path / "parts")
    assert "private text" not in str(error.value)
    store = NearestStore()
    found, folder = run_one_run(prepared(store), tmp_path / "parts")
    assert store.asked == 56 - 24  # three batches of eight were stored
    assert found.bound.epsilon == pytest.approx(whole.bound.epsilon, abs=0.01)
    assert found.counts["builds"] == 2
    assert found.claim.epsilon == 4  # of two builds
    assert "built 2 times" in found.findings[0].sentence
    again, _ = run_one_run(prepared(NearestStore(fail_at=1)), tmp_path / "parts")
    assert again.results() == found.results()  # nothing is asked
    assert leakbound.load_result(folder).results() == found.results()


def test_a_failing_store_is_left_as_it_was(tmp_path: Path) -> None:
    store = NearestStore(fail_at=3)
    with pytest.raises(TargetError):
        run_one_run(prepared(store), tmp_path)
    assert not store.records


@pytest.mark.parametrize("column", ["member", "nonmember"])
def test_an_edited_answer_or_coin_is_found(tmp_path: Path, column: str) -> None:
    _, folder = run_one_run(prepared(NearestStore()), tmp_path)
    with sqlite3.connect(folder / "trials.sqlite") as db:
        db.execute(f"UPDATE evidence SET {column} = (SELECT {column} FROM evidence WHERE pair = 1) "
                   "WHERE pair = 7")  # fmt: skip
        db.execute(f"UPDATE evidence SET {column} = replace({column}, '0', '1') WHERE pair = 7")
    with pytest.raises(StoreError, match="pair 7 was edited"):
        leakbound.load_result(folder)


def test_bounds_cover_a_known_leakage(tmp_path: Path) -> None:
    """Of 12 runs of randomised response, 8 bounds above the truth have a chance below 1e-6."""
    truth, rows, above = 1.0, as_context(documents(40)), 0
    spec = make_spec({"design": "one_run", "canaries": 20, "controls": 2, "query": "lookup"})
    for seed in range(12):
        store = NoisyStore(truth=1 / (1 + math.exp(-truth)), rng=random.Random(seed))
        design = spec.design.model_copy(update={"seed": seed, "batch_pairs": 100})
        one = spec.model_copy(update={"design": design})
        mechanism = SystemMechanism(store, "noisy", source=str(seed), calls=DISPOSABLE)
        ready = prepare_one_run(one, rows=rows, handed=Handed(mechanism=mechanism))
        result, _ = run_one_run(ready, tmp_path)
        above += result.estimates[-1].epsilon > truth
    assert above < 8


@pytest.mark.parametrize(
    ("keys", "error", "says"),
    [
        ({"estimator": "clopper_pearson"}, UsageError, "estimator means nothing"),
        ({"insertion": "append"}, UsageError, "plants whole records"),
        ({"threshold": "best"}, UsageError, "must be a number"),
        ({"canary": {"kind": "given", "text": "x"}}, UsageError, "one record"),
        ({"canaries": 300}, DataError, "316 canaries"),
    ],
)
def test_what_means_nothing_is_refused(
    keys: dict[str, object], error: type[LeakboundError], says: str
) -> None:
    with pytest.raises(error, match=says):
        prepared(NearestStore(), **keys)


def test_a_system_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no canary can be planted"):
        run(lambda context, query: "no", tmp_path)
    with pytest.raises(UsageError, match="is a mechanism"):
        leakbound.audit(ROWS, design="one_run", out=tmp_path)


def test_documents_of_a_file_need_no_label(tmp_path: Path) -> None:
    from leakbound.auditing.prepare.rows import documents_and_task
    from leakbound.auditing.spec.groups import Design

    file = tmp_path / "notes.jsonl"
    file.write_text('{"text": "one"}\n{"text": "two"}\n')
    rows, task = documents_and_task(Design(data=str(file)), None, None)
    assert [(row.input, row.label) for row in rows] == [("one", ""), ("two", "")]
    assert task.name == "documents"
