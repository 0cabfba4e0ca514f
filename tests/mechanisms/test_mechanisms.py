"""Mechanisms: collect, release and law agree; sensitivity and guarantee hold; nothing private is
kept.
"""

import asyncio
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.errors import TargetError, UsageError
from leakbound.mechanisms import FewShot, PromptDefense, ReportNoisyMax, ZeroShot
from leakbound.models import Complete, Counted, Scripted
from leakbound.privacy import NonPrivate, calibrate_gaussian
from leakbound.systems import SystemMechanism, load_system
from leakbound.tasks import Example, Job, Query, Task, Votes

TASK = Task("t", ("a", "b"))
CONTEXT = tuple(Example(f"text {i}", "ab"[i % 2]) for i in range(12))
JOB = Job(CONTEXT, Query("what?"))


def vote(prompt: str) -> str:
    return "a" if "text 3" in prompt else "b" if "text 4" in prompt else "who knows"


def test_few_shot_shows_everything_and_zero_shot_nothing() -> None:
    seen: list[str] = []
    model = Scripted(complete=lambda p: seen.append(p) or "b")  # type: ignore[func-returns-value]
    assert FewShot().collect(TASK, [JOB], [0], model) == [Votes((0, 1, 0))]
    assert ZeroShot().collect(TASK, [JOB], [0], model) == [Votes((0, 1, 0))]
    assert all(row.input in seen[0] for row in CONTEXT)
    assert not any(row.input in seen[1] for row in CONTEXT)


def test_prompt_defences_rise_in_strength() -> None:
    one, two = PromptDefense(1).preamble(), PromptDefense(2).preamble()
    assert two.startswith(one)
    assert len(two) > len(one)
    assert PromptDefense(1, "Hush.").preamble() == "Hush."
    with pytest.raises(UsageError, match="must be 1 or 2"):
        PromptDefense(3)


def test_votes_count_every_partition_and_the_unparsable() -> None:
    counted = Counted(Scripted(complete=vote))
    (votes,) = ReportNoisyMax(1.0, 6).collect(TASK, [JOB], [0], counted)
    assert votes.counts == (1, 1, 4)
    assert counted.calls == 6


@given(st.integers(0, 11), st.sampled_from(["text 3", "text 4", "text 99"]), st.integers(1, 12))
def test_one_example_moves_one_vote(at: int, new: str, partitions: int) -> None:
    """L2 distance of clean votes is at most the declared sensitivity under replace_one."""
    mechanism, model = ReportNoisyMax(1.0, partitions), Scripted(complete=vote)
    other = Job((*CONTEXT[:at], Example(new, "a"), *CONTEXT[at + 1 :]), JOB.query)
    first, second = mechanism.collect(TASK, [JOB, other], [0, 0], model)
    distance = math.dist(first.counts, second.counts)
    assert distance <= mechanism.guarantee.sensitivity + 1e-12
    assert sum(first.counts) == partitions


def test_releases_follow_the_law() -> None:
    mechanism, aggregate = ReportNoisyMax(1.5, 10), Votes((3, 7, 0))
    drawn = mechanism.release(aggregate, 200_000, np.random.default_rng(0))
    law = mechanism.output_distribution(aggregate)
    assert drawn.noisy is not None
    np.testing.assert_allclose(drawn.noisy.mean(0), law.mean, atol=0.02)
    np.testing.assert_allclose(drawn.noisy.std(0), law.sigma, atol=0.02)
    assert (drawn.answers == drawn.noisy.argmax(1)).all()


def test_many_draws_are_many_single_draws_in_law() -> None:
    mechanism, aggregate = ReportNoisyMax(2.0, 10), Votes((4, 6, 0))
    many = mechanism.release(aggregate, 4000, np.random.default_rng(1)).answers
    single = [
        mechanism.release(aggregate, 1, np.random.default_rng([2, i])).answers[0]
        for i in range(4000)
    ]
    shares = [np.bincount(x, minlength=3) / 4000 for x in (many, single)]
    assert np.abs(shares[0] - shares[1]).max() < 0.05


