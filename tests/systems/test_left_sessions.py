"""Calls that run on after a time limit or an interrupt: what they say, leave and hold up."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from limits import PATIENCE, expires
from stores import NearestStore, documents

import leakbound
from leakbound.errors import TargetError
from leakbound.models import Scripted
from leakbound.models.http.blocking import LoopThread, run_blocking
from leakbound.systems import CallOptions, Reply, SharedStore, SystemMechanism
from leakbound.systems.protocol import Session
from leakbound.systems.threads import ThreadedSystem, end_left_sessions
from leakbound.tasks import Context, Example, Job, Query, Task, Votes, as_context

TASK = Task("t", ("yes", "no"))
PRIVATE = "the patient Ann Smith"


def job(text: str = "kite", query: str = "q") -> Job:
    return Job((Example(text, "a"),), Query(query))


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.systems.calls.backoff", lambda tries: 0.0)


# --- what is said


@pytest.mark.slow
def test_the_error_of_a_call_that_was_left_is_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    """asyncio printed the message, with a row, as nobody had read the exception."""
    first, over = list[threading.Thread](), threading.Event()

    def answer(context: Context, query: str) -> str:
        if first:
            over.set()
            first[0].join(PATIENCE)
            return "yes"
        first.append(threading.current_thread())
        assert over.wait(PATIENCE)
        raise ValueError(PRIVATE)

    one = SystemMechanism(answer, calls=CallOptions(timeout=expires(0.05)))
    assert one.collect(TASK, [job()], [0], Scripted()) == [Votes((1, 0, 0))]
    gc.collect()
    assert caplog.text == ""


def orphan(ended: asyncio.Event) -> Any:
    """Asynchronous work that starts a task, and does not wait for its error."""

    async def later() -> None:
        ended.set()
        raise ValueError(PRIVATE)

    async def work() -> None:
        asyncio.ensure_future(later())  # noqa: RUF006  # forgotten, as users do
        await ended.wait()
        await asyncio.sleep(0)

    return work()


@pytest.mark.parametrize("threaded", [False, True])
def test_an_error_that_nobody_awaits_is_named_by_its_type(
    threaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that a system had forgotten printed its message and its traceback."""
    if threaded:
        thread = LoopThread("test")
        thread.run(orphan(asyncio.Event()))
        thread.close()
    else:
        run_blocking(orphan(asyncio.Event()))
    gc.collect()
    assert "ValueError" in caplog.text
    assert "Ann" not in caplog.text


# --- what is left


class Slow(NearestStore):
    """Some questions take 0.6 s; it notes how many records it holds whenever one is asked."""

    def __init__(self, slow: range = range(1, 2), stuck: bool = False) -> None:
        super().__init__()
        self.slow, self.stuck = slow, stuck
        self.held: list[int] = []
        self.held_at_end = -1

    def remove(self, record_id: str) -> None:
        if self.stuck:
            raise OSError(PRIVATE)
        super().remove(record_id)

    def open(self, context: Context) -> Any:
        return SlowSession(self, context)


class SlowSession:
    def __init__(self, store: Slow, context: Context) -> None:
        self.store, self.context = store, context

    def ask(self, query: str) -> Reply:
        self.store.held.append(len(self.store.records))
        if len(self.store.held) in self.store.slow:
            time.sleep(0.6)
        return Reply("yes")

    def close(self) -> None:
        self.store.held_at_end = len(self.store.records)


def shared(store: Slow, retries: int = 0) -> SystemMechanism:
    calls = CallOptions(timeout=expires(0.2), retries=retries, disposable=True)
    documents_ = as_context([("a document", "")])
    return SystemMechanism(SharedStore(store, documents_, calls=calls), calls=calls)


def two(context: Context = ()) -> list[Job]:
    return [Job((Example(PRIVATE, "a"),), Query("q")), Job(context, Query("q"))]


def test_the_next_context_is_asked_when_the_records_of_the_last_are_gone() -> None:
    """A verbatim leak had NO VIOLATION: the canary of a call that ran on was in the store while
    the context without it was asked about."""
    store = Slow()
    shared(store).collect(TASK, two(), [0, 0], Scripted())
    assert (store.held, store.records) == ([1, 0, 0, 1], {})  # a lost call is made again
    again = Slow()
    shared(again, retries=5).collect(TASK, two(), [0, 0], Scripted())
    assert (again.held, again.records) == ([1, 1, 0], {})


