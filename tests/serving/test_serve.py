"""The server and `leakbound answer` as users meet them:

real processes, the official client, planted canaries.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
import services
from commands import cli
from services import ASK, BASE, CHAT, ROWS, TOKEN, send

from leakbound.cli.main import group
from leakbound.mechanisms import ReportNoisyMax
from leakbound.models import Model
from leakbound.serving import PrivateICL, application
from leakbound.serving.ledger import Ledger
from leakbound.tasks import Aggregate, Job, Task, Votes

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
openai = pytest.importorskip("openai")

pytestmark = pytest.mark.process

CANARY = "zanzibar-4417"
AGGREGATE = 314159265


# --- in this process


@dataclass(frozen=True, slots=True)
class Planted(ReportNoisyMax):
    """Its aggregate is a number that can be searched for; or it fails with private text in the
    message.
    """

    fails: bool = False

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        if self.fails:
            raise KeyError(f"{jobs[0].context[0].input} {AGGREGATE}")
        return [Votes((AGGREGATE, 0, 0))]


def private(tmp_path: Path, budget: float = 1.0, fails: bool = False) -> PrivateICL:
    sigma = ReportNoisyMax.calibrated(1.0, 1e-5).sigma
    return services.private(tmp_path, budget, Planted(sigma, 10, fails=fails))


def test_one_request_gets_an_answer_and_its_price(tmp_path: Path) -> None:
    (reply,) = send(private(tmp_path), {"json": ASK})
    body = reply.json()
    assert (reply.status_code, body["object"], body["model"]) == (
        200,
        "chat.completion",
        "support-desk",
    )
    message = {"role": "assistant", "content": "odd", "refusal": None}
    assert body["choices"][0]["message"] == message
    assert body["leakbound"] == {
        "epsilon_spent": pytest.approx(1.0), "epsilon_remaining": pytest.approx(0.0, abs=1e-9),
        "delta": 1e-5, "answered": True,
    }  # fmt: skip
    assert set(body["usage"].values()) == {0}


def test_a_stream_is_the_answer_its_price_and_the_end(tmp_path: Path) -> None:
    (reply,) = send(private(tmp_path), {"json": {**ASK, "stream": True}})
    assert reply.headers["content-type"].startswith("text/event-stream")
    *chunks, last = reply.text.strip().split("\n\n")
    assert last == "data: [DONE]"
    first, end = (json.loads(chunk.removeprefix("data: ")) for chunk in chunks)
    assert first["choices"][0]["delta"]["content"] == "odd"
    assert end["choices"][0]["finish_reason"] == "stop"
    assert end["leakbound"]["epsilon_spent"] == pytest.approx(1.0)


@dataclass(frozen=True, slots=True)
class Unreadable(ReportNoisyMax):
    """Every partition's reply is unreadable, far above the noise."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        return [Votes((0, 0, AGGREGATE))]


def test_an_output_that_is_no_answer_says_so_and_costs_the_same(tmp_path: Path) -> None:
    """ "(no answer)" was served as the text of an answer, with nothing that told it from one."""
    served = services.private(tmp_path, 9.0, Unreadable(ReportNoisyMax.calibrated(1.0, 1e-5).sigma))
    chat, stream, text, response = send(
        served,
        {"json": ASK},
        {"json": {**ASK, "stream": True}},
        {"url": "/v1/completions", "json": {"prompt": "what is this"}},
        {"url": "/v1/responses", "json": {"input": "what is this"}},
    )
    message = chat.json()["choices"][0]["message"]
    assert message["content"] == "(no answer)"
    assert message["refusal"].startswith("There is no answer")
    assert message["refusal"] in stream.text
    answered = [reply.json()["leakbound"]["answered"] for reply in (chat, text, response)]
    assert (answered, served.state.answers) == ([False] * 3, 4)


