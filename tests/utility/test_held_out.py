"""Utility on held-out queries: closed forms, and nothing private in sight."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from leakbound.errors import DataError, TargetError
from leakbound.mechanisms import FewShot, ReportNoisyMax, ZeroShot
from leakbound.models import Counted, Scripted
from leakbound.tasks import Example, Task, Votes
from leakbound.utility import HeldOut, draw_held_out, rouge

ROWS = tuple(Example(f"secret row {i}", "ab"[i % 2]) for i in range(30))
TASK = Task("letters", ("a", "b"))
FREE = Task("notes")


def held_out_test(shots: int = 6, queries: int = 8, task: Task = TASK, seed: int = 0) -> HeldOut:
    return draw_held_out(ROWS, task, shots, queries, np.random.default_rng(seed))


def test_queries_are_about_rows_that_the_context_does_not_hold() -> None:
    test = held_out_test()
    (context,) = {job.context for job in test.jobs}
    asked = {job.query.text for job in test.jobs}
    assert (len(context), len(asked)) == (6, 8)
    assert not asked & {row.input for row in context}
    assert {(job.query.text, label) for job, label in zip(test.jobs, test.truth, strict=True)} <= {
        (row.input, row.label) for row in ROWS
    }
    assert "secret" not in repr(test)


def test_accuracy_is_the_mean_chance_of_the_right_answer() -> None:
    test = held_out_test()
    votes = [Votes((1, 0, 0)) if label == "a" else Votes((0, 0, 0)) for label in test.truth]
    right = Counter(test.truth)
    certain = test.accuracy(
        ReportNoisyMax(1e-9, 1), [Votes((1, 0, 0))] * 8, np.random.default_rng(1)
    )
    assert certain == right["a"] / 8
    mixed = test.accuracy(ReportNoisyMax(1e-9, 1), votes, np.random.default_rng(1))
    assert mixed == pytest.approx((right["a"] + right["b"] / 3) / 8, abs=4 * np.sqrt(0.25 / 400))


def test_noise_without_end_leaves_chance() -> None:
    value = held_out_test().accuracy(
        ReportNoisyMax(1e9, 1), [Votes((5, 0, 0))] * 8, np.random.default_rng(2)
    )
    assert value == pytest.approx(1 / 3, abs=4 * np.sqrt(0.25 / 3200))


def test_free_answers_have_the_mean_rouge_of_what_was_released() -> None:
    test = held_out_test(task=FREE)
    model = Scripted(complete=lambda prompt: "the letter a")
    aggregate = test.collect(FewShot(), model)
    wanted = np.mean([rouge(label, "the letter a")["rougeL"].f1 for label in test.truth])
    assert test.kind == "rougeL"
    assert test.value(FewShot(), aggregate, model, np.random.default_rng(0)) == pytest.approx(
        wanted
    )
    assert 0 < wanted < 1


def test_equal_questions_are_asked_once() -> None:
    model = Counted(Scripted(complete=lambda prompt: "a"))
    test = held_out_test()
    same = HeldOut(test.task, (test.jobs[0],) * 5, test.truth[:5], (0,) * 5)
    same.collect(ZeroShot(), model)
    assert model.calls == 1


def test_too_few_rows_are_refused_with_a_sentence() -> None:
    with pytest.raises(DataError, match="need 31 rows, and the data has 30"):
        held_out_test(shots=20, queries=11)


def test_what_the_model_refuses_is_refused_before_any_call() -> None:
    model = Counted(Scripted(complete=lambda prompt: "a"))

    def check(requests: object) -> None:
        raise TargetError("too long.")

    model.model.check = check  # type: ignore[method-assign]
    with pytest.raises(TargetError, match="too long"):
        held_out_test().check(FewShot(), model)
    assert model.calls == 0
