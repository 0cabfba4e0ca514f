"""Systems behind HTTP, against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from limits import expires

from leakbound.auditing import make_spec, prepare, run_audit
from leakbound.errors import TargetError, UsageError
from leakbound.models import Scripted
from leakbound.models.http.transport import HttpReply
from leakbound.systems import CallOptions, SystemMechanism, load_http_system, load_system
from leakbound.systems.http.system import fill_slots
from leakbound.tasks import Context, Example, Job, Query, Task, Vector, Votes

TASK = Task("t", ("yes", "no"))
SECRET = "sk-zanzibar"


def chunks(pieces: list[str]) -> list[str]:
    """As a model server streams them; what is used comes in an event without text."""
    said = [{"choices": [{"delta": {"content": one}, "finish_reason": None}]} for one in pieces]
    ends = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"seconds": 1.5}}
    return [*map(json.dumps, [{"choices": [{"delta": {"role": "assistant"}}]}, *said, ends])]


STREAMED = {
    "/events": lambda pieces: (
        b": ping\r\n\r\n"
        + "".join(
            f"event: m\r\ndata: {one}\r\n\r\n" for one in [*chunks(pieces), "[DONE]"]
        ).encode()
    ),
    "/lines": lambda pieces: "\n".join(chunks(pieces)).encode(),
    "/texts": lambda pieces: "".join(f"data: {one}\n\n" for one in pieces).encode(),
    "/torn": lambda pieces: f'data: {chunks(pieces)[0]}\n\ndata: {{"choices": [\n\n'.encode(),
}


class Desk(ThreadingHTTPServer):
    """Answers yes if a row of the context stands in the query.

    `/ask` has the rows in its body, `/stored` those put in place before.
    """

    request_queue_size = 128  # of 5, connections that find no place come again after a second

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []
        self.stored: Any = None
        self.kept: list[Any] = []  # every upload to /memory
        self.cookies = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *about: Any) -> None:
        """A client that went away is what some tests are about."""

    def reply(self, path: str, body: Any) -> tuple[int, Any]:
        if path.startswith("/status"):
            return int(path.rpartition("/")[2]), {"error": f"the context was {body}"}
        if path == "/page":
            return 200, b"<html>"
        if path == "/docs":
            self.stored = body and body["rows"]
            return 200, {}
        if path == "/memory":
            self.kept += body["rows"]
        if path in STREAMED:
            found = any(row["input"] in str(body["messages"]) for row in body["rows"])
            return 200, STREAMED[path](["y", "es"] if found else ["n", "o"])
        rows = {"/ask": body.get("rows"), "/memory": self.kept}.get(path, self.stored)
        found = any(row["input"] in body["messages"][0]["content"] for row in rows)
        said = {"message": {"content": "yes" if found else "no"}}
        usage = {"completion_tokens": 2, "seconds": 1.5}
        calls = {"tool_calls": [{"function": {"name": "find"}}]} if found else {}
        return 200, {
            "choices": [{**said, **calls, "finish_reason": "stop"}],
            "scores": {"yes": float(found), "no": float(not found)},
            "usage": usage,
        }


class Handler(BaseHTTPRequestHandler):
    server: Desk

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        status, reply = self.server.reply(self.path.partition("?")[0], body)
        content = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        if status in (301, 307):
            self.send_header("Location", "/ask")
        if self.server.cookies:
            self.send_header("Set-Cookie", f"visit={len(self.server.seen)}; Path=/")
        if self.path in STREAMED:
            kind = "application/x-ndjson" if self.path == "/lines" else "text/event-stream"
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_DELETE = _do

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def desk() -> Iterator[Desk]:
    server = Desk()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


ASKING = {"messages": [{"role": "user", "content": "Question: {query}"}]}
TEXT = "choices.0.message.content"


ONCE = CallOptions(retries=0)


def system(
    tmp_path: Path, values: dict[str, Any], scored: bool = False, calls: CallOptions = ONCE
) -> Any:
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(values))
    return load_system(f"http:{tmp_path / 'desk.yaml'}", scored, calls=calls)


def job(text: str = "kite", query: str = "is kite there") -> Job:
    return Job((Example(text, "a"),), Query(query))


def test_rows_and_query_travel_in_one_request(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", SECRET)
    values = {
        "url": f"{desk.url}/ask", "headers": {"Authorization": "Bearer ${DESK_KEY}"},
        "answer": TEXT, "scores": "scores", "body": {"model": "m", "n": 1, "rows": "{rows}",
                                                     "text": "Notes:\n{context}", **ASKING},
    }  # fmt: skip
    one = system(tmp_path, values)
    assert one.collect(TASK, [job(), job("oar")], [0, 0], Scripted()) == [
        Votes((1, 0, 0)),
        Votes((0, 1, 0)),
    ]
    (found,) = [one for one in desk.seen if one[3]["rows"][0]["input"] == "kite"]  # sent at once
    _, _, headers, body = found
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert body["rows"] == [{"input": "kite", "label": "a"}]
    assert body["text"] == "Notes:\nInput: kite\nLabel: a\n\n"
    assert body["n"] == 1
    assert SECRET not in repr(one) + repr(one.system)
    assert system(tmp_path, values, scored=True).collect(TASK, [job()], [0], Scripted()) == [
        Vector((1.0, 0.0, 1.0, 0.0, 0.0))
    ]


@pytest.mark.parametrize(
    ("path", "answer"),
    [("events", "choices.0.delta.content"), ("lines", "choices.0.delta.content"), ("texts", "")],
)
def test_the_pieces_of_a_stream_are_one_answer(
    desk: Desk, tmp_path: Path, path: str, answer: str
) -> None:
    """Before, a service that streams could not be audited."""
    values = {"url": f"{desk.url}/{path}", "answer": answer, "body": {"rows": "{rows}", **ASKING}}
    one = system(tmp_path, values)
    votes = one.collect(TASK, [job(), job("oar")], [0, 0], Scripted())
    assert votes == [Votes((1, 0, 0)), Votes((0, 1, 0))]


def test_a_stream_that_is_cut_is_no_answer(desk: Desk, tmp_path: Path) -> None:
    values = {"url": f"{desk.url}/torn", "answer": "x", "body": {"rows": "{rows}", **ASKING}}
    with pytest.raises(TargetError, match="a stream that is not all JSON"):
        system(tmp_path, values).collect(TASK, [job()], [0], Scripted())


def stored(desk: Desk) -> dict[str, Any]:
    return {
        "url": f"{desk.url}/stored", "answer": TEXT, "body": ASKING,
        "setup": {"url": f"{desk.url}/docs", "method": "PUT", "body": {"rows": "{rows}"}},
        "teardown": {"url": f"{desk.url}/docs", "method": "DELETE"},
    }  # fmt: skip


def test_a_context_is_put_in_place_and_taken_away_around_each_question(
    desk: Desk, tmp_path: Path
) -> None:
    jobs = [job("kite"), job("oar"), job("kite")]
    found = system(tmp_path, stored(desk)).collect(TASK, jobs, [0] * 3, Scripted())
    assert found == [Votes((1, 0, 0)), Votes((0, 1, 0)), Votes((1, 0, 0))]
    assert [(method, path) for method, path, _, _ in desk.seen] == [
        ("PUT", "/docs"),
        ("POST", "/stored"),
        ("DELETE", "/docs"),
    ] * 3


def test_what_takes_the_context_away_of_one_question_does_not_meet_another(
    desk: Desk, tmp_path: Path
) -> None:
    values = {
        "url": f"{desk.url}/ask", "answer": TEXT, "body": {"rows": "{rows}", **ASKING},
        "teardown": {"url": f"{desk.url}/docs", "method": "DELETE"},
    }  # fmt: skip
    system(tmp_path, values).collect(TASK, [job()] * 4, [0] * 4, Scripted())
    assert [path for _, path, _, _ in desk.seen] == ["/ask", "/docs"] * 4


def test_a_context_is_taken_away_when_the_question_fails(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="status 500"):
        system(tmp_path, stored(desk) | {"url": f"{desk.url}/status/500"}).collect(
            TASK, [job()], [0], Scripted()
        )
    assert desk.seen[-1][:2] == ("DELETE", "/docs")
    assert desk.stored is None


@pytest.mark.slow
def test_an_audit_of_a_leaking_service_refutes_its_claim(
    desk: Desk, tmp_path: Path, rows: Context
) -> None:
    system(tmp_path, stored(desk))
    spec = make_spec(
        {"system": f"http:{tmp_path / 'desk.yaml'}", "pairs": 30, "shots": 4, "epsilon": 1.0}
    )
    record, _ = run_audit(prepare(spec, rows=rows), tmp_path / "runs")
    assert record.verdict == "violation"
    controls, trials, repeats = 16, 60, 30
    assert record.state is not None
    assert record.state.repeats == repeats, "it stores a context, so every first query is repeated"
    known = controls + trials + repeats
    assert known <= record.counts["model_calls"] <= known + 2 * repeats


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_a_service_that_keeps_every_upload_is_never_called_clean(
    desk: Desk, tmp_path: Path, rows: Context, seed: int
) -> None:
    """On the old code: "consistent", without a warning."""
    body = {"rows": "{rows}", **ASKING}
    system(tmp_path, {"url": f"{desk.url}/memory", "answer": TEXT, "body": body})
    spec = make_spec(
        {"system": f"http:{tmp_path / 'desk.yaml'}", "pairs": 60, "shots": 4, "seed": seed}
    )
    record, _ = run_audit(prepare(spec, rows=rows), tmp_path / "runs")
    assert record.verdict == "violation" or record.reason == "stateful_system"


TROUBLE = [
    ("/status/503", "answered with status 503"), ("/status/307", "answered with status 307"),
    ("/page", "answers with a web page; a service must answer with JSON"),
    ("/docs", "has nothing at 'choices.0.message.content'"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "sentence"), TROUBLE)
def test_trouble_is_told_by_status_or_type_never_by_body(
    desk: Desk, tmp_path: Path, path: str, sentence: str
) -> None:
    values = {
        "url": f"{desk.url}{path}?key={SECRET}",
        "answer": TEXT,
        "body": {"rows": "{rows}", **ASKING},
    }
    with pytest.raises(TargetError, match=sentence) as told:
        system(tmp_path, values).collect(TASK, [job()], [0], Scripted())
    assert "kite" not in str(told.value)
    assert SECRET not in str(told.value)
    assert len(desk.seen) == 1  # no redirect is followed


@pytest.mark.slow
def test_a_service_that_is_not_there_or_too_slow(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"url": "http://127.0.0.1:9/ask", "answer": TEXT, "body": {"rows": "{rows}", **ASKING}}
    with pytest.raises(TargetError, match=r"could not be asked \(no connection\)"):
        system(tmp_path, values).collect(TASK, [job()], [0], Scripted())
    gate = threading.Event()
    monkeypatch.setattr(desk, "reply", lambda path, body: (gate.wait(), (200, {}))[1])
    slow = system(
        tmp_path, values | {"url": f"{desk.url}/ask", "timeout": expires(2)}
    )  # time to connect
    with pytest.raises(TargetError, match=r"could not be asked \(timeout\)"):
        slow.collect(TASK, [job()], [0], Scripted())
    gate.set()


def test_no_proxy_is_used(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    values = {"url": f"{desk.url}/ask", "answer": TEXT, "body": {"rows": "{rows}", **ASKING}}
    assert system(tmp_path, values).collect(TASK, [job()], [0], Scripted()) == [Votes((1, 0, 0))]


GOOD = {"url": "http://h/p", "answer": "a", "body": {"q": "{query}", "c": "{context}"}}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"urll": "x"}, "'urll'"),
    ({"url": "ftp://h/p"}, "must be http://host"),
    ({"url": f"http://me:{SECRET}@h/p"}, "without a name or password"),
    ({"url": "http://h/${DESK_KEY}"}, "only headers are filled"),
    ({"headers": {"X-Api-Key": SECRET}}, "holds its secret; write"),
    ({"headers": {"X-Api-Key": "${NOT_SET_ANYWHERE}"}}, "NOT_SET_ANYWHERE, which is not set"),
    ({"body": {"q": "{query}"}}, 'must have "{query}" in its body, and "{context}"'),
    ({"body": {"c": "{context}"}}, "must have"),
    ({"body": {"q": "{query}", "c": ["{text}", "x"]}}, '"{text}" outside of a list of one item'),
    ({"body": {"{query}": "q", "c": "{context}"}}, "must have"),  # keys are not filled
    (
        {"body": {"q": "{query}", "c": "{context}", "day": date(2026, 1, 1)}},
        "wrong at 'body",
    ),  # no JSON
    ({"setup": {"url": "http://other/p"}}, "same host and port"),
    ({"teardown": {"url": "http://h:81/p"}}, "same host and port"),
    ({"method": "FETCH"}, "'method'"),
    ({"timeout": -1}, "'timeout'"),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG)
def test_a_wrong_file_is_refused_before_any_request(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError) as told:
        system(tmp_path, GOOD | change)
    assert sentence in str(told.value)
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is not YAML"),
        ("- a", "keys and values"),
        ("", "keys and values"),
        ("answer: text", r"has no 'url', .*; add a line such as 'url: http://"),
        ("url: http://a/b", "has no 'answer', .*; add a line such as 'answer: choices"),
        ("url: http://a/b\nanswer: x\nanswers: y", "has the key 'answers', .* one of url, method"),
        ("url: http://a/b\nanswer: x\nsetup: {body: 1}", "has no 'setup.url'"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(UsageError, match=sentence):
        load_system(f"http:{tmp_path / 'a.yaml'}")


@given(st.text(), st.text())
def test_what_is_filled_in_is_never_read_for_slots_or_quotes(query: str, context: str) -> None:
    template = {"q": "{query}", "both": ["<{context}|{query}>", 1, None], "{query}": "a key stays"}
    found = json.loads(json.dumps(fill_slots(template, {"query": query, "context": context})))
    assert found == {
        "q": query,
        "both": [f"<{context}|{query}>", 1, None],
        "{query}": "a key stays",
    }


# --- sessions


def test_a_session_answers_several_queries_over_one_context(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(stored(desk) | {"scores": "scores"}))
    session = load_http_system(tmp_path / "desk.yaml").open((Example("kite", "a"),))
    try:
        replies = [session.ask(query) for query in ("is kite there", "is oar there")]
    finally:
        session.close()
    session.close()
    assert [reply.text for reply in replies] == ["yes", "no"]
    assert [reply.scores for reply in replies] == [{"yes": 1.0, "no": 0.0}, {"yes": 0.0, "no": 1.0}]
    assert all(reply.seconds is not None and reply.seconds > 0 for reply in replies)
    assert [method for method, _, _, _ in desk.seen] == ["PUT", "POST", "POST", "DELETE"]


def test_metadata_of_a_reply_stands_where_the_file_says(desk: Desk, tmp_path: Path) -> None:
    paths = {
        "seconds": "usage.seconds",
        "tokens": "usage.completion_tokens",
        "finish_reason": "choices.0.finish_reason",
        "tool_calls": "choices.0.tool_calls",
    }
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(stored(desk) | paths))
    session = load_http_system(tmp_path / "desk.yaml").open((Example("kite", "a"),))
    found, other = session.ask("is kite there"), session.ask("is nothing there")
    session.close()
    assert (found.seconds, found.tokens, found.finish_reason) == (1.5, 2, "stop")
    assert found.tool_calls == ({"function": {"name": "find"}},)
    assert other.tool_calls is None  # a service may leave out what there is not


def test_sessions_work_where_an_event_loop_runs_already(desk: Desk, tmp_path: Path) -> None:
    """As in a cell of a notebook."""
    one = system(tmp_path, stored(desk))

    async def cell() -> Any:
        session = one.system.open((Example("kite", "a"),))
        try:
            by_hand = session.ask("is kite there").text
        finally:
            session.close()
        return by_hand, one.collect(TASK, [job(), job("oar")], [0, 0], Scripted())

    assert asyncio.run(cell()) == ("yes", [Votes((1, 0, 0)), Votes((0, 1, 0))])


def test_cookies_of_a_service_stay_within_their_session(desk: Desk, tmp_path: Path) -> None:
    desk.cookies = True
    system(tmp_path, stored(desk)).collect(TASK, [job(), job()], [0, 0], Scripted())
    sent = [headers.get("Cookie") for _, _, headers, _ in desk.seen]
    assert sent == [None, "visit=1", "visit=2", None, "visit=4", "visit=5"]


def test_a_setup_that_fails_is_taken_away_and_asks_nothing(desk: Desk, tmp_path: Path) -> None:
    """Each of the three: a setup may fail because of its context."""
    values = stored(desk)
    values["setup"]["url"] = f"{desk.url}/status/500"
    with pytest.raises(TargetError, match="status 500"):
        system(tmp_path, values).collect(TASK, [job()] * 3, [0] * 3, Scripted())
    assert [method for method, _, _, _ in desk.seen] == ["PUT", "DELETE"] * 3


class InMemory:
    """A hand-written transport: answers like `/ask` of the desk, and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, dict[str, str], Any]] = []
        self.closed = 0

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        await asyncio.sleep(0)
        assert self.closed == 0, "closed while a session was open"
        content = json.loads(body or b"{}")
        self.sent.append((method, url, dict(headers), content))
        asked = content["messages"][0]["content"]
        found = any(row["input"] in asked for row in content["rows"])
        said = {"choices": [{"message": {"content": "yes" if found else "no"}}]}
        return HttpReply(200, {}, json.dumps(said).encode())

    async def close(self) -> None:
        self.closed += 1