BAD: list[tuple[int, dict[str, Any], str]] = [
    (400, {"content": b"{", "headers": {"content-type": "application/json"}}, "is not JSON"),
    (400, {"content": b"[" * 60_000, "headers": {"content-type": "application/json"}},
     "is not JSON"),
    (400, {"content": json.dumps(ASK), "headers": {"content-type": "text/plain"}}, "content type"),
    (400, {"json": ASK, "headers": {"transfer-encoding": "chunked"}}, "send one of them"),
    (400, {"json": []}, "must be an object"),
    (400, {"json": {}}, "messages is missing"),
    (400, {"json": {"messages": "hi"}}, "must be a list"),
    (400, {"json": {"messages": []}}, "no message of the role user"),
    (400, {"json": {"messages": [{"role": "system", "content": "x"}]}},
     "no message of the role user"),
    (400, {"json": {"messages": [{"role": "user"}]}}, "is not text"),
    (400, {"json": {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}},
     "is not text"),
    (400, {"json": {"messages": [{"role": "user", "content": ""}]}}, "it must have text"),
    (400, {"json": {"messages": [{"role": "user", "content": "x" * 1001}]}}, "at most 1000 bytes"),
    (400, {"json": {**ASK, "n": 2}}, "n is 2; it must be 1"),
    (400, {"json": {**ASK, "tools": [{"type": "function"}]}}, "calls no tool"),
    (400, {"json": {**ASK, "logprobs": True}}, "logprobs is true"),
    (400, {"json": {**ASK, "response_format": {"type": "json_object"}}},
     "an answer is a text"),
    (413, {"json": {**ASK, "user": "u" * 65_536}}, "larger than 65536 bytes"),
    (401, {"json": ASK, "headers": {"host": "evil.example:8000"}}, "name of this machine"),
    (401, {"json": ASK, "headers": {"host": "evil.example:"}}, "only to the name of this machine"),
    (401, {"json": ASK, "headers": {"host": "evil.example/127.0.0.1"}}, "only, and only"),
    (405, {"method": "GET", "url": "/v1/completions"}, "there is only"),
    (404, {"method": "GET", "url": "/v1/embeddings"}, "there is only"),
    (405, {"method": "GET"}, "there is only"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("client", "status"),
    [(("127.0.0.1", 9), 200), (("::1", 9), 200), (("203.0.113.9", 9), 401), (None, 401)],
)
def test_without_a_token_the_connection_comes_from_this_machine(
    tmp_path: Path, client: Any, status: int
) -> None:
    """The Host header alone decided, and whoever connects chooses it."""
    served = private(tmp_path)
    transport = httpx.ASGITransport(application(served), client=client)

    async def ask() -> int:
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as remote:
            return (await remote.post(CHAT, json=ASK)).status_code

    assert asyncio.run(ask()) == status
    assert served.state.answers == (status == 200)


@pytest.mark.parametrize(
    ("status", "request_", "sentence"), BAD, ids=[f"{b[0]} {b[2]}" for b in BAD]
)
def test_bad_requests_cost_nothing(
    tmp_path: Path, status: int, request_: dict[str, Any], sentence: str
) -> None:
    served = private(tmp_path)
    (reply,) = send(served, request_)
    assert reply.status_code == status, reply.text
    assert sentence in reply.json()["error"]["message"]
    assert served.state.answers == 0


def test_requests_at_once_get_what_is_affordable_and_the_model_one_at_a_time(
    tmp_path: Path,
) -> None:
    inside, most = [0], [0]
    served = private(tmp_path, 1.5)
    real = served.answer

    def answer(query: Any, paying: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.01)
        try:
            return real(query, paying)
        finally:
            inside[0] -= 1

    served.answer = answer  # type: ignore[method-assign]
    replies = send(served, *[{"json": ASK}] * 12)
    assert sorted(reply.status_code for reply in replies) == [200] * 2 + [403] * 10
    assert most == [1]


def test_a_token_is_required_where_there_is_one(tmp_path: Path) -> None:
    served = private(tmp_path, float("inf"))
    tries = [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer é"},
    ]
    tries.append({"authorization": f"Bearer {TOKEN}", "host": "elsewhere.example"})
    requests = [{"json": ASK, "headers": {k: v.encode() for k, v in h.items()}} for h in tries]
    models = {"method": "GET", "url": "/v1/models"}
    replies = send(served, *requests, models, {"method": "GET", "url": "/healthz"}, token=TOKEN)
    assert [reply.status_code for reply in replies] == [401, 401, 401, 401, 200, 401, 200]
    assert served.state.answers == 1
    assert TOKEN not in "".join(reply.text for reply in replies)


def test_nothing_private_is_in_replies_or_logs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    good = send(
        private(tmp_path), {"json": ASK}, {"json": ASK}, {"json": {}}, {"url": "/", "method": "GET"}
    )
    (tmp_path / "more").mkdir()
    bad = send(private(tmp_path / "more", fails=True), {"json": ASK}, {"json": ASK})
    assert sorted(reply.status_code for reply in good) == [200, 400, 403, 404]
    assert sorted(reply.status_code for reply in bad) == [403, 500]
    assert "KeyError" not in "".join(reply.text for reply in bad)
    assert "KeyError" in caplog.text
    told = caplog.text + "".join(reply.text + str(reply.headers) for reply in good + bad)
    assert not any(secret in told for secret in (CANARY, str(AGGREGATE), "row 0"))


# --- real processes


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with private rows, and a system that fails with private text in its message."""
    rows = [json.dumps({"text": row.input, "label": row.label}) for row in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    copy = ROWS[2].input.upper().replace(" ", "  ")  # another spelling of the third row
    rows.append(json.dumps({"text": copy, "label": ROWS[2].label}))
    (tmp_path / "copies.jsonl").write_text("\n".join(rows))
    (tmp_path / "raises.py").write_text(
        "def f(context, query):\n    raise KeyError(context[0].input)\n"
    )
    (tmp_path / "dies.py").write_text("import os\ndef f(context, query):\n    os._exit(9)\n")
    return tmp_path


ROUNDS = ("--data", "rows.jsonl", "--labels", "odd,plain", "--mechanism", "report_noisy_max",
          "--model", "pocket")  # fmt: skip
COPIES = ("--data", "copies.jsonl", *ROUNDS[2:])
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


Start = Callable[..., tuple[str, Path]]


@pytest.fixture
def serve(desk: Path) -> Iterator[Start]:
    """Starts `leakbound serve` on a free port; gives its address and its log, and ends it
    afterwards.
    """
    running: list[subprocess.Popen[bytes]] = []

    def start(*args: str, **environment: str) -> tuple[str, Path]:
        log = desk / f"log{len(running)}"
        now = ("--reply-after", "off", "--port", "0")
        command = [sys.executable, "-m", "leakbound", "serve", *now, *args]
        with log.open("wb") as out:
            running.append(
                subprocess.Popen(
                    command, cwd=desk, stdout=out, stderr=out, env={**ENVIRONMENT, **environment}
                )
            )
        return address(log, running[-1]), log

    yield start
    for process in running:
        process.terminate()
        process.wait()


def address(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the server says it listens."""
    for _ in range(3000):
        if found := re.search(r"https?://[\d.]+:\d+", log.read_text()):
            return found[0]
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@pytest.mark.slow
@pytest.mark.torch
def test_the_official_client_works_unchanged(serve: Start) -> None:
    url, log = serve(*ROUNDS, "--budget", "1.5", "--by-content", LEAKBOUND_TOKEN=TOKEN)
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=TOKEN, max_retries=0)
    assert [model.id for model in client.models.list()] == ["leakbound"]
    turn = [{"role": "user", "content": "what is this"}]
    answer = client.chat.completions.create(model="leakbound", messages=turn)
    texts = [answer.choices[0].message.content]
    assert answer.leakbound["epsilon_spent"] == pytest.approx(1.0)
    chunks = list(client.chat.completions.create(model="leakbound", messages=turn, stream=True))
    texts.append("".join(chunk.choices[0].delta.content or "" for chunk in chunks))
    assert set(texts) <= {"plain", "odd", "(no answer)"}
    with pytest.raises(
        openai.PermissionDeniedError, match="does not allow another answer"
    ) as spent:
        client.chat.completions.create(model="leakbound", messages=turn)
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0).models.list()
    with pytest.raises(openai.BadRequestError, match="n is 2"):
        client.chat.completions.create(model="leakbound", messages=turn, n=2)
    client.close()
    told = (
        log.read_text() + answer.model_dump_json() + "".join(map(repr, chunks)) + str(spent.value)
    )
    assert CANARY not in told
    assert TOKEN not in told
    assert "One answer of report_noisy_max costs ε = 1 at δ = 1e-05." in log.read_text()
    assert "buys 2 answers from the data set 'default'; 0 were given" in log.read_text()
    assert "leakbound audit --mechanism report_noisy_max:partitions=" in log.read_text()


