"""How long an answer takes tells nothing of the rows: every one leaves at the same time."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, get_args

import anyio
import numpy as np
import pytest
from click.testing import CliRunner
from commands import cli
from services import ASK, BASE, CHAT, ROWS, TASK, private, send

import leakbound
from leakbound.cli.main import group
from leakbound.cli.options.reply_time import answer_on_time
from leakbound.cli.verbs.protect import answer as answer_command
from leakbound.errors import BudgetExhausted, UsageError
from leakbound.mechanisms import ProductOfExperts, ReportNoisyMax
from leakbound.models import Scripted
from leakbound.models.openai.account import OUTCOMES
from leakbound.models.openai.replies import AnswerKind
from leakbound.serving import AnswerLost, Ledger, PrivateICL, ServiceState, application
from leakbound.tasks import Example

pytest.importorskip("starlette")
pytestmark = pytest.mark.process

AFTER = 0.5


def timed(served: Any, *requests: dict[str, Any], **options: Any) -> tuple[list[Any], float]:
    begin = time.monotonic()
    return send(served, *requests, **options), time.monotonic() - begin


def test_an_answer_leaves_at_its_time_and_a_refusal_at_once(tmp_path: Path) -> None:
    """Its time told how long the rows are: AUC .62 of one answer."""
    service = private(tmp_path, 9.0)
    replies, seconds = timed(service, {"json": ASK}, {"json": ASK}, reply_after=AFTER)
    assert [reply.status_code for reply in replies] == [200, 200]
    assert seconds >= 2 * AFTER
    (refused,), seconds = timed(service, {"json": {}}, reply_after=600.0)
    assert refused.status_code == 400


def test_a_late_answer_is_lost_and_ends_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ready, state = threading.Event(), tmp_path / "state"
    service = private(tmp_path, 9.0, complete=lambda prompt: str(ready.wait(4 * AFTER)))
    app = application(service, state=ServiceState(state), reply_after=AFTER)
    with caplog.at_level(logging.ERROR):
        (late,) = send(app, {"json": ASK})
        again, health = send(app, {"json": ASK}, {"method": "GET", "url": "/health"})
    ready.set()
    assert [one.status_code for one in (late, again, health)] == [503] * 3
    assert late.json() == again.json()
    assert "--reply-after" in late.json()["error"]["message"]
    assert late.headers["x-should-retry"] == "false"
    assert service.state.answers == 1
    assert len(caplog.records) == 1
    with pytest.raises(UsageError, match=r"an answer was not ready after 0\.5"):
        application(service, state=ServiceState(state), reply_after=AFTER)
    application(service, state=ServiceState(state), reply_after=2 * AFTER)


def test_another_server_of_the_same_state_answers_nothing_either(tmp_path: Path) -> None:
    """It took, paid and lost another answer."""
    ready, kept = threading.Event(), tmp_path / "state"
    slow = private(tmp_path, 9.0, complete=lambda prompt: str(ready.wait(4 * AFTER)))
    apps = [
        application(one, state=ServiceState(kept), reply_after=AFTER)
        for one in (slow, private(tmp_path, 9.0))
    ]
    (late,) = send(apps[0], {"json": ASK})
    ready.set()
    (other,) = send(apps[1], {"json": ASK})
    assert [late.status_code, other.status_code] == [503, 503]
    assert slow.state.answers == 1


def test_a_late_answer_leaves_after_a_whole_number_of_times(tmp_path: Path) -> None:
    """A thread that reads a long reply holds the clock up, for as long as the reply is long."""
    ready = threading.Event()

    class HeldUp(ServiceState):
        def note_late(self, seconds: float) -> None:
            time.sleep(0.3 * AFTER)
            super().note_late(seconds)

    def waits(prompt: str) -> str:
        return str("zanzibar" in prompt and ready.wait(4 * AFTER))

    slow = private(tmp_path, 9.0, complete=waits)
    app = application(slow, state=HeldUp(tmp_path / "state"), reply_after=AFTER)
    (late,) = send(app, {"json": ASK})
    ready.set()
    assert late.status_code == 503
    assert late.elapsed.total_seconds() >= 2 * AFTER


def test_a_late_answer_is_lost_under_its_key_too(tmp_path: Path) -> None:
    """A restarted service gave it, if the work had ended by then: HTTP 200, and else 409."""
    ready, state = threading.Event(), ServiceState()
    asked = {"json": ASK, "headers": {"Idempotency-Key": "one"}}
    service = private(tmp_path, 9.0, complete=lambda prompt: str(ready.wait(8 * AFTER)))
    (late,) = send(application(service, state=state, reply_after=AFTER), asked)
    (begun,) = send(application(service, state=state, reply_after=2 * AFTER), asked)
    ready.set()
    (ended,) = send(application(service, state=state, reply_after=2 * AFTER), asked)
    assert [one.status_code for one in (late, begun, ended)] == [503, 500, 500]


def test_an_answer_is_kept_under_its_key_when_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server with the same file gave it as soon as it was made."""
    order, sleep_until = [], anyio.sleep_until

    async def leave(deadline: float) -> None:
        await sleep_until(deadline)
        order.append("leaves")

    class Told(ServiceState):
        def end(self, tenant: str, key: str, outcome: str) -> None:
            super().end(tenant, key, outcome)
            order.append("kept")

    monkeypatch.setattr(anyio, "sleep_until", leave)
    asked = {"json": ASK, "headers": {"Idempotency-Key": "one"}}
    send(application(private(tmp_path), state=Told(), reply_after=8 * AFTER), asked)
    assert order == ["leaves", "kept"]


