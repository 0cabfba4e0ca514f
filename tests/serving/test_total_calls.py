"""Whatever one row holds, an answer is made, and costs what any other answer costs."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from traceback import format_exception
from typing import Any, TypeVar

import numpy as np
import pytest

import leakbound
from leakbound.errors import (
    BudgetExhausted,
    Interrupted,
    LimitReached,
    Refused,
    TargetError,
    UsageError,
)
from leakbound.mechanisms import (
    MECHANISMS,
    EmbeddingMean,
    KeywordMean,
    ProductOfExperts,
    ReportNoisyMax,
    SubsampleAverage,
    SyntheticShots,
)
from leakbound.mechanisms.parts.exponential import clip_log_probabilities
from leakbound.mechanisms.parts.total_calls import TotalModel, answer_total
from leakbound.models import (
    Capabilities,
    Complete,
    Embed,
    Endpoint,
    Model,
    NextLogits,
    ScoreLabels,
    Scripted,
    open_model,
)
from leakbound.models.http.transport import HttpReply
from leakbound.models.model import WithEmbedder, Wrapper, concurrent_model
from leakbound.models.openai import OpenAIModel
from leakbound.models.openai.client import REST
from leakbound.models.request import Request
from leakbound.privacy import NonPrivate
from leakbound.serving import AnswerLost, PrivateICL
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Example, Job, Mechanism, Query, Task, Vector, Votes

R = TypeVar("R")
ROW = "kumquat"
LABELS = Task("classification", ("plain", "odd"))
FREE = Task("reply", max_answer_tokens=4)
QUERY = "what is this"
HARMLESS = tuple(Example(f"row number {i}", ("plain", "odd")[i % 2]) for i in range(8))
ONE_ROW = (*HARMLESS[:-1], Example(f"a {ROW}", "odd"))


class Provider(Wrapper):
    """A model whose provider fails in its own way on every prompt that `hits`."""

    def __init__(
        self,
        model: Model,
        failure: Exception,
        hits: Callable[[str], bool] = lambda text: ROW in text,
    ) -> None:
        super().__init__(model)
        self.failure, self.hits, self.batches = failure, hits, 0

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.batches += 1
        if any(self.hits(self._text(request)) for request in requests):
            raise self.failure
        return self.model.answer(requests)

    def _text(self, request: Any) -> str:
        content = request.text if isinstance(request, Embed) else request.prompt
        return content if isinstance(content, str) else self.model.text(content)  # type: ignore[attr-defined]


def served(
    folder: Path, mechanism: Mechanism, task: Task, model: Model, rows: Any = ONE_ROW, **more: Any
) -> PrivateICL:
    ledger = Ledger(folder / "ledger.sqlite", math.inf, 1e-5)
    return PrivateICL(mechanism, rows, task, model, ledger, **more)


TWO_TOKENS, FOUR_PARTS = {"tokens": 2}, {"partitions": 4}
OPTIONS: dict[str, dict[str, Any]] = {
    "product_of_experts": TWO_TOKENS, "bounded_cid": TWO_TOKENS, "dp_fusion": TWO_TOKENS,
    "synthetic_shots": TWO_TOKENS | FOUR_PARTS, "invisible_ink": TWO_TOKENS | FOUR_PARTS,
    "report_noisy_max": FOUR_PARTS, "embedding_mean": FOUR_PARTS | {"candidates": 2},
    "keyword_mean": FOUR_PARTS | {"candidates": 2}, "subsample_average": {},
}  # fmt: skip


def made(name: str) -> Mechanism:
    if name == "subsample_average":
        return SubsampleAverage(1.0, subsamples=4)  # its calibration takes seconds
    found: Mechanism = MECHANISMS[name].for_claim(4.0, 1e-5, **OPTIONS.get(name, {}))
    return found


class TimeIsUp(BaseException):
    """As libraries raise that put a limit on the time of a call."""


FAILURES = [Refused("HTTP 400, content_filter", 400), TimeIsUp("logits are NaN")]


@pytest.fixture(scope="module")
def pocket() -> Model:
    return open_model("pocket")


@pytest.mark.slow
@pytest.mark.parametrize("task", [LABELS, FREE], ids=["labels", "free"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_row_that_the_provider_refuses_fails_no_answer(
    name: str, task: Task, pocket: Model, tmp_path: Path
) -> None:
    """A content filter on one row failed the whole answer, after the spend."""
    if task is FREE and name in ("report_noisy_max", "subsample_average"):
        pytest.skip("chooses among given answers")
    mechanism, spent = made(name), []
    for number, rows in enumerate((HARMLESS[:4], (*HARMLESS[:3], ONE_ROW[-1]))):
        folder = tmp_path / str(number)
        folder.mkdir()
        private = served(folder, mechanism, task, Provider(pocket, FAILURES[number]), rows)
        answer = private.answer(QUERY)
        assert ROW not in answer.text
        assert answer.answered == (answer.text not in ("", "(no answer)"))
        spent.append((answer.spent, private.state.answers))
    assert len(set(spent)) == 1


def test_every_mechanism_with_a_guarantee_that_reads_rows_is_tried_here() -> None:
    guaranteed = {n for n in MECHANISMS if not isinstance(made(n).guarantee, NonPrivate)}
    assert guaranteed == {*OPTIONS, "zero_shot"}


def test_a_refused_row_is_a_vote_for_no_answer_and_changes_no_other_vote() -> None:
    model = Provider(Scripted(complete=lambda prompt: "plain"), FAILURES[0])
    mechanism = ReportNoisyMax(1.0, 8)
    jobs = [Job(rows, Query(QUERY)) for rows in (HARMLESS, ONE_ROW)]
    assert mechanism.collect(LABELS, jobs, [0, 0], model) == [Votes((8, 0, 0)), Votes((7, 0, 1))]
    odd = Scripted(complete=lambda prompt: None if ROW in prompt else "plain")  # type: ignore[arg-type,return-value]
    assert mechanism.collect(LABELS, jobs, [0, 0], odd) == [Votes((8, 0, 0)), Votes((7, 0, 1))]


class Tired(Provider):
    """It fails on ROW, and whenever it sees another row for the second time."""

    def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
        self.seen = getattr(self, "seen", []) + [self._text(one) for one in requests]
        if any(self.seen.count(one) > 1 for one in self.seen):
            raise self.failure
        return super().answer(requests)


def test_a_row_that_fails_has_no_other_row_asked_again(tmp_path: Path) -> None:
    """Rows beside one that failed were asked again, and lost where their second call failed: one
    row changed several votes."""
    for number, rows in enumerate((HARMLESS, ONE_ROW)):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = Tired(Scripted(complete=lambda prompt: "plain"), FAILURES[0])
        private = served(folder, ReportNoisyMax(0.01, 8), LABELS, model, rows)
        assert private.answer(QUERY).text == "plain"
        assert len(model.seen) == 1 + 8


class Busy:
    """A server behind two addresses that is too busy for one row."""

    def __init__(self, wait: dict[str, str]) -> None:
        self.sent, self.headers = list[float](), {"content-type": "application/json", **wait}

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        self.sent.append(asyncio.get_running_loop().time())
        if ROW in str(body):
            return HttpReply(503, self.headers, b"{}")
        choice = {"message": {"content": "plain"}, "finish_reason": "stop"}
        found = json.dumps({"choices": [choice]}).encode()
        return HttpReply(200, {"content-type": "application/json"}, found)

    async def close(self) -> None: ...


@pytest.mark.parametrize(("wait", "retries"), [({}, 0), ({"retry-after": "601"}, 1)])
def test_a_row_for_which_a_server_is_busy_delays_no_other_request(
    tmp_path: Path, wait: dict[str, str], retries: int
) -> None:
    """After three failures each, both addresses were left alone for ten seconds: that answer was
    late, or the public request before the next payment. A server that asked to wait until 2099 for
    one row was waited for."""
    transport = Busy(wait)
    urls = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
    can = Capabilities(chat=True)
    endpoint = Endpoint(urls, capabilities=can, retries=retries, separate=True, transport=transport)
    model = OpenAIModel("served", endpoint)
    private = served(tmp_path, ReportNoisyMax(0.01, 8), LABELS, model)
    assert [private.answer(QUERY).text for _ in range(3)] == ["plain"] * 3
    assert len(transport.sent) == 3 * (1 + 8)
    assert transport.sent[-1] - transport.sent[0] < REST


def test_an_embedder_beside_an_endpoint_leaves_its_other_requests_concurrent() -> None:
    """Each is sent by itself, so they would wait for each other."""
    endpoint, embedder = OpenAIModel("served", Endpoint()), Scripted(embed=lambda text: [1.0])
    both = TotalModel(WithEmbedder(endpoint, embedder))
    asked: list[list[Request[Any]]] = [[Complete("a")], [Embed("a")], [Complete("a"), Embed("a")]]
    assert [concurrent_model(both, one) for one in asked] == [endpoint, None, None]


def test_no_answer_is_a_public_outcome_at_the_price_of_any_other(tmp_path: Path) -> None:
    for number, hits in enumerate((lambda text: "row number" in text, lambda text: False)):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = Provider(Scripted(complete=lambda prompt: "plain"), FAILURES[0], hits)
        answer = served(folder, ReportNoisyMax(0.01, 8), LABELS, model).answer(QUERY)
        assert (answer.text, answer.answered) == (("(no answer)", False), ("plain", True))[number]
        assert answer.spent == ReportNoisyMax(0.01, 8).guarantee.epsilon(1e-5)


def test_bad_requests_are_found_by_halves_and_the_public_twin_is_asked_first() -> None:
    model = Provider(Scripted(complete=lambda prompt: "plain"), FAILURES[0])
    jobs = [Job(HARMLESS, Query(QUERY))]
    prompts = [f"prompt {i}" for i in range(63)] + [ROW]
    ((*others, bad),) = answer_total(model, LABELS, jobs, [[Complete(p) for p in prompts]])
    assert others == ["plain"] * 63
    assert bad == ""
    assert model.batches == 2 + 2 * 6  # the batch, the twin, and two halves at each of 6 levels


# --- an endpoint that is away is no fact about a row


def test_an_endpoint_that_is_away_costs_nothing(tmp_path: Path) -> None:
    """Each query of an outage was paid for."""
    gone = Provider(
        Scripted(complete=lambda prompt: "plain"), TargetError("gone"), lambda text: True
    )
    private = served(tmp_path, ReportNoisyMax(1.0, 4), LABELS, gone)
    with pytest.raises(TargetError, match="gone") as raised:
        private.answer(QUERY)
    assert not isinstance(raised.value, AnswerLost)
    assert private.state.answers == 0


@pytest.mark.parametrize("failure", [TargetError("gone"), LimitReached("dollars")])
def test_an_endpoint_that_goes_away_after_the_spend_leaves_an_answer(
    failure: Exception, tmp_path: Path
) -> None:
    model = Provider(Scripted(complete=lambda prompt: "plain"), failure)
    private = served(tmp_path, ReportNoisyMax(0.01, 4), LABELS, model)
    model.hits = lambda text: model.batches > 1  # all but the public request before the spend
    answer = private.answer(QUERY)
    assert (answer.text, answer.answered, private.state.answers) == ("(no answer)", False, 1)
    assert model.batches == 1 + 4


def test_an_audit_of_an_endpoint_that_is_away_ends_and_counts_no_votes(tmp_path: Path) -> None:
    """Votes for "no answer" must not stand for an outage."""
    for failure in (TargetError("gone"), Interrupted("stopped")):
        model = Provider(Scripted(complete=lambda prompt: "yes"), failure, lambda text: True)
        with pytest.raises(type(failure), match=str(failure)):
            leakbound.audit(mechanism="report_noisy_max", model=model, pairs=5, out=tmp_path)


def test_an_interrupt_is_no_failure_of_a_row(tmp_path: Path) -> None:
    model = Provider(Scripted(complete=lambda prompt: "plain"), Interrupted("stopped"))
    private = served(tmp_path, ReportNoisyMax(1.0, 4), LABELS, model)
    with pytest.raises(Interrupted):
        private.answer(QUERY)


@pytest.mark.parametrize("kind", [KeyError, TimeIsUp, KeyboardInterrupt])
def test_a_mechanism_that_fails_after_the_spend_says_that_it_was_paid(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    """Nothing that it raises comes out, in a traceback neither."""

    class Broken(ReportNoisyMax):
        __slots__ = ()

        def collect(self, *arguments: Any) -> Any:
            raise kind(ROW)

    private = served(tmp_path, Broken(1.0, 4), LABELS, Scripted(complete=lambda prompt: "plain"))
    with pytest.raises(AnswerLost, match="the answer was paid for") as lost:
        private.answer(QUERY)
    assert ROW not in "".join(format_exception(lost.value))
    assert kind is KeyboardInterrupt or kind.__name__ in str(lost.value)
    assert private.state.answers == 1


def test_an_outage_costs_nothing_when_only_dearer_answers_are_refused(tmp_path: Path) -> None:
    """A refused free answer switched the look at the endpoint off for all others."""
    up = [True]

    def scores(prompt: str, labels: tuple[str, ...]) -> list[float]:
        if not up[0]:
            raise TargetError("away")
        return [0.0] * len(labels)

    model = Bytes(label_scores=scores, next_logits=lambda prompt, response: [[0.0] * 128])
    mechanism = MECHANISMS["product_of_experts"](epsilon=1.0, tokens=4, token_epsilon=1.0)
    ledger = Ledger(tmp_path / "ledger.sqlite", 3.0, 0.0)
    private = PrivateICL(mechanism, HARMLESS, LABELS, model, ledger, longest=20)
    for _ in range(2):
        with pytest.raises(BudgetExhausted):
            private.answer(Query("x", free=True))
    up[0] = False
    with pytest.raises(TargetError, match="away"):
        private.answer("x")
    assert private.state.answers == 0


def test_nobody_makes_the_model_work_once_the_budget_is_spent(tmp_path: Path) -> None:
    model = Provider(Scripted(complete=lambda prompt: "plain"), FAILURES[0])
    ledger = Ledger(tmp_path / "ledger.sqlite", 0.01, 1e-5)
    private = PrivateICL(ReportNoisyMax(1.0, 4), HARMLESS, LABELS, model, ledger)
    for batches in (1, 1, 1):
        with pytest.raises(BudgetExhausted):
            private.answer(QUERY)
        assert model.batches == batches


# --- scores


class TopTokens:
    """A transport: the next tokens of a chat; for one row, a token that is no label hides one."""

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        prompt = json.loads(body or b"")["messages"][0]["content"]
        shown = {"plain": -0.2, "maybe": -1.8} if ROW in prompt else {"plain": -1.2, "odd": -0.4}
        top = [{"token": token, "logprob": score} for token, score in shown.items()]
        logprobs = {"content": [{**top[0], "top_logprobs": top}]}
        message = {"role": "assistant", "content": "plain"}
        reply = {"choices": [{"index": 0, "message": message, "logprobs": logprobs}]}
        return HttpReply(200, {"content-type": "application/json"}, json.dumps(reply).encode())

    async def close(self) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[OpenAIModel]:
    can = Capabilities.parse("chat,top_logprobs=2,first_tokens_differ")
    model = OpenAIModel(
        "m", Endpoint(("http://127.0.0.1:9/v1",), capabilities=can, transport=TopTokens())
    )
    yield model
    model.close()


def test_a_label_that_the_endpoint_hides_counts_minus_c(
    endpoint: OpenAIModel, tmp_path: Path
) -> None:
    """It failed the whole answer of a product of experts, after the spend."""
    mechanism = ProductOfExperts(1.0, clip=2.0)
    (before,), (after,) = (
        mechanism.collect(LABELS, [Job(rows, Query(QUERY))], [0], endpoint)
        for rows in (HARMLESS, ONE_ROW)
    )
    assert isinstance(before, Vector)
    assert isinstance(after, Vector)
    each = np.asarray(before.values) / len(HARMLESS)
    np.testing.assert_allclose(np.asarray(after.values) - 7 * each, [0.0, -2.0], atol=1e-6)
    answer = served(tmp_path, mechanism, LABELS, endpoint).answer(QUERY)
    assert answer.text in LABELS.labels


def test_a_hidden_label_is_still_refused_where_nothing_is_guaranteed(endpoint: OpenAIModel) -> None:
    jobs = [Job(ONE_ROW, Query(QUERY))]
    with pytest.raises(TargetError, match="label number 2 of 2 is not one of the next tokens"):
        MECHANISMS["context_influence_decoding"]().collect(LABELS, jobs, [0], endpoint)


def test_experts_without_any_score_count_minus_c_for_every_candidate() -> None:
    nothing = [[math.nan, math.nan], [-math.inf, -math.inf], [-1e30, -1e30]]
    assert clip_log_probabilities(nothing, 2.0).tolist() == [[-2.0, -2.0]] * 3
    shown = clip_log_probabilities([[math.inf, 0.0], [0.0, math.nan]], 2.0)
    assert shown.tolist() == [[0.0, -2.0], [0.0, -2.0]]


def test_an_answer_that_cannot_be_embedded_counts_as_zero() -> None:
    script = Scripted(complete=lambda p: ROW if ROW in p else "x", embed=lambda t: [3.0, 4.0])
    mechanism = EmbeddingMean(1.0, 4, clip=1.0)
    model = Provider(script, FAILURES[0], lambda text: text == ROW)
    (found,) = mechanism.collect(LABELS, [Job(ONE_ROW, Query(QUERY))], [0], model)
    np.testing.assert_allclose(found.values, np.array([0.6, 0.8]) * 3 / 4)  # type: ignore[union-attr]


class OwnText(str):
    def strip(self, *given: Any) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (ScoreLabels("-", ("a", "b")), ["x", "y"]),
        (ScoreLabels("-", ("a", "b")), [10**400, 0]),
        (Complete("-"), OwnText("odd ")),
    ],
)
def test_a_reply_of_another_kind_fails_no_answer(request_: Request[Any], reply: Any) -> None:
    """For one row, the model gave such a reply: HTTP 500 after the payment."""

    class Odd(Wrapper):
        def answer(self, requests: Sequence[Request[R]], /) -> list[R]:
            return [reply for _ in requests]

    (found,) = TotalModel(Odd(Scripted(str))).answer([request_])
    assert found.strip() == "odd" if isinstance(found, str) else np.isnan(found).all()


def test_a_query_of_signs_has_keywords_all_the_same(tmp_path: Path) -> None:
    """The domain was empty, which failed after the spend."""
    model = Scripted(complete=lambda prompt: "!")
    for selection in ("gaussian", "joint_exponential"):
        mechanism = KeywordMean(1.0, 4, selection=selection)  # type: ignore[arg-type]
        assert served(tmp_path, mechanism, FREE, model).answer("?!").text == "!"


def test_a_total_model_gives_a_value_for_every_kind_of_request() -> None:
    model = TotalModel(Provider(Scripted(), FAILURES[0], lambda text: True))
    requests: list[Request[Any]] = [
        Complete("p"), ScoreLabels("p", ("a", "b")), NextLogits("p"), Embed("p")
    ]  # fmt: skip
    text, scores, logits, embedding = model.answer(requests)
    assert text == ""
    assert np.isnan(scores).tolist() == [True, True]
    assert (logits.shape, embedding.shape) == ((1, 0), (0,))
    assert model.answer([]) == []


# --- room is reserved at load


class Bytes(Scripted):
    """Tokens are characters; a window of so many words, as in `Scripted`."""

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))

    def text(self, ids: Sequence[int]) -> str:
        return "".join(map(chr, ids))

    def end_ids(self) -> frozenset[int]:
        return frozenset()


def letters(window: int) -> Bytes:
    return Bytes(
        complete=lambda prompt: "plain",
        label_scores=lambda prompt, labels: [0.0] * len(labels),
        next_logits=lambda prompt, response: [[0.0] * 128],
        window=window,
    )


@pytest.mark.parametrize("name", ["product_of_experts", "bounded_cid"])
def test_free_answers_reserve_their_tokens_at_load(name: str, tmp_path: Path) -> None:
    """500 new tokens were accepted against a window of 200, and failed after the spend."""
    kind, model = MECHANISMS[name], letters(200)
    with pytest.raises(TargetError, match=r"all new tokens may not fit .*Even with blank"):
        served(tmp_path, kind(epsilon=4.0, tokens=500), FREE, model, longest=20)
    short = served(tmp_path, kind(epsilon=4.0, tokens=2), FREE, model, longest=20)
    assert short.answer("x").spent > 0


@pytest.mark.parametrize(("name", "at_once"), [("product_of_experts", 1), ("bounded_cid", 8)])
def test_free_queries_have_room_where_labels_are_answered(
    name: str, at_once: int, tmp_path: Path
) -> None:
    """They passed at load unseen: the rows fit beside a label, and not beside 60 new tokens."""
    rows = tuple(Example("word " * 60 + str(i), "odd") for i in range(8))
    longest = str(LABELS.prompt(rows[:at_once], Query("word " * 4)))
    kind, model = MECHANISMS[name], letters(len(longest.split()) + 30)
    with pytest.raises(TargetError, match="leave long rows out"):
        served(tmp_path, kind(epsilon=4.0, tokens=60), LABELS, model, rows, longest=20)
    few = served(tmp_path, kind(epsilon=4.0, tokens=20), LABELS, model, rows, longest=20)
    assert few.check(Query("x", free=True))
    none = served(tmp_path, kind(epsilon=4.0, tokens=2000), LABELS, model, rows, longest=20)
    assert none.check("x")
    with pytest.raises(TargetError):  # with blank examples, as with any rows
        none.check(Query("x", free=True))


def test_a_query_counts_with_its_own_answers(tmp_path: Path) -> None:
    private = served(tmp_path, MECHANISMS["bounded_cid"](4.0), LABELS, letters(400), longest=20)
    private.check(Query("x" * 10, ("a" * 5, "b" * 5)))
    with pytest.raises(UsageError, match="has 21 bytes"):
        private.check(Query("x" * 10, ("a" * 5, "b" * 6)))


def test_synthetic_shots_check_the_prompts_of_every_label(tmp_path: Path) -> None:
    """Those of the first label alone were checked: a long row of another failed after the spend."""
    long = Example("word " * 500, "odd")
    mechanism = SyntheticShots(1.0, 4, tokens=2)
    served(tmp_path, mechanism, LABELS, letters(400), HARMLESS, longest=20).answer("x")
    with pytest.raises(TargetError, match="leave long rows out") as refused:
        served(tmp_path, mechanism, LABELS, letters(400), (*HARMLESS, long), longest=20)
    assert not any(digits in str(refused.value) for digits in ("500", "51"))  # how long it is


def test_the_answer_from_synthetic_shots_has_room_too(tmp_path: Path) -> None:
    """8 shots of 2 labels are 16 examples of up to 12 tokens behind one another."""
    mechanism = SyntheticShots(1.0, 4, shots=8, tokens=12)
    with pytest.raises(TargetError, match="Even with blank examples"):
        served(tmp_path, mechanism, LABELS, letters(400), HARMLESS, longest=20)


def test_room_for_new_tokens_changes_no_answer_and_no_key(pocket: Model) -> None:
    assert NextLogits("p", (), 500) == NextLogits("p")
    assert hash(NextLogits("p", (), 500)) == hash(NextLogits("p"))
    pocket.check([NextLogits("p", (), 2000)])
    with pytest.raises(TargetError, match="the window of pocket is 2048"):
        pocket.check([NextLogits("p", (), 2048)])
