"""The client with servers that work:

addresses, connections, what is sent and kept away, money and time.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Any

import pytest
from limits import expires

from leakbound.errors import LimitReached, UsageError
from leakbound.models import Complete, Endpoint
from leakbound.models.openai import OpenAIModel, open_endpoint
from leakbound.models.openai.client import Client
from leakbound.models.openai.requests import http_request_for

pytest.importorskip("uvicorn")

from loopback.parrot import Parrot
from loopback.running import running

KEY = "sk-kept-away-from-everything-1234"
SECRET = "zanzibar-4417"


def requests(count: int) -> list[Complete]:
    return [Complete(f"message {i} {SECRET}") for i in range(count)]


def answers(count: int) -> list[str]:
    return [request.prompt[::-1] for request in requests(count)]  # type: ignore[misc]


def model(*urls: str, key: str | None = None, **options: Any) -> OpenAIModel:
    return OpenAIModel("parrot", Endpoint(urls, **options), key)


# --- addresses and connections


@pytest.mark.parametrize("connections", [1, 5])
def test_never_more_requests_at_once_than_connections(connections: int) -> None:
    parrot = Parrot(pause=0.01)
    with running(parrot) as url:
        asked = model(url, connections=connections)
        assert asked.answer(requests(40)) == answers(40)
        asked.close()
    assert parrot.most == connections


def test_requests_are_spread_and_a_broken_address_gets_few() -> None:
    first, second, broken = (
        Parrot(pause=0.005),
        Parrot(pause=0.005),
        Parrot(change=lambda number, reply: (500, {})),
    )
    with running(first) as a, running(second) as b, running(broken) as c:
        asked = model(a, b, c, connections=6, retries=20)
        assert asked.answer(requests(120)) == answers(120)
        asked.close()
    assert min(len(first.prompts), len(second.prompts)) >= 30
    assert len(broken.prompts) < 20


def test_a_reply_that_is_read_slowly_holds_up_no_other() -> None:
    """It was read in the loop of all: the others' time ended, though their replies were there."""
    both = threading.Barrier(2)

    def read(reply: object) -> bool:
        both.wait(expires(5.0))  # of the old code, where the second one is never read
        return True

    can = Endpoint().capabilities
    asked = [replace(http_request_for(one, "parrot", can), read=read) for one in requests(2)]
    with running(Parrot()) as url:
        client = Client("parrot", Endpoint((url,)))
        assert client.send(asked) == [True, True]
        client.close()


def test_equal_asks_are_sent_once() -> None:
    parrot = Parrot()
    with running(parrot) as url:
        asked = model(url)
        assert asked.answer([*requests(3), *requests(3)]) == answers(3) * 2
        asked.close()
        assert len(parrot.prompts) == 3
        assert asked.answer(requests(1)) == answers(1), "a closed model opens again"
        asked.close()


def test_several_threads_share_a_model() -> None:
    found: dict[int, list[str]] = {}
    with running(Parrot(pause=0.002)) as url:
        asked = model(url, connections=8)

        def work(at: int) -> None:
            found[at] = asked.answer(requests(20)[at:])

        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked.close()
    assert found == {at: answers(20)[at:] for at in range(4)}


# --- what is sent, and what is kept away


def test_sampling_is_said_aloud() -> None:
    parrot = Parrot()
    with running(parrot) as url:
        asked = model(url)
        asked.answer([Complete("a", max_tokens=7, stop=("\n", "END"))])
        asked.close()
    sent = parrot.bodies[0]
    told = {
        name: sent[name]
        for name in ("model", "max_tokens", "temperature", "top_p", "stop", "stream")
    }
    assert told == {
        "model": "parrot",
        "max_tokens": 7,
        "temperature": 0.0,
        "top_p": 1.0,
        "stop": ["\n", "END"],
        "stream": False,
    }
    assert "seed" not in sent