def test_a_system_asks_through_the_transport_that_it_is_given(tmp_path: Path) -> None:
    values = {"url": "http://127.0.0.1:9/ask", "method": "PUT", "answer": TEXT,
              "headers": {"X-Mine": "1"}, "body": {"rows": "{rows}", **ASKING}}  # fmt: skip
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(values))
    transport = InMemory()
    one = SystemMechanism(load_http_system(tmp_path / "desk.yaml", transport))
    jobs = [job(), job("oar")] * 20
    found = one.collect(TASK, jobs, range(40), Scripted())
    assert found == [Votes((1, 0, 0)), Votes((0, 1, 0))] * 20
    method, url, headers, _ = transport.sent[0]
    assert (method, url) == ("PUT", "http://127.0.0.1:9/ask")
    assert headers == {"content-type": "application/json", "X-Mine": "1"}
    assert transport.closed == 1


def test_a_secret_that_no_header_can_carry_is_refused_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_KEY", f"{SECRET}\r\nX-More: 1")
    with pytest.raises(UsageError, match="characters that no header has") as error:
        system(tmp_path, GOOD | {"headers": {"X-Api-Key": "${DESK_KEY}"}})
    assert SECRET not in str(error.value)


def test_rows_go_over_plain_http_to_this_machine_only(tmp_path: Path) -> None:
    """Rows and the key went to any host, readable on the way."""
    file = tmp_path / "desk.yaml"
    for url in ("http://localhost/p", "http://127.0.0.1:8000/p", "https://desk.example/p"):
        file.write_text(yaml.safe_dump({**GOOD, "url": url}))
        load_system(f"http:{file}")
    file.write_text(yaml.safe_dump({**GOOD, "url": "http://desk.example/p"}))
    with pytest.raises(UsageError, match=r"plain http to another machine.*insecure: true"):
        load_system(f"http:{file}")
    file.write_text(yaml.safe_dump({**GOOD, "url": "http://desk.example/p", "insecure": True}))
    load_system(f"http:{file}")
    file.write_text(yaml.safe_dump({**GOOD, "url": "http://a..b.localhost/p"}))
    with pytest.raises(UsageError, match="must be http://host"):
        load_system(f"http:{file}")
