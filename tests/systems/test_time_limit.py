"""A limit on the minutes of a system's calls: no question after it, and nothing is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stores import NearestStore

from leakbound.errors import LimitReached, UsageError
from leakbound.models import Scripted
from leakbound.models.http.transport import HttpReply
from leakbound.systems import CallOptions, SharedStore, SystemMechanism, load_http_system
from leakbound.tasks import Context, Example, Job, Query, Task, as_context

TASK = Task("t", ("yes", "no"))
HOUR = 60.0  # minutes


def jobs(number: int) -> list[Job]:
    return [Job((Example(f"row {at}", "a"),), Query("q")) for at in range(number)]


class Clock:
    """A clock that a system moves on while it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed, self.asked, real = 0.0, 0, time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + self.passed)

    def answer(self) -> str:
        self.asked += 1
        self.passed += 3600 * (self.asked == 3)
        return "yes"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def plain(clock: Clock) -> Callable[[Context, str], str]:
    return lambda context, query: clock.answer()


def asynchronous(clock: Clock) -> Any:
    async def answer(context: Context, query: str) -> str:
        return clock.answer()

    return answer


@pytest.mark.parametrize("kind", [plain, asynchronous])
def test_nothing_is_asked_when_the_time_is_up(kind: Any, clock: Clock) -> None:
    calls = CallOptions(connections=1, max_minutes=HOUR)
    mechanism = SystemMechanism(kind(clock), calls=calls)
    with pytest.raises(LimitReached, match=r"limit of 60 minutes \(--max-minutes\) is reached"):
        mechanism.collect(TASK, jobs(9), range(9), Scripted())
    assert clock.asked == 3


def test_the_records_of_a_store_are_removed_after_the_time(clock: Clock) -> None:
    class Store(NearestStore):
        def open(self, context: Context) -> Any:
            session = super().open(context)
            ask = session.ask

            def asked(query: str) -> Any:
                clock.answer()
                return ask(query)

            session.ask = asked
            return session

    store = Store()
    calls = CallOptions(disposable=True, max_minutes=HOUR)
    shared = SharedStore(store, as_context([("a document", "")]), calls=calls)
    with pytest.raises(LimitReached):
        SystemMechanism(shared, calls=calls).collect(TASK, jobs(9), range(9), Scripted())
    assert (clock.asked, store.records) == (3, {})


class Service:
    """Keeps a context, and answers."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.sent = clock, list[str]()

    async def send(self, method: str, *rest: Any) -> HttpReply:
        self.sent.append(method)
        if method == "POST":
            self.clock.answer()
            self.clock.passed += 3600 * (len(self.sent) < 4)  # up before the next question
        return HttpReply(200, {}, b'{"answer": "yes"}')

    async def close(self) -> None:
        """Nothing is open."""


def test_a_context_is_taken_away_from_a_service_after_the_time(
    clock: Clock, tmp_path: Path
) -> None:
    text = (
        "url: http://127.0.0.1:9/ask\nanswer: answer\nbody: {q: '{query}'}\n"
        "setup: {url: 'http://127.0.0.1:9/docs', method: PUT, body: {rows: '{rows}'}}\n"
        "teardown: {url: 'http://127.0.0.1:9/docs', method: DELETE}\n"
    )
    (tmp_path / "desk.yaml").write_text(text)
    service, calls = Service(clock), CallOptions(max_minutes=HOUR)
    system = load_http_system(tmp_path / "desk.yaml", service, calls)
    mechanism = SystemMechanism(system, calls=calls)
    twice = [Job((Example("row", "a"),), Query("q", further=("again",)))]
    with pytest.raises(LimitReached):
        mechanism.collect(TASK, twice, [0], Scripted())
    assert service.sent == ["PUT", "POST", "DELETE"]
    with pytest.raises(LimitReached):
        mechanism.collect(TASK, twice, [0], Scripted())
    assert service.sent == ["PUT", "POST", "DELETE"]


def test_a_call_that_waits_for_its_pace_is_not_made_after_the_time(clock: Clock) -> None:
    calls = CallOptions(connections=9, rate=200.0, max_minutes=HOUR)
    mechanism = SystemMechanism(asynchronous(clock), calls=calls)
    with pytest.raises(LimitReached):
        mechanism.collect(TASK, jobs(9), range(9), Scripted())
    assert clock.asked == 3


def test_a_limit_is_a_positive_number() -> None:
    with pytest.raises(UsageError, match="max_minutes is 0; it must be"):
        CallOptions(max_minutes=0)
