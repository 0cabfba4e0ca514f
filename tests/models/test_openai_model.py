"""The pocket model behind an OpenAI-compatible server says and scores what it says and scores in
this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from leakbound.errors import TargetError
from leakbound.models import (
    Capabilities,
    Complete,
    Embed,
    Endpoint,
    NextLogits,
    ScoreLabels,
    ScoreTokens,
    require,
)
from leakbound.models.openai import OpenAIModel

pytest.importorskip("uvicorn")
pytest.importorskip("torch")

from loopback.faults import Faults
from loopback.running import running
from loopback.speaking import speaking

pytestmark = pytest.mark.torch

PROMPT = """Label each message with one of: billing, technical.

Message: my invoice is wrong
Label: billing

Message: it does not start
Label:"""
LABELS = ("billing", "technical")
TEXTS = [Complete(PROMPT, max_tokens=4), Complete(PROMPT[:80], max_tokens=8)]
SCORES = [ScoreLabels(PROMPT, LABELS), ScoreLabels(PROMPT + " x", LABELS)]
ALL = "completions,token_ids,seed,prompt_logprobs,embeddings"


@pytest.fixture(scope="module")
def vllm() -> Iterator[Any]:
    app = speaking(dialect="vllm")
    with running(app) as url:
        yield url, app.state.requests


def model(url: str, capabilities: str = "") -> OpenAIModel:
    return OpenAIModel("pocket", Endpoint((url,), capabilities=Capabilities.parse(capabilities)))


def asked(url: str, capabilities: str, requests: Any) -> Any:
    made = model(url, capabilities)
    try:
        return made.answer(requests)
    finally:
        made.close()


def near(found: Any, wanted: Any) -> None:
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-4)


def test_texts_are_the_same(vllm: Any, pocket: Any) -> None:
    assert asked(vllm[0], "completions", TEXTS) == pocket.answer(TEXTS)
    ids = [Complete(pocket.encode(one.prompt), max_tokens=one.max_tokens) for one in TEXTS]
    assert asked(vllm[0], "completions,token_ids", ids) == pocket.answer(ids)


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp", "bare"])
def test_chat_is_all_that_is_taken_for_granted(dialect: str, pocket: Any) -> None:
    with running(speaking(dialect=dialect)) as url:
        assert asked(url, "", TEXTS) == pocket.answer(TEXTS)
        assert model(url).supports == {Complete}


@pytest.mark.parametrize(
    "capabilities", ["completions,prompt_logprobs", "completions,echo,echo_shift=0"]
)
def test_scores_of_texts_are_the_same(capabilities: str, vllm: Any, pocket: Any) -> None:
    tokens = [ScoreTokens(PROMPT, "billing and technical"), ScoreTokens(PROMPT, " billing")]
    near(asked(vllm[0], capabilities, tokens), pocket.answer(tokens))
    near(asked(vllm[0], capabilities, SCORES), pocket.answer(SCORES))


def test_llama_cpp_scores_by_echo(pocket: Any) -> None:
    with running(speaking(dialect="llamacpp")) as url:
        near(asked(url, "completions,echo,echo_shift=0", SCORES), pocket.answer(SCORES))


def test_scores_of_token_ids_are_the_same(vllm: Any, pocket: Any) -> None:
    requests = [
        ScoreTokens(pocket.encode(PROMPT), pocket.encode_response(label)) for label in LABELS
    ]
    near(asked(vllm[0], ALL, requests), pocket.answer(requests))


def test_embeddings_are_the_same(vllm: Any, pocket: Any) -> None:
    requests = [Embed("my invoice"), Embed("it does not start")]
    near(asked(vllm[0], ALL, requests), pocket.answer(requests))


@pytest.mark.parametrize("way", ["", "completions,"])
def test_first_tokens_score_labels_where_that_is_stated(way: str, vllm: Any, pocket: Any) -> None:
    likeliest = (-pocket.answer([NextLogits(PROMPT)])[0][-1]).argsort()[:20]
    shown = [pocket.text((int(token),)) for token in likeliest]
    words = tuple(text.strip() for text in shown if text[:1] == " " and text.strip().isalpha())[:2]
    assert len(words) == 2
    found = asked(
        vllm[0], f"{way}top_logprobs=20,first_tokens_differ", [ScoreLabels(PROMPT, words)]
    )[0]
    near([found], [[pocket.answer([ScoreTokens(PROMPT, word)])[0][0] for word in words]])
    hidden = [ScoreLabels(PROMPT, ("billing", words[0]))]
    (scores,) = asked(vllm[0], f"{way}top_logprobs=20,first_tokens_differ", hidden)
    assert np.isnan(scores).tolist() == [True, False]


@pytest.mark.slow
def test_draws_are_seeded_and_differ(vllm: Any) -> None:
    url, sent = vllm
    requests = [
        Complete(PROMPT, max_tokens=12, temperature=3.0, draw=draw, stop=()) for draw in range(6)
    ]
    before = len(sent)
    first, second = asked(url, ALL, requests), asked(url, ALL, requests[::-1])[::-1]
    assert first == second
    assert len(set(first)) > 1
    assert len({body["seed"] for _, body in sent[before:]}) == 6


# --- refused before anything is sent


@pytest.mark.parametrize(
    ("capabilities", "refused", "said"),
    [
        ("", SCORES[0], "cannot answer ScoreLabels"),
        ("completions,echo", SCORES[0], "it is unknown whether"),
        ("completions,echo,echo_shift=1", SCORES[0], "one position late"),
        ("completions,top_logprobs=20", SCORES[0], "cannot answer ScoreLabels"),
        (ALL, NextLogits(PROMPT), "cannot answer NextLogits"),
        ("", Embed("a"), "--embedder"),
        ("completions", Complete((1, 2)), "do not include token ids"),
        ("token_ids", Complete((1, 2)), "do not include token ids"),
        (
            "completions,token_ids,echo,echo_shift=0",
            ScoreTokens((1, 2), (3,)),
            "only with prompt_logprobs",
        ),
        (ALL, ScoreTokens((1, 2), "a"), "token ids only after token ids"),
        (ALL, ScoreTokens("a", ""), "empty text"),
        (ALL, ScoreLabels("a", ("b", "")), "empty text"),
    ],
)
def test_what_an_endpoint_cannot_do_is_refused_unasked(
    capabilities: str, refused: Any, said: str
) -> None:
    nowhere = model("http://127.0.0.1:1/v1", capabilities)
    with pytest.raises(TargetError, match=said):
        nowhere.check([refused])
    with pytest.raises(TargetError, match=said):
        nowhere.answer([refused])
    assert nowhere.endpoint.meter.requests == 0


def test_a_mechanism_that_needs_more_is_refused_unasked() -> None:
    with pytest.raises(TargetError, match="needs ScoreLabels"):
        require(model("http://127.0.0.1:1/v1"), {ScoreLabels}, "product_of_experts")


@pytest.mark.parametrize(
    "capabilities", ["completions,prompt_logprobs", "completions,echo,echo_shift=0"]
)
def test_no_number_of_a_broken_reply_is_a_score(capabilities: str, pocket: Any) -> None:
    broken = ("nan", "truncated", "doubled", "no_choices")
    app = Faults(speaking(dialect="vllm"), rate=0.5, seed=2, kinds=broken)
    with running(app) as url:
        near(asked(url, capabilities, SCORES), pocket.answer(SCORES))
    assert set(app.log) & set(broken)


def test_a_server_that_ignores_echo_never_makes_a_score() -> None:
    with (
        running(speaking(dialect="llamacpp", ignore_echo=True)) as url,
        pytest.raises(TargetError, match="do not make up"),
    ):
        asked(url, "completions,echo,echo_shift=0", SCORES[:1])


# --- identity


def test_the_fingerprint_is_of_what_answers_and_not_of_the_road() -> None:
    here = OpenAIModel("pocket", Endpoint(("http://127.0.0.1:1/v1",), connections=1))
    there = OpenAIModel(
        "pocket",
        Endpoint(("http://127.0.0.1:2/v1",), connections=32, timeout=300, price_in=1, price_out=1),
    )
    other = OpenAIModel(
        "pocket", Endpoint(("http://127.0.0.1:1/v1",), capabilities=Capabilities(completions=True))
    )
    assert here.fingerprint == there.fingerprint
    assert here.fingerprint != other.fingerprint
    assert here.name == "openai/pocket"
