"""A sweep asks the model once for whatever differs in noise or statistics alone, and never twice."""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.auditing import make_spec, prepare
from leakbound.errors import TargetError, UsageError
from leakbound.sweeping import load_sweep
from leakbound.sweeping.record import SweepRecord

EPSILONS, ESTIMATORS = [1, 2, 4, 8], ["e_process", "clopper_pearson", "joint_votes"]


def test_twelve_points_make_the_calls_of_one(lab: Any, tmp_path: Any) -> None:
    one = type(lab)(tmp_path / "one", lab.base["data"])
    one.run({"epsilon": [1]})
    sweep = lab.sweep({"epsilon": EPSILONS, "estimator": ESTIMATORS})
    record = sweep.run()
    assert lab.model.calls == one.model.calls == sweep.asked == record.calls > 0
    assert record.calls_apart == 12 * one.model.calls
    assert lab.opened == 1
    assert [(p.changes["epsilon"], p.changes["estimator"]) for p in record.points] == [
        (e, by) for e in EPSILONS for by in ESTIMATORS
    ]


def test_every_point_says_what_its_own_audit_would(lab: Any, tmp_path: Any) -> None:
    other = type(lab)(tmp_path / "other", lab.base["data"])
    record = lab.run({"epsilon": [1, 8], "estimator": ["e_process", "joint_votes"]})
    apart = [
        other.run(
            {"epsilon": [p.changes["epsilon"]], "estimator": [p.changes["estimator"]]}
        ).points[0]
        for p in record.points
    ]
    assert [point.model_dump(exclude={"changes"}) for point in record.points] == [
        point.model_dump(exclude={"changes"}) for point in apart
    ]


def test_what_changes_a_question_is_asked_for_itself(lab: Any) -> None:
    record = lab.run({"partitions": [2, 3], "epsilon": [1, 4]})
    assert len({point.evidence for point in record.points}) == 2
    assert (
        lab.model.calls
        == record.calls
        == sum(p.model_calls for p in record.points if p.changes["epsilon"] == 1)
    )


def test_fewer_pairs_are_part_of_more(lab: Any) -> None:
    record = lab.run({"pairs": [8, 24, 16]})
    assert lab.model.calls == record.calls == record.points[1].model_calls


def test_points_that_stop_early_ask_at_most_what_the_longest_does(lab: Any) -> None:
    stopping = {"mechanism": "few_shot", "stop_when_rejected": True, "pairs": 40}
    record = lab.run({"epsilon": [0.1, 1, 3], "delta": [1e-5, 1e-3]}, stopping)
    assert len({point.pairs for point in record.points}) > 1
    assert lab.model.calls == record.calls


@pytest.mark.parametrize(
    ("mechanism", "attack", "shared"),
    [
        ("synthetic_shots", "membership", False),
        ("product_of_experts", "membership", True),
        ("product_of_experts", "repeat", False),
        ("bounded_cid", "repeat", False),
        ("embedding_mean", "repeat", True),
    ],
)
def test_noise_that_is_drawn_while_collecting_is_never_shared(
    mechanism: str, attack: str, shared: bool, pocket: Any
) -> None:
    specs = [
        make_spec({"mechanism": mechanism, "attack": attack, "epsilon": e, "pairs": 1, "shots": 10})
        for e in (1, 8)
    ]
    one, other = (prepare(spec, pocket).evidence for spec in specs)
    assert (one == other) is shared


def test_the_same_sweep_again_asks_nothing_and_says_the_same(lab: Any) -> None:
    first = lab.run({"epsilon": EPSILONS}, queries=5, repeats=2)
    asked = lab.model.calls
    assert asked == first.calls
    again = lab.sweep({"epsilon": EPSILONS}, queries=5, repeats=2)
    assert again.run().to_json() == first.to_json()
    assert (again.asked, lab.model.calls) == (0, asked)
    assert load_sweep(lab.out) == first


def test_an_interrupted_sweep_keeps_its_points_and_goes_on(lab: Any, tmp_path: Any) -> None:
    sweep = lab.sweep({"partitions": [1, 2, 3]}, queries=4)
    answer, left = lab.model.model.answer, [100]

    def until(requests: Any) -> Any:
        left[0] -= len(requests)
        if left[0] < 0:
            raise KeyboardInterrupt
        return answer(requests)

    lab.model.model.answer = until
    with pytest.raises(KeyboardInterrupt):
        sweep.run()
    partly = load_sweep(lab.out)
    assert 0 < len(partly.points) < 3
    assert {one.why for one in partly.unmade} == {"not reached"}
    lab.model.model.answer = answer
    whole = lab.run({"partitions": [1, 2, 3]}, queries=4)
    fresh = type(lab)(tmp_path / "fresh", lab.base["data"]).run(
        {"partitions": [1, 2, 3]}, queries=4
    )
    assert whole.to_json() == fresh.to_json()