@pytest.mark.parametrize(("path", "field"), [(CHAT, "created"), ("/v1/responses", "created_at")])
def test_a_reply_does_not_say_when_its_answer_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, field: str
) -> None:
    """A second was added for a slow row, though every reply left at one time."""
    seen: list[str] = []

    def slow(prompt: str) -> str:
        seen.append(prompt)
        return "odd"

    monkeypatch.setattr(time, "time", lambda: 1000.0 + len(seen))
    service = private(tmp_path, complete=slow)
    asked = {"url": path, "json": ASK if path == CHAT else {"input": "what is this"}}
    (reply,) = send(application(service, reply_after=8 * AFTER), asked)
    assert reply.json()[field] == 1000


def test_under_add_remove_nothing_measures_how_many_rows_there_are(tmp_path: Path) -> None:
    """A refusal took longer for each row, and `auto` measured as many as there are."""
    asked: list[int] = []

    class Counting(Scripted):
        def check(self, requests: Sequence[Any], /) -> None:
            asked[-1] += len(requests)

    mechanism = ProductOfExperts.calibrated(1.0, 1e-5, calibration="add_remove")
    model = Counting(label_scores=lambda prompt, labels: [0.0] * len(labels))
    for rows in (ROWS[:3], ROWS):
        asked.append(0)
        ledger = Ledger(tmp_path / str(len(rows)), 1.0, 1e-5)
        service = PrivateICL(mechanism, rows, TASK, model, ledger)
        asked[-1] = 0
        service.check("what is this")
        with pytest.raises(UsageError, match="is private under add_remove"):
            service.slowest(longest_row=400)
    assert asked[0] == asked[1] > 0


def test_the_time_is_measured_on_made_up_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = [[], []]
    for at, text in enumerate(("short", "a far longer row " * 9)):
        rows = tuple(Example(f"{text} {i}", row.label) for i, row in enumerate(ROWS))
        monkeypatch.setattr("services.ROWS", rows)
        (tmp_path / str(at)).mkdir()

        def answer(prompt: str, seen: list[str] = asked[at]) -> str:
            seen.append(prompt)
            return "odd"

        service = private(tmp_path / str(at), 9.0, complete=answer)
        assert service.slowest(longest_row=400) > 0
        assert service.state.answers == 0
    assert asked[0] == asked[1]
    assert max(len(prompt) for prompt in asked[0]) > 800
    assert not any("row" in prompt for prompt in asked[0])


def test_a_limit_that_is_missing_or_too_small_is_a_sentence(tmp_path: Path) -> None:
    service = private(tmp_path)
    with pytest.raises(UsageError, match="states no limit to the length of a prompt"):
        service.slowest()
    with pytest.raises(UsageError, match="20 of the rows have more than 9 bytes, such as row 1;"):
        service.slowest(longest_row=9)


def test_a_finite_budget_wants_a_time(tmp_path: Path) -> None:
    asked = ("serve", "--mechanism", "report_noisy_max", "--budget", "4", "--model", "openai/m",
             "--base-url", f"{BASE}/v1")  # fmt: skip
    done = cli(*asked, cwd=tmp_path)
    assert done.returncode == 2
    assert "--reply-after auto needs --longest-row; SECONDS or off does not." in done.stderr
    done = cli(*asked, "--reply-after", "1e300", cwd=tmp_path)
    assert "--reply-after got '1e300'; it must be seconds up to a day" in done.stderr
    assert done.returncode == 2
    done = cli(*asked, "--reply-after", "2", "--longest-row", "9", cwd=tmp_path)
    assert "--longest-row is for --reply-after auto, which is 2; leave it out." in done.stderr
    assert done.returncode == 2


