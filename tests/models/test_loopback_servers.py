"""The servers that the tests of clients rely on speak as the real ones do, show each defect, and
make each fault.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import numpy as np
import pytest
from limits import PATIENCE

from leakbound.models import ScoreTokens

pytest.importorskip("torch")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")

from loopback.faults import FAULTS, Faults  # noqa: E402
from loopback.running import running  # noqa: E402
from loopback.speaking import speaking  # noqa: E402

pytestmark = pytest.mark.torch

TEXT = "The red kite flies over the bay and the wet road."


@pytest.fixture(scope="module")
def serve(pocket: Any) -> Iterator[Any]:
    """serve(dialect, **ways) -> a client of a new server."""
    with ExitStack() as stack:

        def start(dialect: str, **ways: Any) -> httpx.Client:
            url = stack.enter_context(running(speaking(pocket, dialect, **ways)))
            return stack.enter_context(
                httpx.Client(base_url=url.removesuffix("/v1"), timeout=PATIENCE)
            )

        yield start


def completion(client: httpx.Client, **fields: Any) -> Any:
    body = {"model": "pocket", "prompt": TEXT, "max_tokens": 4, "temperature": 0, **fields}
    reply = client.post("/v1/completions", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]


def truth(pocket: Any, text: str = TEXT) -> tuple[list[int], list[float]]:
    """The ids of a text, first token included, and the log-probability of each but the first."""
    ids = list(pocket.encode(text))
    (scores,) = pocket.answer([ScoreTokens(tuple(ids[:1]), tuple(ids[1:]))])
    return ids, [float(score) for score in scores]


def test_vllm_echoes_the_log_probability_of_every_token(serve: Any, pocket: Any) -> None:
    choice = completion(serve("vllm"), echo=True, logprobs=3, max_tokens=0)
    ids, scores = truth(pocket)
    logprobs = choice["logprobs"]
    assert logprobs["tokens"] == [pocket.tokenizer.decode([i]) for i in ids]
    assert logprobs["token_logprobs"][0] is None
    np.testing.assert_allclose(logprobs["token_logprobs"][1:], scores, atol=1e-4)
    for token, score, top in zip(
        *(logprobs[name][1:] for name in ("tokens", "token_logprobs", "top_logprobs")), strict=True
    ):
        assert top[token] == score
        assert 3 <= len(top) <= 4
        assert sum(map(math.exp, top.values())) <= 1 + 1e-9


def test_vllm_scores_a_prompt_of_token_ids(serve: Any, pocket: Any) -> None:
    ids, scores = truth(pocket)
    choice = completion(
        serve("vllm"), prompt=ids, prompt_logprobs=0, max_tokens=1, return_token_ids=True
    )
    assert choice["prompt_token_ids"] == ids
    assert choice["prompt_logprobs"][0] is None
    got = [entry[str(i)] for i, entry in zip(ids[1:], choice["prompt_logprobs"][1:], strict=True)]
    np.testing.assert_allclose([entry["logprob"] for entry in got], scores, atol=1e-4)
    assert all(set(entry) == {"logprob", "rank", "decoded_token"} for entry in got)


def test_llamacpp_echoes_in_place_and_one_token_too_early(serve: Any, pocket: Any) -> None:
    _, scores = truth(pocket)
    straight = completion(serve("llamacpp"), echo=True, logprobs=1, max_tokens=1)["logprobs"]
    assert straight["token_logprobs"][0] is None
    np.testing.assert_allclose(straight["token_logprobs"][1:-1], scores[1:], atol=1e-4)
    shifted = completion(serve("llamacpp", shift_echo=True), echo=True, logprobs=1, max_tokens=1)[
        "logprobs"
    ]
    assert shifted["tokens"] == straight["tokens"][:-1]
    assert np.abs(np.subtract(shifted["token_logprobs"][1:], scores[1:])).max() > 1


def test_bare_ignores_and_refuses_what_transformers_serve_does(serve: Any) -> None:
    client = serve("bare")
    hot = [completion(client, temperature=9.0, logprobs=2, echo=True) for _ in range(3)]
    assert all(
        choice["logprobs"] is None and choice["text"] == hot[0]["text"] != "" for choice in hot
    )
    assert TEXT not in hot[0]["text"]
    for prompt in ([TEXT], [1, 2, 3]):
        assert client.post("/v1/completions", json={"prompt": prompt}).status_code == 400
    assert (
        client.post("/v1/completions", json={"prompt": TEXT, "prompt_logprobs": 1}).status_code
        == 422
    )
    assert client.post("/v1/embeddings", json={"input": "a"}).status_code == 404
    assert client.get("/v1/models").status_code == 500


@pytest.mark.slow
def test_defects_can_be_asked_for(serve: Any) -> None:
    assert completion(serve("vllm", ignore_logprobs=True), logprobs=2)["logprobs"] is None
    seeded = {"temperature": 1.0, "max_tokens": 12, "seed": 5}
    fair = serve("vllm")
    assert completion(fair, **seeded)["text"] == completion(fair, **seeded)["text"]
    forgetful = serve("vllm", ignore_seed=True)
    assert len({completion(forgetful, **seeded)["text"] for _ in range(4)}) > 1
    cold = serve("vllm", ignore_temperature=True)
    assert len({completion(cold, **{**seeded, "seed": i})["text"] for i in range(3)}) == 1
    noisy = serve("vllm", noise=0.1)
    first, again = (completion(noisy, logprobs=1)["logprobs"]["token_logprobs"] for _ in range(2))
    assert 0.001 < np.abs(np.subtract(first, again)).max() < 2


def test_limits_can_be_set(serve: Any) -> None:
    strict = serve("vllm", top_k_cap=5, echo_limit=8)
    for fields in ({"logprobs": 6}, {"prompt_logprobs": 6}, {"echo": True, "logprobs": 1}):
        reply = strict.post(
            "/v1/completions", json={"model": "pocket", "prompt": TEXT, "max_tokens": 1, **fields}
        )
        assert reply.status_code == 400
        assert "error" in reply.json()
    top = completion(serve("llamacpp", top_k_cap=5), logprobs=50, max_tokens=1)["logprobs"][
        "top_logprobs"
    ][0]
    assert len(top) == 5
    locked = serve("vllm", key="secret")
    assert locked.get("/v1/models").status_code == 401
    assert (
        locked.get("/v1/models", headers={"authorization": "Bearer secret"}).json()["data"][0]["id"]
        == "pocket"
    )


def test_the_official_client_reads_chat_stream_and_embeddings(serve: Any) -> None:
    url = str(serve("vllm").base_url)
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    turn: Any = {
        "model": "pocket",
        "messages": [{"role": "user", "content": TEXT}],
        "max_tokens": 6,
        "temperature": 0,
    }
    reply = client.chat.completions.create(**turn, logprobs=True, top_logprobs=3)
    (first, *_) = reply.choices[0].logprobs.content
    assert first.logprob == max(entry.logprob for entry in first.top_logprobs)
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(**turn, stream=True)
    ]
    assert "".join(pieces) == reply.choices[0].message.content
    vectors = client.embeddings.create(
        model="pocket", input=["a kite", "a road"], encoding_format="float"
    ).data
    assert [len(vector.embedding) for vector in vectors] == [192, 192]
    client.close()


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_is_made(kind: str, pocket: Any) -> None:
    app = Faults(speaking(pocket, "vllm"), rate=1.0, kinds=(kind,), pause=0.05)
    body = {"model": "pocket", "prompt": TEXT, "max_tokens": 2, "logprobs": 1, "temperature": 0}
    with running(app) as url, httpx.Client(timeout=PATIENCE) as client:
        if kind == "reset":
            with pytest.raises(httpx.TransportError):
                client.post(f"{url}/completions", json=body)
            return
        reply = client.post(f"{url}/completions", json=body)
        assert client.get(f"{url}/models").status_code == 200
    SHOWS[kind](reply)
    assert app.log == [kind]


def shows(status: int, **headers: str) -> Any:
    def check(reply: httpx.Response) -> None:
        assert reply.status_code == status
        assert all(text in reply.headers[name.replace("_", "-")] for name, text in headers.items())

    return check


def broken(reply: httpx.Response) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(reply.text)


def has_nan(reply: httpx.Response) -> None:
    assert all(
        math.isnan(value)
        for value in json.loads(reply.text)["choices"][0]["logprobs"]["token_logprobs"]
    )


SHOWS: dict[str, Any] = {
    "too_many": shows(429, retry_after="0"), "too_many_until_date": shows(429, retry_after="GMT"),
    "error_500": shows(500), "error_503": shows(503), "truncated": broken, "doubled": broken,
    "nan": has_nan, "wrong_type": shows(200, content_type="text/plain"),
    "page_200": shows(200, content_type="html"), "page_502": shows(502, content_type="html"),
    "slow": lambda reply: reply.raise_for_status().json()["choices"][0],
    "no_choices": lambda reply: [].__eq__(reply.json()["choices"])
    or pytest.fail("there are choices"),
}  # fmt: skip


@pytest.mark.slow
def test_faults_come_at_their_rate_from_the_seed() -> None:
    def drawn(seed: int) -> list[Any]:
        faults = Faults(None, rate=0.3, seed=seed)
        return [faults.draw() for _ in range(200)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert 30 <= sum(kind is not None for kind in drawn(1)) <= 90
