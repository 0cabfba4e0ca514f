"""InvisibleInk and DPFusion: slow twins, exact losses of adversarial pairs, real answers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from leakbound_lab.conformance.parts import Watched
from leakbound_lab.conformance.puppets import Puppet

import leakbound
from leakbound.errors import UsageError
from leakbound.mechanisms import DPFusion, InvisibleInk
from leakbound.mechanisms.dp_fusion import fuse, fusion_lambda
from leakbound.mechanisms.invisible_ink import near_top
from leakbound.mechanisms.parts.tokens import TokenDecoder
from leakbound.models import Counted, Model, NextLogits, Scripted
from leakbound.privacy import RDP, compose, renyi_divergence, zcdp_epsilon
from leakbound.serving import PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.stats import exact_privacy_loss
from leakbound.tasks import Example, GeneratedText, Job, Query, Task, Vector
from leakbound.tasks.example import EMPTY_SLOT
from leakbound.tasks.synthetic import HELP_DESK, help_desk

Floats = np.ndarray
NAMES = ("a", "b", "c")
TASK, FREE = Task("t", ("a", "b")), Task("free", max_answer_tokens=3)
CONTEXT = tuple(Example(f"text {i}", "ab"[i % 2]) for i in range(10))
SLACK = 1 + 1e-9  # for rounding
# In the suite some hundreds; `pytest -m slow` tries 10,000.
PAIRS = [400, pytest.param(10_000, marks=pytest.mark.slow)]
SCALES = (0.3, 3.0, 30.0, 1e9, 1e30)


def vector(rows: Floats) -> Vector:
    return Vector(tuple(np.asarray(rows, float).ravel().tolist()), NAMES[: np.shape(rows)[-1]])


def losses(mechanism: Any, pair: tuple[Vector, Vector]) -> Iterator[tuple[float, float]]:
    """(exact loss, guarantee) at several deltas."""
    laws = [mechanism.output_distribution(aggregate) for aggregate in pair]
    for delta in (0.0, 1e-6, 1e-3):
        limit = mechanism.guarantee.epsilon(delta)
        if math.isfinite(limit):
            yield exact_privacy_loss(*laws, delta).epsilon or 0.0, limit


def worst_share(mechanism: Any, pairs: Iterator[tuple[Vector, Vector]]) -> float:
    """The largest share of the guarantee that a pair loses; none may lose more."""
    found = 0.0
    for lost, limit in itertools.chain.from_iterable(losses(mechanism, pair) for pair in pairs):
        assert lost <= limit * SLACK + 1e-9
        found = max(found, lost / limit)
    return found


# --- InvisibleInk


def ink_pairs(
    made: InvisibleInk, count: int, rng: np.random.Generator
) -> Iterator[tuple[Vector, Vector]]:
    """Scores of neighbours: crowds that agree or not, one part replaced, or left to the public."""
    for i in range(count):
        scale = SCALES[i % len(SCALES)]
        public = rng.normal(0, rng.choice([0.1, 3.0, 20.0]), 3)
        crowd = np.tile(rng.normal(0, scale, 3), (made.partitions, 1))
        if i % 2:
            crowd = rng.normal(0, scale, (made.partitions, 3))
        rows = np.vstack([public, crowd])
        other = rows.copy()
        other[-1] = public if made.relation == "add_remove" else public + rng.normal(0, scale, 3)
        if i % 3 == 0:  # to opposite ends
            push = np.array([scale, -scale, 0.0])
            rows[1:] = public + push
            other = rows.copy()
            other[-1] = public - (0 if made.relation == "add_remove" else push)
        yield vector(rows), vector(other)


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("count", PAIRS)
def test_ink_never_loses_more_than_its_guarantee_and_nearly_all_of_it(
    relation: Any, count: int
) -> None:
    rng, best = np.random.default_rng(7), []
    for epsilon, partitions, temperature in ((0.5, 4, 1.0), (4.0, 10, 0.7), (16.0, 3, 1.3)):
        made = InvisibleInk.calibrated(epsilon, 1e-5, partitions, temperature, relation=relation)
        best.append(worst_share(made, ink_pairs(made, count // 3 + 1, rng)))
    assert min(best) >= 0.95


def slow_ink(made: InvisibleInk, rows: list[list[float]], clip: float) -> list[float]:
    """softmax(phi/tau), number by number."""
    public, phi = rows[0], []
    for y in range(len(public)):
        total = 0.0
        for row in rows[1:]:
            moved = [a - b for a, b in zip(row, public, strict=True)]
            middle = sorted(moved)[len(moved) // 2]  # of three
            total += min(clip, max(-clip, moved[y] - middle))
        phi.append(public[y] + total / made.partitions)
    weights = [math.exp(value / made.temperature) for value in phi]
    return [weight / sum(weights) for weight in weights]


@given(st.lists(st.tuples(*[st.floats(-5, 5)] * 3), min_size=4, max_size=4), st.floats(0.1, 4))
def test_ink_is_the_formula(rows: list[tuple[float, ...]], clip: float) -> None:
    made = InvisibleInk(clip, partitions=3, temperature=0.8)
    law = made.output_distribution(vector(np.array(rows)))
    assert law is not None
    want = slow_ink(made, [list(row) for row in rows], clip)
    assert law.probabilities == pytest.approx(want, rel=1e-9)


def test_the_rho_of_ink_is_that_of_the_paper_and_four_times_it() -> None:
    free = Query("q")
    zero_out = InvisibleInk(1.5, 6, 1.2, tokens=20, relation="add_remove")
    rho = 20 / 2 * (1.5 / (6 * 1.2)) ** 2
    assert zero_out.cost(FREE, free).epsilon(1e-6) == pytest.approx(zcdp_epsilon(rho, 1e-6))
    replaced = InvisibleInk(1.5, 6, 1.2, tokens=20)
    assert replaced.cost(FREE, free).epsilon(1e-6) == pytest.approx(zcdp_epsilon(4 * rho, 1e-6))
    assert zero_out.guarantee.relation == "add_remove"
    assert zero_out.cost(TASK, free) == zero_out.guarantee


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("kind", [InvisibleInk, DPFusion])
def test_one_choice_and_all_tokens_take_the_whole_claim(kind: Any, epsilon: float) -> None:
    made = kind.calibrated(epsilon, 1e-5, tokens=12)
    assert 0.99 * epsilon < made.cost(TASK, Query("q")).epsilon(1e-5) <= epsilon * SLACK
    cost = made.cost(FREE, Query("q"))
    assert 0.99 * epsilon < cost.epsilon(1e-5) <= epsilon * SLACK
    each = RDP if kind is DPFusion else type(made.guarantee)
    assert [type(part) for part in cost.parts] == [each] * 12, "the first token is counted, too"
    assert cost.epsilon(1e-5) == compose(list(cost.parts)).epsilon(1e-5)


def test_tokens_near_the_top_are_public_and_no_fewer_than_k() -> None:
    logits = np.array([5.0, 4.9, 4.0, 3.9, -1e30])
    assert near_top(logits, 2, 0.0).tolist() == [0, 1]
    assert near_top(logits, 2, 0.95).tolist() == [0, 1, 2]
    assert near_top(logits, 9, 0.0).tolist() == [0, 1, 2, 3, 4]


def test_an_example_that_lacks_leaves_its_slot_to_the_public_scores() -> None:
    """Zero-out: the same number of calls, and a difference of exactly 0."""
    made = InvisibleInk(2.0, partitions=4, relation="add_remove")
    model = Counted(Puppet("random", 1, TASK.labels))
    jobs = [Job(CONTEXT[:n], Query("what?")) for n in (4, 3)]
    whole, less = made.collect(TASK, jobs, [0, 0], model)
    assert model.calls == 2 * (4 + 1)
    rows = [np.array(one.values).reshape(5, 2) for one in (whole, less)]  # type: ignore[union-attr]
    assert (rows[1][4] == rows[1][0]).all()
    assert (rows[0][:4] == rows[1][:4]).all()
    with pytest.raises(UsageError, match="10 examples are more than 4 partitions; under add_remo"):
        made.requests(TASK, Job(CONTEXT, Query("what?")), 0)


# --- DPFusion


def fusion_pairs(count: int, rng: np.random.Generator) -> Iterator[tuple[Vector, Vector]]:
    """Scores with two contexts around one public distribution, often pushed to opposite ends."""
    for i in range(count):
        scale = SCALES[i % len(SCALES)]
        public = np.array([0.0, -rng.uniform(0, 25), -rng.uniform(0, 25)])
        one, other = rng.normal(0, scale, (2, 3))
        if i % 2:
            push = np.array([scale, -scale, 0.0])
            one, other = public + push, public - push
        yield vector(np.stack([one, public])), vector(np.stack([other, public]))


@pytest.mark.slow
@pytest.mark.parametrize("count", PAIRS)
def test_fusion_never_loses_more_than_its_guarantee_and_nearly_all_of_it(count: int) -> None:
    rng, best = np.random.default_rng(8), []
    for epsilon in (0.5, 4.0, 16.0):
        made = DPFusion.calibrated(epsilon, 1e-5)
        best.append(worst_share(made, fusion_pairs(count // 3 + 1, rng)))
    assert min(best) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("count", PAIRS)
def test_the_divergence_of_two_contexts_stays_within_the_derived_bound(count: int) -> None:
    """The bound of two steps, at orders where it is far from the one of a single step."""
    rng = np.random.default_rng(9)
    for order, beta in ((1.5, 0.3), (2.0, 0.05), (8.0, 0.02)):
        made, best = DPFusion(beta, order), 0.0
        for pair in fusion_pairs(count // 3 + 1, rng):
            p, q = (np.log(made.output_distribution(one).probabilities) for one in pair)  # type: ignore[union-attr]
            m = np.array(pair[0].values[3:])
            m = m - np.logaddexp.reduce(m)
            for one in (p, q):
                near = max(renyi_divergence(one, m, order), renyi_divergence(m, one, order))
                assert near <= made.presence.value * SLACK + 1e-12
            there = max(
                renyi_divergence(p, q, made.guarantee.order),
                renyi_divergence(q, p, made.guarantee.order),
            )
            assert there <= made.guarantee.value * SLACK + 1e-12
            best = max(best, there / made.guarantee.value)
        assert best >= 0.95
        assert made.guarantee.value > 1.9 * made.presence.value, "never the bound of one step"


def test_one_direction_is_not_enough() -> None:
    """D_2(p||p_public) <= 1 holds at lambda = 1, where p lacks an outcome that p_public has."""
    public, private = np.log([0.5, 0.5]), np.array([0.0, -np.inf])
    lam = fusion_lambda(private, public, order=2.0, bound=2.0 * 0.5)
    assert renyi_divergence(private, public, 2.0) < 1.0
    assert renyi_divergence(public, private, 2.0) == math.inf
    assert 0 < lam < 1
    p = fuse(private, public, lam)
    assert renyi_divergence(public, p, 2.0) == pytest.approx(1.0, rel=1e-9)
    law = DPFusion(0.5, 2.0).output_distribution(vector([[0.0, -1e30], [0.0, 0.0]]))
    assert law is not None
    assert law.probabilities.min() > 0


@given(
    st.lists(st.tuples(st.floats(-30, 5), st.floats(-30, 5)), min_size=2, max_size=8),
    st.floats(1.1, 40), st.floats(0.001, 3),
)  # fmt: skip
def test_lambda_is_the_largest(rows: list[tuple[float, float]], order: float, bound: float) -> None:
    context, prior = (c - np.logaddexp.reduce(c) for c in np.array(rows).T)

    def distance(lam: float) -> float:
        p = fuse(context, prior, lam)
        return max(renyi_divergence(p, prior, order), renyi_divergence(prior, p, order))

    lam = fusion_lambda(context, prior, order, bound)
    assert distance(lam) <= bound
    assert lam == 1.0 or distance(min(1.0, lam + 1e-9)) > bound * (1 - 1e-3)


def test_a_token_that_the_public_model_excludes_is_never_written() -> None:
    """No probability is clamped from below: the divergence is infinite, so lambda is 0."""
    law = DPFusion(1.0).output_distribution(vector([[-9.0, -9.0, 0.0], [0.0, 0.0, -1e30]]))
    assert law is not None
    assert law.probabilities.tolist() == [0.5, 0.5, 0.0]


# --- both


@pytest.fixture(params=["ink", "fusion"])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    def made(**options: Any) -> Any:
        if request.param == "ink":
            return InvisibleInk(**{"clip": 1.0, "partitions": 5, "tokens": 3} | options)
        return DPFusion(**{"beta": 0.1, "tokens": 3} | options)

    return made


def test_the_public_prompt_is_asked_with_no_example_near_it(make: Callable[..., Any]) -> None:
    for task in (TASK, FREE):
        watched = Watched(Puppet("random", 0, TASK.labels))
        make().collect(task, [Job(CONTEXT, Query("what?"))], [3], watched)
        shown = [[watched.words(one) for one in batch] for batch in watched.rounds]
        public = [batch for batch in shown if not any("text" in words for words in batch)]
        private = [batch for batch in shown if any("text" in words for words in batch)]
        assert len(public) == len(private) > 0
        assert all(len(batch) == 1 for batch in public)
        assert all("text" in words for batch in private for words in batch)


def test_a_call_that_fails_says_nothing(make: Callable[..., Any]) -> None:
    """Every private call fails: the answers are those of the public scores."""

    def scores(prompt: str, labels: Any) -> Any:
        if "text" in prompt:
            raise RuntimeError("filtered")
        return np.array([0.0, -1.0])

    (aggregate,) = make().collect(
        TASK, [Job(CONTEXT, Query("what?"))], [0], Scripted(label_scores=scores)
    )
    law = make().output_distribution(aggregate)
    assert law.probabilities == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e)])


def test_a_call_that_fails_says_nothing_of_a_hidden_label() -> None:
    """A label that the public scores hide was moved by C."""

    def scores(prompt: str, labels: Any) -> Any:
        if "text" in prompt:
            raise RuntimeError("filtered")
        return np.array([0.0, -1.0, np.nan])

    made, task = InvisibleInk(1.0, partitions=1), Task("t", NAMES)
    job = Job(CONTEXT[:1], Query("what?"))
    (found,) = made.collect(task, [job], [0], Scripted(label_scores=scores))
    public = found.values[:3]  # type: ignore[union-attr]
    assert (made._exponents(np.array(found.values)) == made._exponents(np.tile(public, 2))).all()  # type: ignore[union-attr]


class Drifting(Puppet):
    """Scores the same prompt otherwise in every further batch."""

    batch = 0

    def answer(self, requests: Sequence[Any], /) -> list[Any]:
        self.batch += 1
        found = Puppet.answer(self, requests)
        return [row + self.batch * np.arange(np.shape(row)[-1]) for row in found]


def test_zero_out_is_exact_where_equal_prompts_get_other_scores() -> None:
    """An example that was added cost up to 4C/(B tau), of 2C/(B tau) that are stated."""
    made, query = InvisibleInk(2.0, partitions=4, relation="add_remove"), Query("what?")
    (found,) = made.collect(TASK, [Job(CONTEXT[:2], query)], [0], Drifting("random", 1, ("a", "b")))
    rows = np.array(found.values).reshape(5, 2)  # type: ignore[union-attr]
    assert (rows[3:] == rows[0]).all()
    assert (rows[1:3] != rows[0]).any()
    prompts = [FREE.prompt(part, query) for part in ((), CONTEXT[:1], (), (EMPTY_SLOT,))]
    public, *slots = TokenDecoder(Drifting("random", 1), prompts).logits()
    assert [(row == public).all() for row in slots] == [False, True, True]


@pytest.mark.slow
def test_tokens_follow_the_law_of_one_choice(make: Callable[..., Any]) -> None:
    """A free answer of one token, drawn 600 times, against the exact law of its scores.

    Hoeffding: a share off by more than .15 has probability below 4e-12 a letter.
    """
    puppet, task = Puppet("random", 4), Task("free", max_answer_tokens=1)
    # all bytes: what is not a letter is e^-20 times as likely
    made, job = (
        make(tokens=1, **({"candidates": 256} if make().name == "invisible_ink" else {})),
        Job(CONTEXT, Query("q?")),
    )
    draws = list(range(600))
    texts = [one.text for one in made.collect(task, [job] * 600, draws, puppet)]
    prompts = [request.prompt for request in made.requests(task, job, 0)]
    rows = np.stack([puppet.answer([NextLogits(prompt)])[0][-1] for prompt in prompts])
    # pairs are kept with the context first
    law = made.output_distribution(vector(rows if len(rows) > 2 else rows[::-1]))
    for letter in "abcdefghijklmnopqrstuvwxyz":
        share = sum(text == letter for text in texts) / 600
        assert abs(share - law.probabilities[ord(letter)]) < 0.15
    assert len(set(texts)) > 5


def test_equal_draws_give_equal_answers(make: Callable[..., Any]) -> None:
    jobs, puppet = [Job(CONTEXT, Query("q?"))] * 8, Puppet("random", 2)
    one, again = (make().collect(FREE, jobs, list(range(8)), puppet) for _ in range(2))
    assert one == again
    assert len({text.text for text in one}) > 1


def test_what_is_out_of_range_is_said() -> None:
    for wrong in ({"clip": 0.0}, {"clip": 1.0, "token_clip": -1.0}, {"clip": 1.0, "partitions": 0}):
        with pytest.raises(UsageError, match="must be"):
            InvisibleInk(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="relation is 'replace'; it must be replace_one or add_r"):
        InvisibleInk(1.0, relation="replace")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="order is 1; it must be above 1"):
        DPFusion(0.1, 1)
    with pytest.raises(UsageError, match="dp_fusion needs a delta above 0"):
        DPFusion.calibrated(1.0, 0.0)


# --- a real model


def test_a_service_answers_and_pays(
    pocket: Model, make: Callable[..., Any], tmp_path: Path
) -> None:
    kind = type(make())
    made = kind.calibrated(
        2.0, 1e-5, tokens=4, **({"partitions": 4} if kind is InvisibleInk else {})
    )
    rows = help_desk(8, np.random.default_rng(0))
    for number, task in enumerate((HELP_DESK, Task("reply", label_name="Reply"))):
        ledger = Ledger(tmp_path / f"{number}.sqlite", 2.0, 1e-5)
        service = PrivateICL(made, rows, task, pocket, ledger)
        answer = service.answer(Query("my card was charged twice"))
        assert answer.spent == pytest.approx(2.0, rel=1e-3)
        assert answer.text in HELP_DESK.labels or number
        with pytest.raises(leakbound.LeakboundError, match="budget"):
            service.answer(Query("the parcel never arrived"))


@pytest.mark.slow
def test_more_budget_gives_better_answers(pocket: Model) -> None:
    """Exact chances of the true label, mean over 12 queries; scores are those of every claim."""
    rows = help_desk(40, np.random.default_rng(1))
    jobs = [
        Job(rows[at : at + 8], Query(rows[at + 8 + k].input)) for at in (0, 20) for k in range(6)
    ]
    truth = [HELP_DESK.labels.index(rows[at + 8 + k].label) for at in (0, 20) for k in range(6)]
    options: dict[Any, dict[str, Any]] = {InvisibleInk: {"partitions": 8}, DPFusion: {}}
    for kind, more in options.items():
        made = [kind.calibrated(epsilon, 1e-5, **more) for epsilon in (0.001, 4.0, 64.0)]
        scores = made[0].collect(HELP_DESK, jobs, [0] * len(jobs), pocket)
        none, some, much = (
            np.mean([one.output_distribution(x).probabilities[t]
                     for x, t in zip(scores, truth, strict=True)])
            for one in made
        )  # fmt: skip
        assert none < some < much


@pytest.mark.slow
def test_an_audit_finds_no_more_than_the_guarantee(
    pocket: Model, make: Callable[..., Any], tmp_path: Path
) -> None:
    kind = type(make())
    made = kind.calibrated(1.0, 1e-5, **({"partitions": 4} if kind is InvisibleInk else {}))
    result = leakbound.audit(
        mechanism=made,
        model=pocket,
        epsilon=1.0,
        pairs=6,
        shots=4,
        simulations=20,
        controls=1,
        out=tmp_path,
    )
    assert result.verdict != "violation"
    exact = next(one for one in result.estimates if one.method == "exact")
    assert 0 < (exact.epsilon or 0) <= 1.0
    assert isinstance(made.collect(FREE, [Job(CONTEXT, Query("q"))], [0], pocket)[0], GeneratedText)