def test_equal_seeds_give_equal_releases() -> None:
    mechanism, aggregate = ReportNoisyMax(2.0), Votes((4, 6, 0))
    first, again, other = (
        mechanism.release(aggregate, 9, np.random.default_rng(s)).noisy for s in (1, 1, 2)
    )
    assert np.array_equal(first, again)  # type: ignore[arg-type]
    assert not np.array_equal(first, other)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4, 8])
def test_the_guarantee_is_derived_from_the_noise(epsilon: float) -> None:
    sound = ReportNoisyMax.calibrated(epsilon, 1e-5)
    assert sound.guarantee.epsilon(1e-5) <= epsilon
    assert sound.guarantee.epsilon(1e-5) == pytest.approx(epsilon, rel=1e-6)
    assert ReportNoisyMax.calibrated(10, 1e-5, calibration="classical").guarantee.epsilon(
        1e-5
    ) == pytest.approx(10.39, abs=0.01)


def test_classical_formula_is_the_papers() -> None:
    assert calibrate_gaussian(2, 1e-5, math.sqrt(2), "classical") == pytest.approx(
        2 * math.sqrt(math.log(1.25e5)) / 2
    )


def test_undefended_systems_promise_nothing() -> None:
    assert ZeroShot().guarantee.epsilon(0) == 0, "it does not read the context"
    for mechanism in (FewShot(), PromptDefense(2), SystemMechanism(lambda c, q: "a")):
        assert isinstance(mechanism.guarantee, NonPrivate)
        assert mechanism.guarantee.epsilon(0.1) == math.inf


def test_nothing_private_is_kept() -> None:
    for mechanism in (FewShot(), PromptDefense(2), ReportNoisyMax(1.0, 4)):
        mechanism.collect(TASK, [JOB], [0], Scripted(complete=vote))
        assert b"text 3" not in pickle.dumps(mechanism)
        assert "text 3" not in repr(mechanism) + repr(JOB) + repr(mechanism.requests(TASK, JOB, 0))


def test_asks_are_what_needs_says() -> None:
    for mechanism in (FewShot(), ReportNoisyMax(1.0, 4)):
        assert (
            {type(ask) for ask in mechanism.requests(TASK, JOB, 0)} == mechanism.needs == {Complete}
        )


def test_callables_sync_and_async() -> None:
    async def later(context: object, query: str) -> str:
        await asyncio.sleep(0)
        return "b"

    for function in (later, lambda context, query: "b"):
        assert (
            SystemMechanism(function).collect(TASK, [JOB, JOB], [0, 0], Scripted())
            == [Votes((0, 1, 0))] * 2
        )
    with pytest.raises(TargetError, match="must return the answer as str"):
        SystemMechanism(lambda c, q: 7).collect(TASK, [JOB], [0], Scripted())  # type: ignore[arg-type,return-value]


def test_callables_from_files(tmp_path: object) -> None:
    path = f"{tmp_path}/mine.py"
    with open(path, "w") as file:
        file.write(
            "def answer(context, query):\n    return 'a'\n\nclass Service:\n    def "
            "__call__(self, c, q):\n        return 'b'\n"
        )
    assert load_system(f"python:{path}:answer").collect(TASK, [JOB], [0], Scripted()) == [
        Votes((1, 0, 0))
    ]
    assert load_system(f"python:{path}:Service").collect(TASK, [JOB], [0], Scripted()) == [
        Votes((0, 1, 0))
    ]
    with pytest.raises(UsageError, match="no callable 'nothing'"):
        load_system(f"python:{path}:nothing")
    with pytest.raises(UsageError, match="does not exist"):
        load_system("python:none.py:x")
    with pytest.raises(UsageError, match="form python:file"):
        load_system("mine.py")
