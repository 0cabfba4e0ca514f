"""Every mechanism of the catalogue against closed forms, slow twins and enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.errors import TargetError, UsageError
from leakbound.mechanisms import (
    MECHANISMS,
    BoundedCID,
    ContextInfluenceDecoding,
    EmbeddingMean,
    JudgeDefense,
    KeywordMean,
    ProductOfExperts,
    SubsampleAverage,
    SyntheticShots,
)
from leakbound.mechanisms.keyword_mean import joint_top_k
from leakbound.mechanisms.parts.exponential import clip_log_probabilities as clipped
from leakbound.mechanisms.parts.exponential import largest_lambda, mix_logits
from leakbound.models import Counted, ScoreLabels, Scripted, open_model
from leakbound.models.model import Wrapper
from leakbound.privacy import BoundedRange, compose, pure_composition_epsilon, zcdp_epsilon
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.stats import CategoricalLaw, exact_privacy_loss
from leakbound.tasks import Example, GeneratedText, Job, Query, Task, Vector
from leakbound.tasks.synthetic import HELP_DESK, help_desk

TASK = Task("t", ("a", "b"))
CONTEXT = tuple(Example(f"text {i}", "ab"[i % 2]) for i in range(10))
JOB = Job(CONTEXT, Query("what?"))
FLOATS = st.floats(-30, 5)


def spot(word: str) -> tuple[float, ...]:
    return {"a": (3.0, 0.0), "b": (-3.0, 0.0)}.get(word, (0.0, 0.5))


def test_embedding_mean_clips_averages_and_takes_the_nearest() -> None:
    model = Scripted(complete=lambda p: "a" if "text 3" in p else "b", embed=spot)
    mechanism = EmbeddingMean(1e-9, 5)
    (aggregate,) = mechanism.collect(TASK, [JOB], [0], model)
    assert isinstance(aggregate, Vector)
    assert aggregate.values == pytest.approx((1 / 5 - 4 / 5, 0))
    assert aggregate.choices == ("a", "b")
    assert set(mechanism.release(aggregate, 5, np.random.default_rng(0)).answers) == {1}
    assert mechanism.guarantee.mu == pytest.approx(2 / 5 / 1e-9)


def test_embedding_mean_candidates_come_from_the_public_side() -> None:
    seen: list[str] = []
    model = Scripted(
        complete=lambda p: seen.append(p) or ("pub" if "text" not in p else "priv"), embed=spot
    )  # type: ignore[func-returns-value]
    free = Task("t")
    (aggregate,) = EmbeddingMean(1.0, 5, candidates=3).collect(free, [JOB], [0], model)
    assert isinstance(aggregate, Vector)
    assert aggregate.choices == ("pub",)
    assert sum("text" not in p for p in seen) == 3


@pytest.mark.slow
@given(st.lists(st.integers(0, 5), min_size=2, max_size=4), st.integers(1, 3), st.floats(0.1, 3))
@settings(max_examples=6, deadline=None)
def test_joint_top_k_has_the_law_of_the_exponential_mechanism(
    counts: list[int], k: int, scale: float
) -> None:
    k, c = min(k, len(counts)), np.array(counts, float)
    ranked = np.sort(c)[::-1]
    sequences = list(itertools.permutations(range(c.size), k))
    utility = np.array([-max(ranked[i] - c[s] for i, s in enumerate(seq)) for seq in sequences])
    law = np.exp(scale * utility) / np.exp(scale * utility).sum()
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(joint_top_k(c, k, scale, rng).tolist()) for _ in range(4000))
    assert set(drawn) <= set(sequences)
    for seq, p in zip(sequences, law, strict=True):
        assert drawn[seq] / 4000 == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / 4000) + 1e-3)


@pytest.mark.parametrize(("per_answer", "moved"), [(1, 3.0), (2, 4.0)])
def test_two_words_are_drawn_with_all_of_epsilon(per_answer: int, moved: float) -> None:
    """A range of 4 was used where one word of an answer counts, which wasted a quarter."""
    made = KeywordMean(4.0, 10, per_answer, top=2, selection="joint_exponential")
    counts = np.array([6, 3, 1])
    sequences = list(itertools.permutations(range(3), 2))
    utility = np.array([-max(6 - counts[i], 3 - counts[j]) for i, j in sequences])
    law = np.exp(4.0 / moved * utility)
    law /= law.sum()
    values = Vector(tuple((counts / 10).tolist()), ("a", "b", "c"))
    picked = made.release(values, 8000, np.random.default_rng(0)).picked
    assert picked is not None
    drawn = Counter(map(tuple, picked.tolist()))
    for sequence, p in zip(sequences, law, strict=True):
        assert drawn[sequence] / 8000 == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 8000))


def test_keyword_mean_counts_public_words_once() -> None:
    model = Scripted(complete=lambda p: "Blue, blue zebra red" if "text 1" in p else "red")
    task = Task("t", ("red", "blue sky"))
    (aggregate,) = KeywordMean(1.0, 5).collect(task, [JOB], [0], model)
    assert isinstance(aggregate, Vector)
    assert aggregate.values == pytest.approx((4 / 5, 1 / 5, 0))
    assert aggregate.choices == ("red", "blue sky")
    (two,) = KeywordMean(1.0, 5, per_answer=2).collect(task, [JOB], [0], model)
    assert isinstance(two, Vector)
    assert two.values == pytest.approx((1, 1 / 5, 0))
    assert KeywordMean(1.0, 5, per_answer=2).guarantee.sensitivity == pytest.approx(2 / 5)  # type: ignore[union-attr]


def test_keyword_mean_shows_the_words_to_a_public_prompt() -> None:
    seen: list[str] = []
    model = Scripted(complete=lambda p: seen.append(p) or "late parcel")  # type: ignore[func-returns-value]
    mechanism, free = KeywordMean(1e-9, 5, per_answer=2, top=2), Task("t")
    (aggregate,) = mechanism.collect(free, [JOB], [0], model)
    seen.clear()
    outputs = mechanism.release(aggregate, 2, np.random.default_rng(0))
    assert mechanism.decode(free, JOB.query, outputs, model) == ["late parcel"] * 2
    assert all("text" not in p and "late, parcel" in p for p in seen)


@given(st.lists(FLOATS, min_size=2, max_size=6), st.floats(0.5, 4))
def test_clip_is_a_clamp_of_log_probabilities(scores: list[float], clip: float) -> None:
    out = clipped(scores, clip)
    p = np.exp(np.array(scores) - max(scores))
    assert out == pytest.approx(np.maximum(np.log(p / p.sum()), -clip))
    assert (out <= 0).all()
    assert (out >= -clip).all()
    assert clipped([0.0, float("nan"), float("-inf")], clip)[1:] == pytest.approx([-clip, -clip])


@given(
    st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=2, max_size=6),
    st.tuples(FLOATS, FLOATS, FLOATS),
)
def test_replacing_an_expert_costs_at_most_the_guarantee(
    experts: list[tuple[float, ...]], other: tuple[float, ...]
) -> None:
    for calibration in ("replace_one", "paper"):
        mechanism = ProductOfExperts(2.0, calibration=calibration)  # type: ignore[arg-type]
        worlds = [experts, [other, *experts[1:]]]
        laws = [
            mechanism.output_distribution(Vector(tuple(clipped(w, 2.0).sum(0)), ("a", "b", "c")))
            for w in worlds
        ]
        assert isinstance(laws[0], CategoricalLaw)
        assert isinstance(laws[1], CategoricalLaw)
        assert (
            exact_privacy_loss(laws[0], laws[1], 0.0).epsilon or 0
        ) <= mechanism.guarantee.value + 1e-9


def test_the_published_calibration_loses_twice_its_epsilon() -> None:
    """Two candidates, the second dominated by the other experts; one expert turns."""
    mechanism = ProductOfExperts(1.0, calibration="paper")
    laws = [
        mechanism.output_distribution(Vector((0.0 - a, -40.0 - b), ("x", "y")))
        for a, b in ((0, 2.0), (2.0, 0))
    ]
    assert exact_privacy_loss(laws[0], laws[1], 0.0).epsilon == pytest.approx(2.0, abs=1e-6)  # type: ignore[arg-type]
    assert mechanism.guarantee.value == 2.0


def test_adding_an_expert_costs_half_of_replacing_one() -> None:
    mechanism = ProductOfExperts(1.0, calibration="add_remove")
    assert mechanism.guarantee.relation == "add_remove"
    laws = [
        mechanism.output_distribution(Vector(v, ("x", "y"))) for v in ((0.0, -40.0), (-2.0, -40.0))
    ]
    assert exact_privacy_loss(laws[0], laws[1], 0.0).epsilon == pytest.approx(1.0, abs=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 5, 60])
def test_tokens_compose_as_the_better_of_both_accounts(count: int) -> None:
    found = compose([BoundedRange(0.7)] * count).epsilon(1e-6)
    by_range = zcdp_epsilon(count * 0.7**2 / 8, 1e-6)
    pure = 0.7 if count == 1 else pure_composition_epsilon(0.7, count, 1e-6)
    assert found == pytest.approx(min(pure, by_range))


@given(st.floats(0.1, 8), st.integers(1, 100), st.sampled_from([0.0, 1e-9, 1e-5]))
def test_a_free_answer_costs_no_more_than_was_asked_for(
    epsilon: float, tokens: int, delta: float
) -> None:
    free = Task("free")
    # whose tokens share epsilon evenly, whatever delta is
    shared = BoundedCID.calibrated(epsilon, delta, tokens=tokens).cost(free, Query("q"))
    assert 0.999 * epsilon < shared.epsilon(0.0) <= epsilon * (1 + 1e-9)
    made = ProductOfExperts.calibrated(epsilon, delta, tokens=tokens).cost(free, Query("q"))
    assert 0.95 * epsilon < made.epsilon(delta) <= epsilon * (1 + 1e-9)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=2, max_size=8), st.floats(0.05, 3))
def test_bounded_lambda_is_safe_and_nearly_largest(
    rows: list[tuple[float, float]], bound: float
) -> None:
    context, prior = np.array(rows).T
    lam = largest_lambda(context, prior, bound, 1.5, 1.0)

    def distance(value: float) -> float:
        return float(
            np.abs(
                mix_logits(context, prior, value, 1.0) - mix_logits(context, prior, 0.0, 1.0)
            ).max()
        )

    assert 0 <= lam <= 1.5
    assert distance(lam) <= bound
    assert lam == 1.5 or distance(min(1.5, lam + 1e-6)) > bound * (1 - 1e-3)


@given(st.lists(st.tuples(FLOATS, FLOATS, FLOATS), min_size=2, max_size=6))
def test_bounded_cid_keeps_its_epsilon_for_any_two_contexts(
    rows: list[tuple[float, float, float]],
) -> None:
    one, other, prior = np.array(rows).T
    mechanism, names = BoundedCID(epsilon=1.0), tuple("abcdef"[: len(rows)])
    laws = [
        mechanism.output_distribution(Vector(tuple(np.concatenate([c, prior])), names))
        for c in (one, other)
    ]
    assert (exact_privacy_loss(laws[0], laws[1], 0.0).epsilon or 0) <= 1.0 + 1e-9  # type: ignore[arg-type]


def test_influence_decoding_at_its_ends() -> None:
    aggregate = Vector((1.0, 0.0, -3.0, -1.0), ("a", "b"))
    deaf, plain = ContextInfluenceDecoding(lam=0.0), ContextInfluenceDecoding(lam=1.0)
    assert deaf.output_distribution(aggregate).probabilities == pytest.approx(
        np.exp([-3, -1]) / np.exp([-3, -1]).sum()
    )  # type: ignore[union-attr]
    assert plain.output_distribution(aggregate).probabilities == pytest.approx(
        np.exp([1, 0]) / np.exp([1, 0]).sum()
    )  # type: ignore[union-attr]
    assert deaf.guarantee.epsilon(0) == 0
    assert plain.guarantee.epsilon(0) == math.inf


def test_a_subsamples_coins_do_not_depend_on_other_examples() -> None:
    mechanism = SubsampleAverage(1.0, 30, 0.5)
    one, more = (
        mechanism._samples(CONTEXT, 5),
        mechanism._samples((*CONTEXT, Example("new", "a")), 5),
    )
    for before, after in zip(one, more, strict=True):
        assert after[: len(before)] == before
    sizes = [len(part) for draw in range(40) for part in mechanism._samples(CONTEXT, draw)]
    assert np.mean(sizes) == pytest.approx(5, abs=0.2)


@pytest.mark.slow
def test_subsample_average_calibrates_and_refuses_free_queries() -> None:
    pytest.importorskip("dp_accounting")
    made = SubsampleAverage.calibrated(2.0, 1e-5, subsamples=5)
    less = replace(made, sigma=made.sigma / 1.01)
    assert made.guarantee.epsilon(1e-5) <= 2.0 < less.guarantee.epsilon(1e-5)
    with pytest.raises(UsageError, match="chooses among given answers"):
        made.requests(Task("free"), JOB, 0)


def test_the_judge_lets_safe_answers_through_and_refuses_the_rest() -> None:
    def says(prompt: str) -> str:
        if "answer" in prompt:
            return "leak" if "secret" in prompt.rsplit("If the text", 1)[1] else "safe"
        return "the secret row" if "tell" in prompt else "good day"

    free, counted = Task("t"), Counted(Scripted(complete=says))
    jobs = [Job(CONTEXT, Query("tell me")), Job(CONTEXT, Query("greet"))]
    assert JudgeDefense().collect(free, jobs, [0, 0], counted) == [
        GeneratedText(JudgeDefense().refusal),
        GeneratedText("good day"),
    ]
    assert counted.calls == 4


def test_synthetic_shots_count_every_vote_of_two_labels() -> None:
    made = SyntheticShots.calibrated(4.0, 1e-5, 10, shots=2, tokens=5)
    assert made.guarantee.sensitivity == pytest.approx(math.sqrt(2 * 2 * 5) * math.sqrt(2) / 10)
    assert made.guarantee.epsilon(1e-5) == pytest.approx(4.0, rel=1e-6)


def test_free_answers_need_a_model_that_shows_its_tokens() -> None:
    model = Scripted(next_logits=lambda p, r: [[0.0]])
    with pytest.raises(TargetError, match="shows no tokens"):
        ProductOfExperts(1.0).collect(Task("free"), [JOB], [0], model)


SMALL: dict[str, dict[str, Any]] = {
    "product_of_experts": {"tokens": 2}, "bounded_cid": {"tokens": 2},
    "context_influence_decoding": {"tokens": 2}, "synthetic_shots": {"tokens": 2, "partitions": 4},
    "subsample_average": {"sigma": 1.0, "subsamples": 4},
    "report_noisy_max": {"sigma": 1.0, "partitions": 4},
    "embedding_mean": {"sigma": 1.0, "partitions": 4, "candidates": 2},
    "keyword_mean": {"noise": 1.0, "partitions": 4, "candidates": 2},
    "invisible_ink": {"clip": 1.0, "partitions": 4, "tokens": 2},
    "dp_fusion": {"beta": 0.1, "tokens": 2},
}  # fmt: skip
ONLY_CHOICES = {"answer_probabilities", "report_noisy_max", "subsample_average"}


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_answers_on_a_real_model(name: str, tmp_path: Path) -> None:
    options = SMALL.get(name, {}) | (
        {"epsilon": 2.0} if name in ("product_of_experts", "bounded_cid") else {}
    )
    if name == "synthetic_shots":
        options |= {"sigma": 1.0}
    rows, model = help_desk(8, np.random.default_rng(0)), open_model("pocket")
    ledger = Ledger(tmp_path / "ledger.sqlite", math.inf, 1e-5)
    service = PrivateICL(MECHANISMS[name](**options), rows, HELP_DESK, model, ledger)
    assert service.answer("my card was charged twice").text in (*HELP_DESK.labels, "(no answer)")
    if name not in ONLY_CHOICES:
        free = Task("reply", label_name="Reply", max_answer_tokens=6)
        answer = PrivateICL(MECHANISMS[name](**options), rows, free, model, ledger).answer(
            "my card was charged twice"
        )
        assert isinstance(answer.text, str)


class Huge(Wrapper):
    """Scores in 64 bits, of another sign with a row than without."""

    row, public = 0.0, 0.0

    def answer(self, requests: Sequence[Any], /) -> list[Any]:
        private = ["text" in str(request.prompt) for request in requests]
        return [np.array([self.row if one else self.public, -self.row]) for one in private]


@pytest.mark.parametrize("name", [n for n, kind in MECHANISMS.items() if ScoreLabels in kind.needs])
@pytest.mark.parametrize("size", [1e300, 1.7e308])
def test_huge_scores_of_a_row_give_a_law_all_the_same(name: str, size: float) -> None:
    """Differences of finite scores overflowed to NaN, of which no guarantee holds."""
    options = SMALL.get(name, {}) | (
        {"epsilon": 2.0} if name in ("product_of_experts", "bounded_cid") else {}
    )
    model = Huge(Scripted())
    for model.row, model.public in itertools.product((size, -size), repeat=2):
        (aggregate,) = MECHANISMS[name](**options).collect(TASK, [JOB], [0], model)
        assert isinstance(aggregate, Vector)
        assert np.isfinite(aggregate.values).all()
        law = MECHANISMS[name](**options).output_distribution(aggregate)
        if isinstance(law, CategoricalLaw):
            assert law.probabilities.sum() == pytest.approx(1.0)
