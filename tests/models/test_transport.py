"""The boundary to HTTP: another transport in its place, and the default one on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from limits import PATIENCE

from leakbound.errors import Refused, TargetError
from leakbound.models import Complete, Endpoint, open_model
from leakbound.models.http.blocking import LoopThread, run_blocking
from leakbound.models.http.transport import AiohttpTransport, HttpReply, TransportError
from leakbound.models.openai import OpenAIModel
from leakbound.models.probe import probe_endpoint

SECRET = "zanzibar-4417"
BLANKS = b" " * 2**16
NOWHERE = (
    "http://127.0.0.1:9/v1"  # nobody listens there, and the in-memory transport never connects
)


class InMemory:
    """A hand-written transport: answers a chat with the prompt backwards."""

    def __init__(self, fail: Callable[[int], HttpReply | TransportError | None] = lambda n: None):
        self.fail, self.closed = fail, 0
        self.sent: list[tuple[str, str, Mapping[str, str], float]] = []

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        self.sent.append((method, url, headers, timeout))
        found = self.fail(len(self.sent))
        if isinstance(found, TransportError):
            raise found
        if found is not None:
            return found
        return HttpReply(200, {"Content-Type": "application/json; charset=utf-8"}, _reply(body))

    async def close(self) -> None:
        self.closed += 1


def _reply(body: bytes | None) -> bytes:
    prompt = json.loads(body or b"")["messages"][0]["content"]
    choice = {"index": 0, "message": {"role": "assistant", "content": prompt[::-1]}}
    return json.dumps({"choices": [choice]}).encode()


# --- another transport in its place


def test_a_model_answers_through_the_transport_that_it_is_given() -> None:
    transport = InMemory()
    endpoint = Endpoint((NOWHERE,), timeout=70.0, transport=transport)
    model = open_model("openai/parrot", endpoint=endpoint)
    assert model.answer([Complete("ab"), Complete("cd")]) == ["ba", "dc"]
    assert {call[:2] for call in transport.sent} == {("POST", f"{NOWHERE}/chat/completions")}
    assert {call[3] for call in transport.sent} == {70.0}
    assert transport.closed == 0


def test_closing_a_model_closes_its_transport_and_it_opens_again() -> None:
    transport = InMemory()
    model = OpenAIModel("parrot", Endpoint((NOWHERE,), transport=transport), "sk-1")
    for closed in (1, 2):
        assert model.answer([Complete("ab")]) == ["ba"]
        model.close()
        assert transport.closed == closed
    assert all(call[2]["authorization"] == "Bearer sk-1" for call in transport.sent)


@pytest.mark.parametrize(
    ("kind", "billed"),
    [("timeout", 1), ("no connection", 0), ("a reply cut off", 1), ("a connection lost", 1)],
)
def test_every_failure_of_a_transport_is_tried_again(kind: Any, billed: int) -> None:
    transport = InMemory(lambda number: TransportError(kind) if number == 1 else None)
    endpoint = Endpoint((NOWHERE,), transport=transport)
    assert OpenAIModel("parrot", endpoint).answer([Complete("ab")]) == ["ba"]
    assert (endpoint.meter.requests, endpoint.meter.retries) == (2, 1)
    assert endpoint.meter.unmetered == 1 + billed  # the try, if it may be charged, and the reply


def test_a_redirect_is_a_refusal_whoever_sends() -> None:
    transport = InMemory(lambda n: HttpReply(302, {"Location": "http://elsewhere/"}, b""))
    with pytest.raises(Refused, match="redirects"):
        OpenAIModel("parrot", Endpoint((NOWHERE,), transport=transport)).answer([Complete("ab")])
    assert len(transport.sent) == 1


def test_probe_asks_through_the_transport_that_it_is_given() -> None:
    transport = InMemory(
        lambda n: None if transport.sent[-1][1].endswith("/chat/completions") else NOT_THERE
    )
    record = probe_endpoint("parrot", Endpoint((NOWHERE,), transport=transport))
    assert record.holds("chat")
    assert not record.holds("completions")
    assert record.requests == len(transport.sent)
    assert transport.closed == 1


NOT_THERE = HttpReply(404, {}, b"")


def test_probe_works_where_an_event_loop_runs_already() -> None:
    """As in a cell of a notebook."""

    async def cell() -> Any:
        return probe_endpoint("parrot", Endpoint((NOWHERE,), transport=InMemory(chat_only)))

    def chat_only(number: int) -> HttpReply | None:
        return None if number == 1 else NOT_THERE

    assert asyncio.run(cell()).holds("chat")


def test_a_reply_shows_no_body_and_finds_headers_in_any_case() -> None:
    reply = HttpReply(200, {"Retry-After": "3"}, SECRET.encode())
    assert SECRET not in repr(reply)
    assert reply.header("retry-after") == "3"
    assert reply.header("content-type") is None


# --- the default transport, against a real server


class Server(ThreadingHTTPServer):
    """Keeps what it was sent; `/moved` redirects, `/cut` stops half way, `/slow` waits."""

    daemon_threads = True
    request_queue_size = 128  # of 5, connections that find no place come again after a second

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.connections: set[Any] = set()
        self.slow = threading.Event()
        self.flood = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *about: Any) -> None:
        """A client that went away is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two packets: the second waits 40 ms

    def _do(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        self.server.connections.add(self.client_address)
        if self.path == "/slow":
            self.server.slow.wait(PATIENCE)
        if self.path.startswith("/blanks"):
            return self._blanks()
        self.send_response(307 if self.path == "/moved" else 200)
        self.send_header("Location", "/")
        self.send_header("Set-Cookie", "session=one; Path=/")
        self.send_header("Content-Length", "10" if self.path == "/cut" else "2")
        self.end_headers()
        self.wfile.write(b"ok")
        self.close_connection = self.path == "/cut"

    def _blanks(self) -> None:
        """A reply that begins like JSON and never ends; `flood` counts what the client took."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while self.server.flood < 2**28:
                self.wfile.write(BLANKS)
                self.server.flood += len(BLANKS)

    do_GET = do_POST = do_PUT = do_DELETE = _do

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever, args=(0.02,))
    thread.start()
    yield found
    found.slow.set()
    found.shutdown()
    thread.join()
    found.server_close()


def fetch(url: str, times: int = 1, transport: AiohttpTransport | None = None) -> list[HttpReply]:
    async def all_of_them() -> list[HttpReply]:
        used = transport or AiohttpTransport()
        try:
            return [
                await used.send("POST", url, {"x-mine": "1"}, b"{}", 20.0) for _ in range(times)
            ]
        finally:
            await used.close()

    return asyncio.run(all_of_them())


def test_a_request_goes_out_as_it_is_and_connections_are_kept(server: Server) -> None:
    replies = fetch(f"{server.url}/a?b=c", times=3)
    assert [(reply.status, reply.body) for reply in replies] == [(200, b"ok")] * 3
    method, path, headers, body = server.seen[0]
    assert (method, path, body, headers["x-mine"]) == ("POST", "/a?b=c", b"{}", "1")
    assert len(server.connections) == 1


def test_no_redirect_is_followed(server: Server) -> None:
    assert fetch(f"{server.url}/moved")[0].status == 307
    assert len(server.seen) == 1


def test_no_proxy_and_no_netrc_of_the_environment_is_used(
    server: Server, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, NOWHERE)
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert fetch(server.url)[0].status == 200
    assert "Authorization" not in server.seen[0][2]


@pytest.mark.parametrize("cookies", [False, True])
def test_cookies_are_sent_back_only_where_they_are_wanted(server: Server, cookies: bool) -> None:
    transport = AiohttpTransport(cookies=cookies)
    fetch(server.url, times=2, transport=transport)
    fetch(server.url, transport=transport)
    sent = [headers.get("Cookie") for _, _, headers, _ in server.seen]
    assert sent == [None, "session=one" if cookies else None, None]


def test_one_transport_serves_several_loops_at_once(server: Server) -> None:
    transport = AiohttpTransport()
    threads = [
        threading.Thread(target=fetch, args=(server.url, 20, transport), daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.seen) == 80


@pytest.mark.parametrize(
    ("path", "timeout", "kind"),
    [("/cut", 20.0, "a reply cut off"), ("/slow", 0.05, "timeout")],
)
def test_failures_are_named(server: Server, path: str, timeout: float, kind: str) -> None:
    async def send() -> None:
        transport = AiohttpTransport()
        try:
            await transport.send("GET", server.url + path, {}, None, timeout)
        finally:
            await transport.close()

    with pytest.raises(TransportError) as error:
        asyncio.run(send())
    assert error.value.kind == kind


def test_a_reply_without_end_is_given_up_in_bounded_memory(server: Server) -> None:
    """The server would send 256 MiB; what it could send before the end is what sockets buffer."""
    limit = 2**20
    tracemalloc.start()
    try:
        with pytest.raises(TransportError) as error:
            fetch(f"{server.url}/blanks", transport=AiohttpTransport(most_bytes=limit))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.value.kind == "a reply too long"
    assert peak < 8 * limit
    assert server.flood < 2**26


def test_an_endpoint_that_floods_is_a_sentence_after_its_retries(server: Server) -> None:
    transport = AiohttpTransport(most_bytes=2**16)
    endpoint = Endpoint((f"{server.url}/blanks",), retries=1, transport=transport)
    with pytest.raises(TargetError, match="a reply too long"):
        OpenAIModel("m", endpoint).answer([Complete("ab")])
    assert server.flood < 2**27


def test_a_reply_as_long_as_the_limit_is_read(server: Server) -> None:
    assert fetch(server.url, transport=AiohttpTransport(most_bytes=2))[0].body == b"ok"


def test_nobody_there_is_named() -> None:
    with pytest.raises(TransportError) as error:
        fetch(NOWHERE)
    assert error.value.kind == "no connection"


# --- synchronous callers


def test_work_is_run_and_its_error_raised_with_and_without_a_running_loop() -> None:
    async def fails() -> None:
        raise TargetError("a reason")

    async def answers() -> int:
        await asyncio.sleep(0)
        return 7

    async def cell() -> int:
        with pytest.raises(TargetError, match="a reason"):
            run_blocking(fails())
        return run_blocking(answers())

    assert run_blocking(answers()) == asyncio.run(cell()) == 7
    with pytest.raises(TargetError, match="a reason"):
        run_blocking(fails())


def test_a_loop_thread_ends_its_work_and_closes_what_it_is_told_to() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def close() -> None:
        ended.append("transport")

    thread = LoopThread("test", close)
    future = asyncio.run_coroutine_threadsafe(forever(), thread.loop)
    thread.run(asyncio.sleep(0))
    thread.close()
    thread.close()
    assert ended == ["work", "transport"]
    assert future.cancelled()
    assert thread.loop.is_closed()
