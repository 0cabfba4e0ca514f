"""How long an answer takes tells nothing of the rows: every one leaves at the same time."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from services import ASK, BASE, ROWS, private, send

from leakbound.errors import UsageError
from leakbound.serving import ServiceState, application
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
    done = cli(*asked, "--reply-after", "soon", cwd=tmp_path)
    assert "--reply-after got 'soon'; it must be seconds" in done.stderr
    assert done.returncode == 2
    done = cli(*asked, "--reply-after", "2", "--longest-row", "9", cwd=tmp_path)
    assert "--longest-row is for --reply-after auto, which is 2; leave it out." in done.stderr
    assert done.returncode == 2
