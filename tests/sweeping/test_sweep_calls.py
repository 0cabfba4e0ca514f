"""A sweep asks the model once for whatever differs in noise or statistics alone."""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.auditing import make_spec, prepare
from leakbound.auditing.receipts import Recomputed, recompute, verify_run
from leakbound.errors import TargetError, UsageError
from leakbound.sweeping import load_sweep
from leakbound.sweeping.record import SweepRecord

EPSILONS, ESTIMATORS = [1, 8], ["e_process", "clopper_pearson", "unconditional"]


@pytest.mark.slow
def test_six_points_make_the_calls_of_one(sweeps: Any, tmp_path: Any) -> None:
    one = type(sweeps)(tmp_path / "one", sweeps.base["data"])
    one.run({"epsilon": [1]})
    sweep = sweeps.sweep({"epsilon": EPSILONS, "estimator": ESTIMATORS})
    record = sweep.run()
    assert sweeps.model.calls == one.model.calls == sweep.model_calls == record.model_calls > 0
    assert record.model_calls_unshared == 6 * one.model.calls
    assert sweeps.opened == 1
    assert [(p.changes["epsilon"], p.changes["estimator"]) for p in record.points] == [
        (e, by) for e in EPSILONS for by in ESTIMATORS
    ]


@pytest.mark.slow
def test_every_point_equals_its_own_audit(sweeps: Any, tmp_path: Any) -> None:
    other = type(sweeps)(tmp_path / "other", sweeps.base["data"])
    record = sweeps.run({"epsilon": [1, 8], "estimator": ["e_process", "unconditional"]})
    apart = [
        other.run(
            {"epsilon": [p.changes["epsilon"]], "estimator": [p.changes["estimator"]]}
        ).points[0]
        for p in record.points
    ]
    assert [point.model_dump(exclude={"changes"}) for point in record.points] == [
        point.model_dump(exclude={"changes"}) for point in apart
    ]


@pytest.mark.slow
def test_what_changes_a_request_is_collected_by_itself(sweeps: Any) -> None:
    record = sweeps.run({"mechanism.partitions": [2, 3], "epsilon": [1, 4]})
    assert len({point.evidence for point in record.points}) == 2
    assert (
        sweeps.model.calls
        == record.model_calls
        == sum(p.model_calls for p in record.points if p.changes["epsilon"] == 1)
    )


@pytest.mark.slow
def test_fewer_pairs_are_part_of_more(sweeps: Any) -> None:
    record = sweeps.run({"pairs": [8, 24, 16]})
    assert sweeps.model.calls == record.model_calls == record.points[1].model_calls


def test_a_point_is_computed_again_as_the_test_of_its_own_that_it_was(sweeps: Any) -> None:
    """A check of it as an audit that had seen the other points found other bounds."""
    record = sweeps.run(
        {"pairs": [8, 24]}, {"mechanism": "few_shot", "estimator": "clopper_pearson"}
    )
    for point in record.points:
        assert recompute(sweeps.out / point.run) == Recomputed()
        assert not verify_run(sweeps.out / point.run).problems


@pytest.mark.slow
def test_points_that_stop_early_ask_at_most_what_the_longest_does(sweeps: Any) -> None:
    stopping = {"mechanism": "few_shot", "stop_when_rejected": True, "pairs": 40}
    record = sweeps.run({"epsilon": [0.1, 3], "delta": [1e-5, 1e-3]}, stopping)
    assert len({point.pairs for point in record.points}) > 1
    assert sweeps.model.calls == record.model_calls


@pytest.mark.parametrize(
    ("mechanism", "query", "shared"),
    [
        ("synthetic_shots", "membership", False),
        ("product_of_experts", "membership", True),
        ("product_of_experts", "repeat", False),
        ("bounded_cid", "repeat", False),
        ("embedding_mean", "repeat", True),
    ],
)
def test_noise_that_is_drawn_while_collecting_is_never_shared(
    mechanism: str, query: str, shared: bool, pocket: Any
) -> None:
    specs = [
        make_spec({"mechanism": mechanism, "query": query, "epsilon": e, "pairs": 1, "shots": 10})
        for e in (1, 8)
    ]
    one, other = (prepare(spec, pocket).evidence for spec in specs)
    assert (one == other) is shared


@pytest.mark.slow
def test_the_same_sweep_again_asks_nothing_and_says_the_same(sweeps: Any) -> None:
    first = sweeps.run({"epsilon": EPSILONS}, queries=5, repeats=2)
    asked = sweeps.model.calls
    assert asked == first.model_calls
    again = sweeps.sweep({"epsilon": EPSILONS}, queries=5, repeats=2)
    assert again.run().to_json() == first.to_json()
    assert (again.model_calls, sweeps.model.calls) == (0, asked)
    assert load_sweep(sweeps.out) == first


@pytest.mark.slow
def test_an_interrupted_sweep_keeps_its_points_and_goes_on(sweeps: Any, tmp_path: Any) -> None:
    sweep = sweeps.sweep({"mechanism.partitions": [1, 2, 3]}, queries=4)
    answer, left = sweeps.model.model.answer, [130]

    def until(requests: Any) -> Any:
        left[0] -= len(requests)
        if left[0] < 0:
            raise KeyboardInterrupt
        return answer(requests)

    sweeps.model.model.answer = until
    with pytest.raises(KeyboardInterrupt):
        sweep.run()
    partly = load_sweep(sweeps.out)
    assert 0 < len(partly.points) < 3
    assert {one.cause for one in partly.missing} == {"not_reached"}
    sweeps.model.model.answer = answer
    whole = sweeps.run({"mechanism.partitions": [1, 2, 3]}, queries=4)
    fresh = type(sweeps)(tmp_path / "fresh", sweeps.base["data"]).run(
        {"mechanism.partitions": [1, 2, 3]}, queries=4
    )
    assert whole.to_json() == fresh.to_json()


