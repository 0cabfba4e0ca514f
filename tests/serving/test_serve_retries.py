"""A retry never buys a second answer by itself."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from limits import PATIENCE, expires
from services import ASK, CHAT, ROWS, TASK, TOKEN, private, running, send

from leakbound.errors import TargetError
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Scripted
from leakbound.serving import AnswerLost, PrivateICL, ServiceState, Tenant, Tenants, application
from leakbound.serving.http.calls import Call, ServiceCalls, request_digest
from leakbound.serving.http.formats import FORMATS
from leakbound.serving.ledger import Ledger

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")

TURN: list[Any] = [{"role": "user", "content": "what is this"}]


def keyed(key: str, body: dict[str, Any] = ASK, **headers: str) -> dict[str, Any]:
    return {"json": body, "headers": {"idempotency-key": key, **headers}}


def test_a_key_gets_the_same_answer_again_and_pays_once(tmp_path: Path) -> None:
    served = private(tmp_path, 99.0)
    app = application(served)
    replies = send(app, *[keyed("a")] * 3, keyed("b"))
    assert [reply.status_code for reply in replies] == [200] * 4
    assert len({reply.text for reply in replies[:3]}) == 1
    assert replies[3].json()["id"] != replies[0].json()["id"]
    assert served.state.answers == 2
    streamed = keyed("c", {**ASK, "stream": True})
    first, again = send(app, streamed, streamed)
    assert first.text == again.text
    assert served.state.answers == 3


def test_a_key_belongs_to_one_request_of_one_tenant(tmp_path: Path) -> None:
    served = private(tmp_path, 99.0)
    tenants = Tenants([Tenant("a", "a" * 20), Tenant("b", "b" * 20)])
    a, b = ({"authorization": f"Bearer {name * 20}"} for name in "ab")
    other = {**ASK, "messages": [{"role": "user", "content": "something else"}]}
    replies = send(served, keyed("k", **a), keyed("k", **b), keyed("k", other, **a),
                   keyed("k" * 256, **a), tenants=tenants)  # fmt: skip
    assert [reply.status_code for reply in replies] == [200, 200, 422, 400]
    assert replies[0].json()["id"] != replies[1].json()["id"]
    assert served.state.answers == 2


def test_a_refused_request_leaves_its_key_free(tmp_path: Path) -> None:
    served = private(tmp_path, 99.0)
    bad = {**ASK, "n": 2}
    tenants = Tenants([Tenant("a", TOKEN, answers=1)])
    mine = {"authorization": f"Bearer {TOKEN}"}
    replies = send(served, keyed("k", bad, **mine), keyed("k", **mine), keyed("l", **mine),
                   keyed("k", **mine), tenants=tenants)  # fmt: skip
    assert [reply.status_code for reply in replies] == [400, 200, 403, 200]
    assert replies[3].text == replies[1].text


def test_keys_survive_a_restart(tmp_path: Path) -> None:
    served = private(tmp_path, 99.0)
    (first,) = send(served, keyed("k"), state=ServiceState(tmp_path / "state"))
    (again,) = send(served, keyed("k"), state=ServiceState(tmp_path / "state"))
    assert again.text == first.text
    assert served.state.answers == 1


class Dies(ReportNoisyMax):
    """The process ends between the spend and the answer."""

    __slots__ = ()

    def collect(self, *args: Any) -> Any:
        os._exit(9)


def test_a_request_that_was_killed_after_the_spend_is_not_made_again(tmp_path: Path) -> None:
    """Both accounts were charged, and the retry of the key buys no second answer."""
    sigma, tenant = ReportNoisyMax.calibrated(1.0, 1e-5).sigma, Tenant("a", TOKEN)
    mine = {"authorization": f"Bearer {TOKEN}"}
    child = os.fork()
    if child == 0:
        state = ServiceState(tmp_path / "state")
        served = private(tmp_path, 99.0, Dies(sigma, 10))
        send(served, keyed("k", **mine), tenants=Tenants([tenant]), state=state)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    state, served = ServiceState(tmp_path / "state"), private(tmp_path, 99.0)
    assert (served.state.answers, state.answers(tenant)) == (1, 1)
    again, new = send(
        served, keyed("k", **mine), keyed("l", **mine), tenants=Tenants([tenant]), state=state
    )
    assert (again.status_code, again.headers["x-should-retry"]) == (409, "false")
    assert "use a new key" in again.text
    assert (new.status_code, served.state.answers) == (200, 2)


def test_keys_are_forgotten_by_number_and_by_age() -> None:
    now = [0.0]
    state = ServiceState(kept=3, seconds=100, clock=lambda: now[0])
    for number in range(5):
        assert state.begin("a", str(number), "d") is None
        state.end("a", str(number), "{}")
    assert [state.begin("a", key, "d") is None for key in ("4", "3", "0")] == [False, False, True]
    now[0] = 200.0
    assert state.begin("a", "4", "d") is None


class Lost(ReportNoisyMax):
    """Fails after the spend."""

    __slots__ = ()

    def collect(self, *args: Any) -> Any:
        raise KeyError("private text")


def test_the_official_client_pays_once_for_an_answer_that_fails(tmp_path: Path) -> None:
    """It retries errors of a server: one failing request bought three answers."""
    served = private(tmp_path, 99.0, Lost(ReportNoisyMax.calibrated(1.0, 1e-5).sigma, 10))
    with running(application(served, TOKEN)) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN)
        assert client.max_retries == 2
        with pytest.raises(openai.InternalServerError, match="stays spent") as error:
            client.chat.completions.create(model="x", messages=TURN)
        again = httpx.post(
            f"{url}{CHAT}", **keyed("k", authorization=f"Bearer {TOKEN}"), timeout=PATIENCE
        )
        twice = httpx.post(
            f"{url}{CHAT}", **keyed("k", authorization=f"Bearer {TOKEN}"), timeout=PATIENCE
        )
        client.close()
    assert error.value.response.headers["x-should-retry"] == "false"
    assert (again.status_code, twice.status_code, served.state.answers) == (500, 500, 2)
    assert "private text" not in str(error.value) + again.text


@pytest.mark.slow
def test_the_official_client_pays_once_when_its_time_runs_out(tmp_path: Path) -> None:
    """The retry of a client that went away gets the answer that it has paid for."""
    asked, calls = threading.Event(), itertools.count()

    def slow(prompt: str) -> str:
        if next(calls) == 1 and not asked.wait(PATIENCE):  # the first call is the public one
            raise AssertionError
        return "odd"

    served = private(tmp_path, 99.0, complete=slow)
    seen: list[httpx.Request] = []
    app = application(served, TOKEN)

    async def counted(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["path"])
        if len(seen) == 2:
            asked.set()
        await app(scope, receive, send)

    with running(counted) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, timeout=expires(2.0))
        reply = client.with_options(max_retries=5).chat.completions.create(model="x", messages=TURN)
        client.close()
    assert len(seen) >= 2
    assert reply.choices[0].message.content in ("odd", "plain", "(no answer)")
    assert served.state.answers == 1


def test_who_went_away_before_its_turn_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leakbound.serving.http.server import TimedProtocol

    inside, gone, gate = threading.Event(), threading.Event(), threading.Event()

    def waiting(prompt: str) -> str:
        inside.set()
        gate.wait(PATIENCE)
        return "odd"

    served = private(tmp_path, 99.0, complete=waiting)
    lost = TimedProtocol.connection_lost

    def noticed(self: TimedProtocol, exc: Exception | None) -> None:
        lost(self, exc)
        gone.set()

    monkeypatch.setattr(TimedProtocol, "connection_lost", noticed)

    async def three() -> int:
        async with httpx.AsyncClient(base_url=url, timeout=None) as client:
            first = asyncio.create_task(client.post(CHAT, json=ASK))
            assert await asyncio.to_thread(inside.wait, PATIENCE)
            away = httpx.Timeout(None, read=expires(0.3))
            with pytest.raises(httpx.ReadTimeout):
                await client.post(CHAT, json=ASK, timeout=away)
            assert await asyncio.to_thread(gone.wait, PATIENCE)
            gate.set()
            return (await first).status_code

    with running(application(served)) as url:
        assert asyncio.run(three()) == 200
        httpx.post(f"{url}{CHAT}", json=ASK, timeout=PATIENCE)
    assert served.state.answers == 2


def test_only_a_retry_gets_an_undelivered_answer_and_only_its_own(tmp_path: Path) -> None:
    calls = ServiceCalls(private(tmp_path, 99.0), ServiceState())
    form = FORMATS[0]

    def call(tenant: str, retried: bool, body: dict[str, Any] = ASK) -> Call:
        who = Tenant(tenant, TOKEN)
        return Call(who, form, body, request_digest(form, body), retried=retried)

    first = calls.answer(call("a", False))
    calls.keep_undelivered(call("a", False), first)
    other = {**ASK, "messages": [{"role": "user", "content": "else"}]}
    asked = [
        call("b", True), call("a", False), call("a", True, other), call("a", True), call("a", True)
    ]  # fmt: skip
    replies = [calls.answer(one) for one in asked]
    same = [reply.body["id"] == first.body["id"] for reply in replies]
    assert same == [False, False, False, True, False]


def test_an_endpoint_that_is_down_costs_nothing_and_leaves_the_key_free(tmp_path: Path) -> None:
    down = [True]

    def sometimes(prompt: str) -> str:
        if down[0]:
            raise TargetError("connection refused at a private address")
        return "odd"

    served, state, tenant = private(tmp_path, 99.0, complete=sometimes), ServiceState(), "a" * 20
    options: dict[str, Any] = {"tenants": Tenants([Tenant("a", tenant, answers=1)]), "state": state}
    mine = {"authorization": f"Bearer {tenant}"}
    (first,) = send(served, keyed("k", **mine), **options)
    assert first.status_code == 503
    assert "x-should-retry" not in first.headers
    assert "private address" not in first.text
    down[0] = False
    (second,) = send(served, keyed("k", **mine), **options)
    assert (second.status_code, served.state.answers) == (200, 1)


class Losing(PrivateICL):
    """Stands for whatever fails after the spend."""

    def answer(self, query: Any, paying: Any = None) -> Any:
        raise AnswerLost("a row")


def test_a_key_that_cannot_be_stored_is_not_made_again(tmp_path: Path) -> None:
    state = ServiceState(tmp_path / "state")
    served = Losing(ReportNoisyMax.calibrated(1.0, 1e-5), ROWS, TASK,
                       Scripted(complete=lambda prompt: "odd"),
                       Ledger(tmp_path / "ledger", 9.0, 1e-5))  # fmt: skip
    original = state.end
    state.end = lambda *args: state.begin("x", "y", None)  # type: ignore[method-assign,arg-type,return-value,assignment]
    (reply,) = send(served, keyed("k"), state=state)
    state.end = original  # type: ignore[method-assign]
    (again,) = send(served, keyed("k"), state=state)
    assert (reply.status_code, again.status_code) == (500, 409)
