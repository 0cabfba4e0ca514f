"""Where a key goes, and where prompts go at all; addresses as Azure has them; lists of prices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leakbound import probe
from leakbound.cli import main
from leakbound.errors import UsageError
from leakbound.models import Capabilities, Complete, Dialect, Embed, Endpoint
from leakbound.models.http.transport import HttpReply
from leakbound.models.openai import PriceList, open_endpoint
from leakbound.models.openai.endpoint import key_from_environment

OPENAI, OTHER = "https://api.openai.com/v1", "https://llm.example.com/v1"
AZURE = "https://mine.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21"
NAMES = ("OPENAI_API_KEY", "LEAKBOUND_API_KEY", "MY_KEY")


class Kept:
    """A transport that keeps what it was sent and answers with one word."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Mapping[str, str], dict[str, Any]]] = []

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        self.sent.append((url, headers, json.loads(body or b"")))
        choice = {"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 100}
        reply = {"choices": [choice], "data": [{"embedding": [1.0]}], "usage": usage}
        return HttpReply(200, {"content-type": "application/json"}, json.dumps(reply).encode())

    async def close(self) -> None: ...


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, f"key-of-{name}")


def sent(*urls: str, model: str = "m", **options: Any) -> tuple[str, Mapping[str, str], Any]:
    transport = Kept()
    found = open_endpoint(model, Endpoint(urls, transport=transport, **options))
    assert found.answer([Complete("a")]) == ["yes"]
    found.close()
    return transport.sent[0]


# --- keys


@pytest.mark.parametrize(
    ("urls", "options", "key"),
    [
        ((), {}, "key-of-OPENAI_API_KEY"),
        ((OPENAI,), {}, "key-of-OPENAI_API_KEY"),
        (("https://eu.api.openai.com/v1",), {}, "key-of-OPENAI_API_KEY"),
        ((OTHER,), {}, "key-of-LEAKBOUND_API_KEY"),
        (("http://127.0.0.1:9/v1",), {}, "key-of-LEAKBOUND_API_KEY"),
        (("https://api.openai.com.example.com/v1",), {}, "key-of-LEAKBOUND_API_KEY"),
        ((OPENAI, OTHER), {}, "key-of-LEAKBOUND_API_KEY"),
        ((OTHER,), {"key_env": "MY_KEY"}, "key-of-MY_KEY"),
        ((), {"key_env": "MY_KEY"}, "key-of-MY_KEY"),
    ],
)
def test_a_key_goes_to_its_own_host(urls: Any, options: Any, key: str) -> None:
    _, headers, _ = sent(*urls, **options)
    assert headers["authorization"] == f"Bearer {key}"


def test_the_key_of_openai_goes_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKBOUND_API_KEY")
    _, headers, _ = sent("http://127.0.0.1:9/v1")
    assert "authorization" not in headers
    assert key_from_environment(Endpoint((OTHER,))) is None
    assert key_from_environment() == "key-of-OPENAI_API_KEY"


def test_a_named_key_that_is_not_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(UsageError, match="--key-env names the environment variable 'MY_KEY'"):
        key_from_environment(Endpoint(key_env="MY_KEY"))


# --- plain http


@pytest.mark.parametrize("url", ["http://llm.example.com/v1", "http://10.0.0.7:8000/v1"])
def test_prompts_go_over_plain_http_on_this_machine_only(url: str) -> None:
    with pytest.raises(UsageError, match="--insecure"):
        Endpoint((url,))
    with pytest.raises(UsageError, match="or insecure if you trust"):
        probe("openai/m", base_url=url)
    assert Endpoint((url,), insecure=True).urls == (url,)
    for local in ("http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:1/v1"):
        assert Endpoint((local,)).urls == (local,)


def test_plain_http_is_refused_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--model", "openai/m", "--base-url", "http://10.0.0.7/v1", "--pairs", "2"]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert "plain http to another machine" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        main([*words, "--insecure"])
    assert end.value.code == 0


# --- Azure


def test_azure_gets_its_version_and_its_header() -> None:
    url, headers, _ = sent(AZURE, key_env="MY_KEY")
    assert url == (
        "https://mine.openai.azure.com/openai/deployments/gpt/chat/completions"
        "?api-version=2024-10-21"
    )
    assert headers["api-key"] == "key-of-MY_KEY"
    assert "authorization" not in headers
    url, headers, _ = sent("https://mine.openai.azure.com/openai/v1/")
    assert url == "https://mine.openai.azure.com/openai/v1/chat/completions"
    assert headers["api-key"] == "key-of-LEAKBOUND_API_KEY"


@pytest.mark.parametrize("query", ["api-key=secret", "api-version=1&api-key=secret", "sig=secret"])
def test_another_query_is_a_secret_and_is_refused(query: str) -> None:
    with pytest.raises(UsageError) as error:
        Endpoint((f"https://mine.openai.azure.com/openai?{query}",))
    assert "secret" not in str(error.value)


# --- parameters