# --- one answer of a command


def on_time(service: Any, folder: Path, seconds: float = AFTER) -> tuple[Any, float]:
    """An answer or what is raised, and the seconds until then."""
    begin = time.monotonic()
    try:
        found: Any = answer_on_time(service, "what is this", seconds, str(folder / "ledger"))
    except (Exception, SystemExit) as error:
        found = error
    return found, time.monotonic() - begin


def test_the_answer_of_a_command_leaves_at_its_time(tmp_path: Path) -> None:
    service = private(tmp_path, 1.0)
    found, seconds = on_time(service, tmp_path)
    assert found.answered is not None
    assert seconds >= AFTER
    found, _ = on_time(service, tmp_path, 86_400.0)  # at once
    assert isinstance(found, BudgetExhausted)


class TimeIsUp(BaseException):
    """As libraries raise that put a limit on the time of a call."""


@pytest.mark.parametrize(
    "kind", [SystemExit, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, TimeIsUp]
)
def test_a_model_that_ends_for_one_row_tells_nothing(
    tmp_path: Path, kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """HTTP 500 left at once, the server ended, and what was raised was printed."""

    def ends(prompt: str) -> str:
        if "zanzibar" in prompt:
            raise kind("zanzibar")
        return "odd"

    app = application(private(tmp_path, 9.0, complete=ends), reply_after=AFTER)
    for _ in range(2):
        (reply,), seconds = timed(app, {"json": ASK})
        assert reply.status_code == 200
        assert seconds >= AFTER
    assert "zanzibar" not in reply.text + caplog.text


class Ending(ReportNoisyMax):
    def decode(self, *given: Any) -> list[str]:
        raise SystemExit("zanzibar")


def test_an_answer_that_is_lost_is_so_at_its_time(tmp_path: Path) -> None:
    """It ended the process as soon as it was lost."""
    found, seconds = on_time(private(tmp_path, 9.0, Ending.calibrated(1.0, 1e-5)), tmp_path)
    assert isinstance(found, AnswerLost)
    assert "zanzibar" not in str(found)
    assert seconds >= AFTER


def test_a_late_answer_of_a_command_is_lost_and_no_other_has_its_time(tmp_path: Path) -> None:
    ready = threading.Event()
    service = private(tmp_path, 9.0)
    slow = private(tmp_path, 9.0, complete=lambda prompt: str(ready.wait(8 * AFTER)))
    found, _ = on_time(slow, tmp_path)
    ready.set()
    assert "was not ready 0.5 seconds after its payment" in str(found)
    assert service.state.answers == 1
    found, _ = on_time(service, tmp_path)
    assert "give more, such as 1" in str(found)
    assert service.state.answers == 1
    assert on_time(service, tmp_path, 2 * AFTER)[0].text


def test_the_command_takes_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(answer_command, "open_models", lambda *_: Scripted(complete=lambda p: "a"))
    asked = ("answer", "--mechanism", "report_noisy_max", "--reply-after", "0.2", "what")
    done = CliRunner().invoke(group, asked, standalone_mode=False)
    assert done.return_value == 0, done.exception
    assert Path("leakbound-ledger.sqlite.service").exists()


def test_a_warning_that_a_row_sets_off_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """Numpy said on standard error that a number in the reply to one row was too large."""

    def overflows(prompt: str) -> str:
        return str(np.array([1e39]).astype(np.float32)) + "odd"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(answer_command, "open_models", lambda *_: Scripted(complete=overflows))
    asked = ("answer", "--mechanism", "report_noisy_max", "what")
    assert CliRunner().invoke(group, asked, standalone_mode=False).return_value == 0
    assert not [one for one in recwarn if issubclass(one.category, RuntimeWarning)]


class Failing(BaseHTTPRequestHandler):
    """A chat model that answers HTTP 500 or 429 to whatever holds a word."""

    protocol_version = "HTTP/1.1"
    asked = met = 0

    def setup(self) -> None:
        Failing.met += 1
        super().setup()

    def do_POST(self) -> None:
        Failing.asked += 1
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        busy = "kilwa" in text
        fails = busy or "zanzibar" in text
        said = {"role": "assistant", "content": "work"}
        usage = {"prompt_tokens": len(text), "completion_tokens": 1, "total_tokens": len(text) + 1}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        body = json.dumps({"error": {"message": "no"}} if fails else
                          {"choices": [choice], "usage": usage}).encode()  # fmt: skip
        self.send_response((429 if busy else 500) if fails else 200)
        if busy:
            self.send_header("Retry-After", "3")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None: ...


@pytest.mark.slow
def test_a_command_says_nothing_of_a_row_at_which_the_model_fails(tmp_path: Path) -> None:
    """It ended with 70, and told how many tokens and retries the rows took; with a time, the
    waits between the retries made the answer late, and so did the pause that a server asks for,
    which the next request kept, too. Rows beside one that failed were asked again."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        found = []
        for name, text in (("plain", "a note"), ("long", "a note " * 300), ("fails", "zanzibar"),
                           ("busy", "kilwa")):  # fmt: skip
            folder = tmp_path / name
            folder.mkdir()
            rows = [{"text": f"message {at}", "label": "work"} for at in range(9)]
            rows += [{"text": text, "label": "home"}]
            (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            for more in ((), ("--reply-after", "4")):
                Failing.asked = Failing.met = 0
                done = cli(
                    "answer", "--data", "rows.jsonl", "--labels", "work,home", "--epsilon", "0.5",
                    "--model", "openai/m", "--base-url", f"http://127.0.0.1:{server.server_port}/v1",
                    "--capabilities", "chat", "--mechanism", "report_noisy_max:partitions=5",
                    "--shots", "10", "--budget", "4", "what is it about?", *more,
                    cwd=folder, OPENAI_API_KEY="k",
                )  # fmt: skip
                # what the noise decides is released
                drawn = "no answer", "manifest"
                lines = done.stderr.splitlines()
                said = [line for line in lines if not line.startswith(drawn)]
                found.append((more, done.returncode, said))
                assert Failing.met == Failing.asked  # no connection tells of an earlier request
                asked = 1 + 2 + 5  # whether it answers, two made-up texts, and each part
                assert Failing.asked == asked or (not more and name in ("fails", "busy"))
        server.shutdown()
        thread.join()
    plain = found[:2]
    assert [code for _, code, _ in plain] == [0, 0], plain
    assert found[2:4] == plain
    assert found[4:6] == found[6:] == plain


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [None, 0.6])
def test_an_audit_of_reply_times_finds_a_row_only_where_answers_leave_as_they_are_made(
    tmp_path: Path, seconds: float | None
) -> None:
    """A model that takes longer over a row that its question names, in a service of few votes."""
    made = itertools.count()

    def complete(prompt: str) -> str:
        asked = prompt.split('"')[-2]
        time.sleep(0.1 * (prompt.count(asked) > 1))
        return "odd"

    def ask(context: Any, query: Any) -> str:
        ledger = str(tmp_path / f"{next(made)}")
        mechanism = ReportNoisyMax.calibrated(1.0, 1e-5, 2)
        book = Ledger(ledger, 1.0, 1e-5)
        ids = [str(at) for at in range(len(context))]  # the control shows copies
        model = Scripted(complete=complete)
        service = PrivateICL(mechanism, context, TASK, model, book, record_ids=ids)
        return answer_on_time(service, query, seconds, ledger).text

    rows = [(f"note {at}", ("odd", "plain")[at % 2]) for at in range(60)]
    found = leakbound.audit(
        rows, system=ask, pairs=32, shots=4, epsilon=0.5, query="membership", canary="hex",
        settings={"labels": [*TASK.labels]}, channels=("seconds",), seed=3, simulations=100,
    )  # fmt: skip
    assert (found.verdict == "violation") == (seconds is None)


def test_the_page_of_reply_times_has_the_counts_that_are_kept() -> None:
    root = Path(__file__).parents[2]
    runs = json.loads((root / "bench/results/reply-time.json").read_text())
    late, answers = (sum(one[key] for one in runs) for key in ("late", "answers"))
    page = (root / "docs/measured/serving.md").read_text()
    assert f"{late} of {answers:,} answers late" in page


def test_every_kind_of_answer_has_words() -> None:
    """One had none, and its count ended the command with 70."""
    assert OUTCOMES.keys() == {*get_args(AnswerKind)} - {"text"}