@pytest.mark.slow
def test_a_failing_system_tells_a_tenant_and_the_log_nothing(serve: Start, desk: Path) -> None:
    """Over TLS, with what the command line says about tenants, state and time."""
    cert, key = services.certificate(desk)
    tenants = desk / "tenants.toml"
    tenants.write_text(f'[tenants.support]\ntoken = "{TOKEN}"\nanswers = 5\nrate = 60\n')
    tenants.chmod(0o600)
    url, log = serve(
        "--data", "rows.jsonl", "--system", "python:raises.py:f", "--budget", "inf",
        "--tenants", "tenants.toml", "--tls-cert", cert.name, "--tls-key", key.name,
        "--state", "state.sqlite", "--request-timeout", "60",
    )  # fmt: skip
    options: dict[str, Any] = {
        "headers": {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"},
        "verify": ssl.create_default_context(cafile=str(cert)), "timeout": None,
    }  # fmt: skip
    reply = httpx.post(f"{url}/v1/chat/completions", json=ASK, **options)
    assert (reply.status_code, reply.json()["error"]["type"]) == (500, "server_error")
    big = httpx.post(f"{url}/v1/chat/completions", content=b"x" * 70_000, **options)
    assert big.status_code == 413
    assert "SystemFailed" in log.read_text()
    assert "Tenant support: at most 5 answers, 60 requests a minute." in log.read_text()
    assert CANARY not in log.read_text() + reply.text + big.text
    assert TOKEN not in log.read_text()
    assert "Traceback" not in log.read_text()
    assert (desk / "state.sqlite").stat().st_mode & 0o077 == 0


def test_a_port_in_use_gets_a_sentence(desk: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        system = ("--system", "python:raises.py:f", "--budget", "inf")
        done = cli("serve", "--data", "rows.jsonl", *system, "--port", port, cwd=desk)
    assert done.returncode == 2, done.stderr
    assert f"cannot listen on 127.0.0.1, port {port}" in done.stderr


@pytest.mark.torch
def test_answer_prints_the_answer_and_the_price_and_exits_5_when_it_is_spent(desk: Path) -> None:
    first, second = (cli("answer", *ROUNDS, "what is this", cwd=desk) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout.strip() in ("plain", "odd", "(no answer)")
    assert "spent so far: ε = 1 at δ = 1e-05; remaining: 0" in first.stderr
    assert (second.returncode, second.stdout) == (5, "")
    assert "does not allow another answer" in second.stderr
    assert CANARY not in first.stderr + second.stderr


def test_a_crash_between_spend_and_release_has_lost_the_budget(desk: Path) -> None:
    system = ("--data", "rows.jsonl", "--system", "python:dies.py:f")
    args = ("answer", *system, "--budget", "inf", "what")
    assert cli(*args, cwd=desk).returncode == 9
    ledger = Ledger(desk / "leakbound-ledger.sqlite", float("inf"), 1e-5)
    assert ledger.state().answers == 1


REFUSED = [
    (("answer", "--data", "rows.jsonl", "--mechanism", "few_shot", "x"), 2, "--budget inf"),
    (("answer", *ROUNDS, "--shots", "21", "x"), 2, "the data has 20 rows"),
    (
        ("answer", *ROUNDS, "--shots", "5", "--set", "mechanism.partitions=10", "x"),
        2,
        "10 partitions need at least as many examples",
    ),
    (("answer", *ROUNDS, "--budget", "nan", "x"), 2, "epsilon is nan"),
    (("answer", *ROUNDS, "--ledger", "rows.jsonl", "x"), 2, "cannot be read or written"),
    (("answer", *ROUNDS, "--attack", "membership", "x"), 2, "No such option"),
    (("answer", *ROUNDS), 2, "Missing argument"),
    (("answer", *ROUNDS, "x" * 1001), 2, "at most 1000 bytes"),
    (("answer", *ROUNDS, "--longest-query", "5000", "x"), 4, "may not fit the model"),
    (("serve", *ROUNDS, "--host", "0.0.0.0"), 2, "LEAKBOUND_TOKEN"),
    (("serve", *ROUNDS, "--token", "x"), 2, "No such option"),
    (("serve", *ROUNDS), 2, "there is no --budget: it is the total epsilon of all answers"),
    (("serve", *ROUNDS), 2, "costs epsilon 1 at delta 1e-05; --budget 1 buys 1 answer"),
    (("serve", *ROUNDS, "--budget", "0.5"), 2, "--budget 0.5 buys no answer"),
    (
        ("serve", "--data", "rows.jsonl", "--mechanism", "few_shot", "--budget", "4"),
        2,
        "or --budget inf",
    ),
    (("serve", *ROUNDS, "--budget", "4"), 2, "needs --record-id COLUMN or --by-content: each"),
    (
        ("serve", *ROUNDS, "--budget", "inf", "--by-content", "--record-id", "id"),
        2,
        "--record-id and --by-content both say which record a row belongs to; leave one of them",
    ),
    *(
        (
            command,
            2,
            f"equal but for case and white space (numbers 3 and {len(ROWS) + 1}). A record",
        )
        for command in (
            ("answer", *COPIES, "x"),
            ("serve", *COPIES, "--budget", "4", "--by-content"),
        )
    ),
    (("serve", *ROUNDS, "--tls-cert", "x"), 2, "both --tls-cert and --tls-key"),
    (("serve", *ROUNDS, "--tls-cert", "x", "--tls-key", "y"), 2, "in PEM form"),
    (("serve", *ROUNDS, "--tenants", "none.toml"), 2, "cannot be read"),
    (("serve", *ROUNDS, "--ignore-field", "n"), 2, "is not one of"),
]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("args", "code", "sentence"), REFUSED, ids=[" ".join(r[0])[:60] for r in REFUSED]
)
def test_mistakes_get_a_sentence(
    desk: Path, args: tuple[str, ...], code: int, sentence: str
) -> None:
    done = cli(*args, cwd=desk)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_tokens_go_over_plain_http_on_this_machine_only(desk: Path) -> None:
    """Before, a token was enough to send answers over plain HTTP to anybody."""
    outside = ("serve", *ROUNDS, "--host", "0.0.0.0", "--budget", "0.5")
    plain = cli(*outside, cwd=desk, LEAKBOUND_TOKEN=TOKEN)
    assert plain.returncode == 2, plain.stderr
    assert "--tls-cert and --tls-key, or --behind-proxy" in plain.stderr
    behind_a_proxy = cli(*outside, "--behind-proxy", cwd=desk, LEAKBOUND_TOKEN=TOKEN)
    assert "buys no answer" in behind_a_proxy.stderr  # what is checked next
    both = cli(*outside, "--tenants", "t.toml", cwd=desk, LEAKBOUND_TOKEN=TOKEN)
    assert "--tenants and LEAKBOUND_TOKEN" in both.stderr


@pytest.mark.parametrize("name", ["answer", "serve"])
def test_what_an_audit_asks_is_no_option_of_a_private_answer(name: str) -> None:
    """--answers was offered, and ignored."""
    command = group.get_command(click.Context(group), name)
    assert command is not None
    offered = {flag for option in command.params for flag in option.opts}
    assert offered
    assert not offered & {"--answers", "--pairs", "--query", "--canary", "--score", "--estimator"}