def test_parameters_are_renamed_left_out_and_added() -> None:
    dialect = Dialect.parse(
        ["max_completion_tokens=16", "reasoning_effort=low"], ["temperature", "top_p"]
    )
    _, _, body = sent(dialect=dialect)
    assert body == {
        "model": "m", "messages": [{"role": "user", "content": "a"}], "stop": ["\n"],
        "stream": False, "max_completion_tokens": 16, "reasoning_effort": "low",
    }  # fmt: skip
    _, _, body = sent(dialect=Dialect(rename={"max_tokens": "max_completion_tokens"}))
    assert body["max_completion_tokens"] == 48
    assert "max_tokens" not in body


def test_requests_for_scores_keep_their_one_token() -> None:
    transport = Kept()
    can = Capabilities(embeddings=True)
    dialect = Dialect({"max_completion_tokens": 4096}, ("encoding_format",))
    found = open_endpoint("m", Endpoint(capabilities=can, dialect=dialect, transport=transport))
    assert found.answer([Embed("a")])[0].tolist() == [1.0]
    found.close()
    assert transport.sent[0][2] == {"model": "m", "input": "a"}


def test_a_dialect_is_part_of_what_answers() -> None:
    plain, other = (
        open_endpoint("m", Endpoint(dialect=d)) for d in (Dialect(), Dialect(omit=("stop",)))
    )
    assert plain.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"params": ["model=x"]}, "model says what a request asks about"),
        ({"params": ["n=2"]}, "n says what"),
        ({"params": ["temperature"]}, "NAME=VALUE"),
        ({"params": ["a=1", "a=2"]}, "twice"),
        ({"omit": ["messages"]}, "'messages' cannot be left out"),
        ({"omit": ["temprature"]}, "'temprature' cannot be left out"),
        ({"params": ["stop=x"], "omit": ["stop"]}, "left out and given"),
        ({"rename": ["max_tokens=messages"]}, "messages says what"),
    ],
)
def test_a_dialect_that_would_ask_something_else_is_refused(options: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Dialect.parse(**options)


def test_a_configuration_file_says_how_a_model_is_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "audit.yaml"
    file.write_text(
        "model: openai/gpt-5\npairs: 2\nendpoint:\n  param: {max_completion_tokens: 4096}\n"
        "  omit: [temperature, top_p]\n  max_cost: 9\n"
    )
    with pytest.raises(SystemExit):
        main(["plan", "--config", str(file)])
    plenty = _cost(capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["plan", "--config", str(file), "--param", "max_completion_tokens=16"])
    assert _cost(capsys.readouterr().out) < plenty / 5  # the command line wins
    file.write_text("model: openai/gpt-5\nendpoint: {api_key: sk-1}\n")
    with pytest.raises(SystemExit) as end:
        main(["plan", "--config", str(file)])
    assert end.value.code == 2
    assert "api_key" in capsys.readouterr().err


def _cost(plan: str) -> float:
    return float(plan.partition("at most $")[2].split(",")[0])


# --- prices


def test_prices_have_a_date_and_a_file_may_give_others(tmp_path: Path) -> None:
    text = '{"as_of": "2026-11-20", "hosts": {"*": {"m": [1, 10]}}}'
    listed = PriceList.read(text, "mine.json")
    assert Endpoint((OTHER,), prices=listed).price("m") == (1.0, 10.0)
    assert Endpoint((OTHER,), prices=listed).price_date("m") == "2026-11-20"
    transport = Kept()
    endpoint = Endpoint((OTHER,), prices=listed, transport=transport)
    found = open_endpoint("m", endpoint)
    found.answer([Complete("a")])
    found.close()
    assert "cost $0.0020 (prices of 2026-11-20)" in endpoint.meter.line()


def test_models_that_reason_have_prices_and_releases_have_those_of_their_model() -> None:
    assert Endpoint().price("gpt-5") == (1.25, 10.0)
    assert Endpoint().price("o3") == (2.0, 8.0)
    assert Endpoint().price("gpt-5-mini-2025-08-07") == Endpoint().price("gpt-5-mini")
    assert Endpoint().price_date("gpt-5") >= "2026-11"
    assert Endpoint(price_in=1, price_out=2).price_date("gpt-5") == ""


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"hosts": {}}', '{"as_of": "soon", "hosts": {}}',
     '{"as_of": "2026-01-01", "hosts": {"*": {"m": [1]}}}',
     '{"as_of": "2026-01-01", "hosts": {"*": {"m": [-1, 2]}}}'],
)  # fmt: skip
def test_a_file_that_is_no_price_list_is_a_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="price list"):
        PriceList.read(text, "prices.json")


def test_a_limit_on_money_needs_a_limit_on_tokens() -> None:
    with pytest.raises(UsageError, match="max_completion_tokens=NUMBER"):
        Endpoint(max_cost=1.0, dialect=Dialect(omit=("max_tokens",))).price("gpt-5")
    bounded = Dialect({"max_completion_tokens": 16}, ("max_tokens",))
    assert Endpoint(max_cost=1.0, dialect=bounded).price("gpt-5") is not None