def test_text_after_a_stop_that_the_server_overlooked_is_cut() -> None:
    with running(Parrot()) as url:
        asked = model(url)
        assert asked.answer([Complete("ab\ncd")]) == ["dc"]
        asked.close()


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")
    monkeypatch.setenv("LEAKBOUND_API_KEY", KEY)
    parrot = Parrot()
    with caplog.at_level(logging.DEBUG), running(parrot) as url:
        asked = open_endpoint("parrot", Endpoint((url,)))
        asked.answer(requests(1))
        parts = (asked.endpoint, asked.client, vars(asked), asked.name, asked.endpoint.meter)
        shown = f"{asked!r} {asked.fingerprint} {parts!r}"
        asked.close()
    assert parrot.headers[0][b"authorization"] == f"Bearer {KEY}".encode()
    assert KEY not in shown + caplog.text
    assert SECRET not in shown + caplog.text


def test_a_key_that_cannot_be_sent_is_refused_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOUND_API_KEY", f"{KEY}\nx: y")
    with pytest.raises(UsageError) as error:
        open_endpoint("parrot", Endpoint(("http://127.0.0.1:1/v1",)))
    assert KEY not in str(error.value)


def test_without_address_and_key_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("LEAKBOUND_API_KEY", raising=False)
    with pytest.raises(UsageError, match="--base-url"):
        open_endpoint("gpt-4o-mini", Endpoint())


@pytest.mark.parametrize(
    "url",
    [
        "http://user:word@127.0.0.1/v1", "http://127.0.0.1/v1?key=word", "ftp://host", "host:80",
        "http://", "http://user:word@host:99999/v1", "user:word@host/v1",
        "http://user:word@[host/v1", "host?key=word",
    ],
)  # fmt: skip
def test_addresses_that_hold_secrets_or_are_none_are_refused(url: str) -> None:
    with pytest.raises(UsageError) as error:
        Endpoint((url,))
    assert "word" not in str(error.value).replace("password", "")


# --- money and time


def test_tokens_and_money_are_counted() -> None:
    with running(Parrot()) as url:
        asked = model(url, price_in=100.0, price_out=1000.0)
        asked.answer(requests(5))
        asked.close()
    meter = asked.endpoint.meter
    assert (meter.requests, meter.prompt_tokens, meter.completion_tokens) == (5, 50, 10)
    assert meter.cost == pytest.approx(5 * (10 * 100 + 2 * 1000) / 1e6)
    assert meter.reserved == pytest.approx(0.0, abs=1e-12)
    assert "cost $0.0150" in meter.line()


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    with running(Parrot(usage=False)) as url:
        asked = model(url)
        asked.answer(requests(2))
        asked.close()
    assert "cost unknown" in asked.endpoint.meter.line()
    assert "2 of them without usage" in asked.endpoint.meter.line()


@pytest.mark.parametrize("usage", [True, False])
def test_the_limit_on_the_cost_is_never_exceeded(usage: bool) -> None:
    parrot = Parrot(pause=0.002, usage=usage)
    with running(parrot) as url:
        asked = model(url, price_in=1000.0, price_out=1000.0, max_cost=1.0, connections=4)
        with pytest.raises(LimitReached, match=r"\$1 \(--max-cost\)") as error:
            asked.answer(requests(200))
        asked.close()
    most = asked.http_request(requests(200)[-1]).size
    dearest = 1000 * sum(most) / 1e6
    spent = 1000 * (12 if usage else sum(most)) / 1e6 * len(parrot.prompts)
    assert 1.0 - 4.5 * dearest <= spent <= 1.0 + 1e-9
    assert error.value.exit_code == 130


def test_the_limit_on_time_ends_the_run() -> None:
    with running(Parrot(pause=0.05)) as url:
        asked = model(url, connections=2, max_minutes=0.2 / 60)
        with pytest.raises(LimitReached, match="--max-minutes"):
            asked.answer(requests(200))
        asked.close()


def test_a_limit_on_an_unknown_price_is_refused() -> None:
    with pytest.raises(UsageError, match="price of parrot is unknown"):
        model("http://127.0.0.1:1/v1", max_cost=1.0)


def test_listed_prices_hold_at_the_makers_own_host_only() -> None:
    assert Endpoint().price("gpt-4o-mini") == (0.15, 0.6)
    assert Endpoint(price_out=7).price("gpt-4o-mini") == (0.15, 7)
    assert Endpoint(("http://127.0.0.1:1/v1",)).price("gpt-4o-mini") is None
    assert (
        Endpoint(("https://api.openai.com/v1", "http://127.0.0.1:1/v1")).price("gpt-4o-mini")
        is None
    )