def test_invalid_points_are_all_named_before_the_first_call(sweeps: Any) -> None:
    grid = {
        "mechanism.partitions": [3, 7],
        "estimator": ["e_process", "unconditional"],
        "query": ["membership", "repeat"],
    }
    with pytest.raises(UsageError) as refused:
        sweeps.sweep(grid)
    text = str(refused.value)
    assert "7 partitions need at least as many examples, and shots is 6" in text
    assert "report_noisy_max chooses among given answers" in text
    assert "--skip-invalid" in text
    assert sweeps.model.calls == 0
    record = sweeps.run(grid, skip_invalid=True)
    assert len(record.points) == 2
    assert {one.cause for one in record.missing} == {"refused"}
    assert len(record.points) + len(record.missing) == 8


def test_nothing_valid_is_refused_even_when_skipping(sweeps: Any) -> None:
    with pytest.raises(UsageError, match="Did you mean 'epsilon'"):
        sweeps.sweep({"epsilom": [1, 2]}, skip_invalid=True)


def test_a_point_that_fails_loses_no_other(sweeps: Any) -> None:
    answer = sweeps.model.model.answer

    def failing(requests: Any) -> Any:
        if any("shows nothing" in str(ask.prompt) for ask in requests):
            raise TargetError("the server is gone.")
        return answer(requests)

    sweeps.model.model.answer = failing
    canaries = {"canary.text": ["a plain text", "a text that shows nothing"]}
    sweep = sweeps.sweep(canaries, {"canary": "given", "canary.label": "odd"})
    record = sweep.run()
    assert len(record.points) == 1
    assert [(one.cause, one.reason) for one in record.missing] == [
        ("failed", "the server is gone.")
    ]
    assert [type(error) for error in sweep.errors] == [TargetError]


def test_two_models_are_never_open_at_once(sweeps: Any) -> None:
    sweeps.run({"epsilon": [1, 2], "model": ["pocket", "hf/other"]})
    assert sweeps.opened <= 4


@pytest.mark.slow
def test_utility_is_collected_once_and_lies_between_its_references(sweeps: Any) -> None:
    record = sweeps.run(
        {"epsilon": [0.1, 1, 8], "estimator": ["e_process", "unconditional"]}, queries=6
    )
    used = [point.utility for point in record.points if point.utility is not None]
    assert len(used) == 6
    assert len({(u.collection, u.references, u.zero_shot, u.non_private) for u in used}) == 1
    assert [u.value for u in used[::2]] == [u.value for u in used[1::2]]
    assert (used[0].model_calls, used[0].reference_model_calls) == (6 * 3, 6 * 2)
    assert sweeps.model.calls == record.model_calls


def test_utility_without_noise_is_the_share_of_right_answers(sweeps: Any) -> None:
    record = sweeps.run(
        {"epsilon": [100]}, {"mechanism.partitions": 1, "insertion": "replace"}, queries=8
    )
    (used,) = (point.utility for point in record.points)
    assert used is not None
    assert used.value == used.non_private
    assert 8 * used.value == round(8 * used.value)


def test_too_many_held_out_queries_are_refused(sweeps: Any) -> None:
    with pytest.raises(UsageError, match=r"use fewer queries \(--queries\)"):
        sweeps.sweep({"epsilon": [1, 2]}, queries=55)
    assert sweeps.model.calls == 0


def test_a_model_with_too_short_a_window_has_no_upper_bound(sweeps: Any) -> None:
    def check(requests: Any) -> None:
        if any(str(ask.prompt).count("\n\n") > 5 for ask in requests):
            raise TargetError("the prompt is too long.")

    sweeps.model.model.check = check
    record: SweepRecord = sweeps.run({"epsilon": [1, 2]}, queries=3)
    used = record.points[0].utility
    assert used is not None
    assert used.non_private is None
    assert "few_shot: the prompt is too long." in used.note
    assert used.zero_shot is not None


@pytest.mark.slow
def test_repeats_have_seeds_of_their_own(sweeps: Any) -> None:
    record = sweeps.run({"epsilon": [1, 2]}, {"seed": 5}, repeats=3)
    assert [point.seed for point in record.points] == [5, 6, 7, 5, 6, 7]
    assert [len(points) for points in record.settings] == [3, 3]
    with pytest.raises(UsageError, match="leave one of them out"):
        sweeps.sweep({"seed": [1, 2]}, repeats=2)
    with pytest.raises(UsageError, match="something to change"):
        sweeps.sweep({})


def test_private_rows_are_in_no_record(sweeps: Any) -> None:
    sweeps.run({"epsilon": [1, 2]}, queries=3)
    for file in (*sweeps.out.glob("sweep.*"), *sweeps.out.glob("*/utility-*.json")):
        assert "red kite" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0


def test_a_damaged_utility_is_refused_with_a_sentence(sweeps: Any) -> None:
    """It is kept beside the run; a raw validation error came out of it before."""
    sweeps.run({"epsilon": [1, 2]}, queries=3)
    file = next(sweeps.out.glob("*/utility-3.json"))
    file.write_text("{}")
    sweep = sweeps.sweep({"epsilon": [1, 2]}, queries=3)
    record = sweep.run()
    assert [one.cause for one in record.missing] == ["failed"]
    assert "Delete it to measure again" in record.missing[0].reason