def test_invalid_points_are_all_named_before_the_first_call(lab: Any) -> None:
    grid = {
        "partitions": [3, 7],
        "estimator": ["e_process", "joint_votes"],
        "attack": ["membership", "repeat"],
    }
    with pytest.raises(UsageError) as refused:
        lab.sweep(grid)
    text = str(refused.value)
    assert "7 partitions need at least as many examples, and shots is 6" in text
    assert "report_noisy_max chooses among given answers" in text
    assert "--skip-invalid" in text
    assert lab.model.calls == 0
    record = lab.run(grid, skip_invalid=True)
    assert len(record.points) == 2
    assert {one.why for one in record.unmade} == {"refused"}
    assert len(record.points) + len(record.unmade) == 8


def test_nothing_valid_is_refused_even_when_skipping(lab: Any) -> None:
    with pytest.raises(UsageError, match="Did you mean 'epsilon'"):
        lab.sweep({"epsilom": [1, 2]}, skip_invalid=True)


def test_a_point_that_fails_loses_no_other(lab: Any) -> None:
    answer = lab.model.model.answer

    def failing(requests: Any) -> Any:
        if any("shows nothing" in str(ask.prompt) for ask in requests):
            raise TargetError("the server is gone.")
        return answer(requests)

    lab.model.model.answer = failing
    canaries = {"canary_text": ["a plain text", "a text that shows nothing"]}
    sweep = lab.sweep(canaries, {"canary": "given", "canary_label": "odd"})
    record = sweep.run()
    assert len(record.points) == 1
    assert [(one.why, one.reason) for one in record.unmade] == [("failed", "the server is gone.")]
    assert [type(error) for error in sweep.errors] == [TargetError]


def test_two_models_are_never_open_at_once(lab: Any) -> None:
    lab.run({"epsilon": [1, 2], "model": ["pocket", "hf/other"]})
    assert lab.opened <= 4


def test_utility_is_collected_once_and_lies_between_its_references(lab: Any) -> None:
    record = lab.run({"epsilon": [0.1, 1, 8], "estimator": ["e_process", "joint_votes"]}, queries=6)
    used = [point.utility for point in record.points if point.utility is not None]
    assert len(used) == 6
    assert len({(u.collection, u.held_out, u.floor, u.ceiling) for u in used}) == 1
    assert [u.value for u in used[::2]] == [u.value for u in used[1::2]]
    assert (used[0].calls, used[0].reference_calls) == (6 * 3, 6 * 2)
    assert lab.model.calls == record.calls


def test_utility_without_noise_is_the_share_of_right_answers(lab: Any) -> None:
    record = lab.run({"epsilon": [100]}, {"partitions": 1, "insertion": "replace"}, queries=8)
    (used,) = (point.utility for point in record.points)
    assert used is not None
    assert used.value == used.ceiling
    assert 8 * used.value == round(8 * used.value)


def test_too_many_held_out_queries_are_refused(lab: Any) -> None:
    with pytest.raises(UsageError, match=r"use fewer queries \(--utility\)"):
        lab.sweep({"epsilon": [1, 2]}, queries=55)
    assert lab.model.calls == 0


def test_a_model_without_room_for_all_examples_has_no_ceiling(lab: Any) -> None:
    def check(requests: Any) -> None:
        if any(str(ask.prompt).count("\n\n") > 5 for ask in requests):
            raise TargetError("the prompt is too long.")

    lab.model.model.check = check
    record: SweepRecord = lab.run({"epsilon": [1, 2]}, queries=3)
    used = record.points[0].utility
    assert used is not None
    assert used.ceiling is None
    assert "few_shot: the prompt is too long." in used.missing
    assert used.floor is not None


def test_repeats_have_seeds_of_their_own(lab: Any) -> None:
    record = lab.run({"epsilon": [1, 2]}, {"seed": 5}, repeats=3)
    assert [point.seed for point in record.points] == [5, 6, 7, 5, 6, 7]
    assert [len(points) for points in record.settings] == [3, 3]
    with pytest.raises(UsageError, match="leave one of them out"):
        lab.sweep({"seed": [1, 2]}, repeats=2)
    with pytest.raises(UsageError, match="something to change"):
        lab.sweep({})


def test_private_rows_are_in_no_record(lab: Any) -> None:
    lab.run({"epsilon": [1, 2]}, queries=3)
    for file in (*lab.out.glob("sweep.*"), *lab.out.glob("*/utility-*.json")):
        assert "red kite" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0