def test_a_call_that_never_ends_ends_the_audit_of_a_system_with_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("leakbound.systems.threads.PATIENCE", 0.05)
    store, told = Slow(), "keeps state, and a call .* still runs .* must end .* --timeout"
    with pytest.raises(TargetError, match=told):
        shared(store).collect(TASK, two(), [0, 0], Scripted())
    assert store.held == [1]
    time.sleep(0.6)
    end_left_sessions()


def test_a_removal_that_fails_after_a_time_out_ends_the_audit() -> None:
    """It was swallowed, and two canaries stayed."""
    with pytest.raises(TargetError, match=r"could not be closed.*1 of 1 records.*OSError") as told:
        shared(Slow(stuck=True)).collect(TASK, two(), [0, 0], Scripted())
    assert "Ann" not in str(told.value)


@pytest.mark.slow
def test_an_audit_ends_when_its_last_question_has_ended(tmp_path: Path) -> None:
    """The process ended before, and the canary stayed."""
    store = Slow(range(10, 99))
    calls = CallOptions(timeout=expires(0.2), retries=0, disposable=True)
    with pytest.raises(TargetError, match="did not answer within"):
        leakbound.audit(
            documents(60), system=store, design="session", pairs=4, epsilon=1, calls=calls,
            controls=1, state_check=0.0, batch_pairs=4, out=tmp_path, settings={"documents": 20},
        )  # fmt: skip
    assert (store.held_at_end, store.records) == (0, {})
    assert len(store.held) > 10


class Opening:
    """A system that opens and closes as soon as it may."""

    def __init__(self, stuck: bool = False) -> None:
        self.stuck, self.closed = stuck, False
        self.may_open, self.may_close = threading.Event(), threading.Event()

    def open(self, context: Context) -> Session:
        self.may_open.wait(PATIENCE)
        return self  # type: ignore[return-value]

    def ask(self, query: str) -> str:
        return "yes"

    def close(self) -> None:
        self.may_close.wait(PATIENCE)
        if self.stuck:
            raise OSError(PRIVATE)
        self.closed = True


async def cancelled(task: asyncio.Task[Any], until: Callable[[], bool] = lambda: True) -> None:
    """Begin a task, and cancel it once something is true."""
    await asyncio.sleep(0.01)
    while not until():
        await asyncio.sleep(0.01)
    task.cancel()


@pytest.mark.parametrize("patience", [expires(1.0), PATIENCE])
def test_an_interrupt_says_what_it_waits_for_and_what_it_leaves(
    patience: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was silent for two minutes, and left 201 records."""
    monkeypatch.setattr("leakbound.systems.threads.PATIENCE", patience)
    monkeypatch.setattr("leakbound.systems.threads.NOTICE", 0.01)
    system, gives_up = Opening(), patience < PATIENCE
    system.may_close.set()

    async def interrupted() -> None:
        opening = asyncio.create_task(ThreadedSystem(system, "notes").open_async(()))
        await cancelled(opening)
        while "waiting for a call of the system 'notes'" not in caplog.text:
            await asyncio.sleep(0.01)
        if not gives_up:
            system.may_open.set()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(interrupted())
    assert ("still runs" in caplog.text) is gives_up is not system.closed
    system.may_open.set()
    end_left_sessions()
    assert caplog.text.count("still runs") == gives_up


@pytest.mark.parametrize("stuck", [False, True])
def test_a_closing_that_is_interrupted_is_waited_for(
    stuck: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its thread ended with the process, amid the records."""
    system = Opening(stuck)
    system.may_open.set()

    async def interrupted() -> None:
        session = await ThreadedSystem(system, "notes").open_async(())
        closing = asyncio.create_task(session.close())
        await cancelled(closing)
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(interrupted())
    assert not system.closed
    system.may_close.set()
    end_left_sessions()
    end_left_sessions()
    assert system.closed is not stuck
    assert caplog.text.count("could not be closed") == caplog.text.count("OSError") == stuck
    assert "Ann" not in caplog.text


def test_a_second_interrupt_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The end of the audit waited for the same session again."""
    monkeypatch.setattr("leakbound.systems.threads.NOTICE", 0.01)
    system = Opening()

    async def interrupted_twice() -> None:
        opening = asyncio.create_task(ThreadedSystem(system, "notes").open_async(()))
        await cancelled(opening)
        await cancelled(opening, lambda: "waiting for" in caplog.text)
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(interrupted_twice())
    end_left_sessions()
    assert not system.closed
    assert caplog.text.count("waiting for") == caplog.text.count("still runs") == 1
    system.may_open.set()
    system.may_close.set()
