"""Synchronous systems in threads: several calls at once, each with a time limit."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from leakbound.errors import LeakboundError, TargetError, kind_of
from leakbound.models.http.blocking import run_blocking
from leakbound.systems.callable import CallableSystem, says_stateful, session_of
from leakbound.systems.calls import too_slow
from leakbound.systems.protocol import AsyncSystem, Reply, Session, System
from leakbound.systems.replies import as_reply, seen_seconds
from leakbound.systems.stores import OneSession
from leakbound.tasks import Context

LOG = logging.getLogger("leakbound.systems")
PATIENCE = 120.0  # seconds until nobody waits any more for a session that was left
NOTICE = 2.0  # seconds of waiting in silence
_LEFT: list[_LeftSession] = []  # of this process; those that were closed are not in it
_LOCK = threading.Lock()


@dataclass(slots=True, eq=False, repr=False)
class _LeftSession:
    """A session that its thread closes once a call of it has ended."""

    system: System
    name: str
    closed: Future[object]
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)
    _told: bool = False  # that its call still runs

    def __post_init__(self) -> None:
        with _LOCK:
            _LEFT.append(self)
        self.closed.add_done_callback(lambda one: None if one.exception() else self.forget())

    def forget(self) -> None:
        """Nobody has to hear of it any more."""
        with _LOCK:
            _LEFT[:] = [one for one in _LEFT if one is not self]

    async def ended(self, most: float = math.inf) -> bool:
        """Wait until it is closed, or could not be."""
        closed = asyncio.wrap_future(self.closed)
        try:
            seconds = min(most, self.until - time.monotonic())
            await asyncio.wait({closed}, timeout=max(0.0, seconds))
        finally:
            unread(closed)
        return self.closed.done()

    async def require_closed(self) -> None:
        if not await self.ended():
            raise TargetError(
                f"the system {self.name!r} keeps state, and a call that was left after a time-out "
                f"still runs up to {PATIENCE:g} seconds later; it must end before another session "
                "is opened, whose answers it would change. Give it more time with --timeout, or "
                "make its calls end by themselves."
            )
        self.forget()
        if (error := self.closed.exception()) is not None:
            raise TargetError(self._not_closed(error)) from None

    async def finish(self) -> None:
        """Wait until it is closed, and say what keeps it from that."""
        try:
            if not await self.ended(NOTICE) and self.until > time.monotonic():
                LOG.warning(
                    "waiting for a call of the system %r, so that its session can be closed and "
                    "leaves no record: %.0f more seconds at most. Ctrl-C ends the wait.",
                    self.name,
                    self.until - time.monotonic(),
                )
                await self.ended()
        finally:
            if not self.closed.done():
                self._tell_running()
            elif (error := self.closed.exception()) is not None:
                self.forget()
                LOG.warning("%s", self._not_closed(error))

    def _tell_running(self) -> None:
        if not self._told:
            LOG.warning(
                "a call of the system %r still runs. The records of its session are in the store "
                "until it ends, and stay there if this process ends before; remove them by hand.",
                self.name,
            )
        self._told, self.until = True, time.monotonic()  # nobody waits for it again

    def _not_closed(self, error: BaseException) -> str:
        known = isinstance(error, LeakboundError)
        return (
            f"a session of the system {self.name!r} that was left after a time-out or an interrupt "
            "could not be closed, so its records may be in the store still: "
            + (str(error) if known else f"its close raised {kind_of(error)}.")
        )


def end_left_sessions() -> None:
    """Wait for sessions with a store that were left, and say which could not be closed."""
    with _LOCK:
        found = list(_LEFT)
    holding = [one for one in found if not isinstance(one.system, CallableSystem | OneSession)]

    async def finish() -> None:
        await asyncio.gather(*(one.finish() for one in holding))

    if holding:
        run_blocking(finish())


def unread(future: asyncio.Future[Any]) -> None:
    """Nobody reads how it ends: asyncio would print that, with a message that may be private."""
    if not future.cancel() and not future.cancelled():
        future.exception()


R = TypeVar("R")
Work = tuple[Callable[[], object], "Future[object]"]


@dataclass(frozen=True, slots=True)
class ThreadedSystem(AsyncSystem):
    """Opens each session of a synchronous system in a thread of its own, where it stays."""

    system: System = field(repr=False)
    name: str = "system"
    concurrency: int = 1
    timeout: float | None = None
    timed: bool = False

    async def open_async(self, context: Context) -> _ThreadedSession:
        session = _ThreadedSession(self, context)
        await session.start()
        return session


class _ThreadedSession:
    def __init__(self, system: ThreadedSystem, context: Context) -> None:
        self._system, self._context = system, context
        self._worker: _Worker | None = None
        self._session: Session | None = None
        self._opened: Session | None = None

    async def start(self) -> tuple[_Worker, Session]:
        if self._worker is None or self._session is None:
            with _LOCK:
                found = [one for one in _LEFT if one.system is self._system.system]
            for left in found:
                if says_stateful(left.system):  # its records would be in the answers of this one
                    await left.require_closed()
            self._worker = _Worker()
            try:
                self._session = await asyncio.wrap_future(self._worker.do(self._open))
            except BaseException:
                await self._leave(self._worker, self._close_opened).finish()
                raise
        return self._worker, self._session

    def _open(self) -> Session:
        self._opened = None
        self._opened = session_of(self._system.system.open(self._context), self._system.name)
        return self._opened

    def _close_opened(self) -> None:
        if self._opened is not None:
            self._opened.close()

    async def ask(self, query: str) -> Reply:
        """Answer a query. After a time-out the next one opens a session anew."""
        worker, session = await self.start()
        asked = asyncio.wrap_future(worker.do(partial(self._answer, session, query)))
        try:
            done, _ = await asyncio.wait({asked}, timeout=self._system.timeout)
        except BaseException:
            self._leave(worker, session.close)
            unread(asked)
            raise
        if done:
            return asked.result()
        self._leave(worker, session.close)
        unread(asked)
        raise too_slow(self._system.name, self._system.timeout or 0.0)

    def _answer(self, session: Session, query: str) -> Reply:
        """Timed here: what waits for a session that was left is no time of an answer."""
        began = time.perf_counter()
        answer = session.ask(query)
        seconds = seen_seconds(began) if self._system.timed else None
        return as_reply(answer, self._system.name, seconds)

    def _leave(self, worker: _Worker, close: Callable[[], None]) -> _LeftSession:
        """The thread closes the session after whatever it does, and ends."""
        closed = worker.do(close)
        worker.end()
        self._worker = self._session = None
        return _LeftSession(self._system.system, self._system.name, closed)  # type: ignore[arg-type]

    async def close(self) -> None:
        if self._worker is None or self._session is None:
            return
        left = self._leave(self._worker, self._session.close)
        try:
            await asyncio.wrap_future(left.closed)
        except Exception:  # an interrupt leaves it
            left.forget()
            raise


class _Worker:
    """A thread that does what it is given, in order; the interpreter does not wait for it."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[Work | None] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True, name="leakbound-call").start()

    def do(self, work: Callable[[], R]) -> Future[R]:
        done: Future[R] = Future()
        done.set_running_or_notify_cancel()
        self._todo.put((work, done))  # type: ignore[arg-type]
        return done

    def end(self) -> None:
        self._todo.put(None)

    def _run(self) -> None:
        while (work := self._todo.get()) is not None:
            call, done = work
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)
