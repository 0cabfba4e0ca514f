"""Synchronous systems in threads: several calls at once, each with a time limit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from leakbound.systems.duck import says_stateful
from leakbound.systems.failures import too_slow
from leakbound.systems.left_sessions import LeftSession, left_sessions, unread
from leakbound.systems.protocol import AsyncSystem, Reply, Session, System
from leakbound.systems.replies import as_reply
from leakbound.systems.sessions import session_of
from leakbound.tasks import Context

__all__ = ["ThreadedSystem"]

R = TypeVar("R")
Work = tuple[Callable[[], object], "Future[object]"]


@dataclass(frozen=True, slots=True)
class ThreadedSystem(AsyncSystem):
    """Opens each session of a synchronous system in a thread of its own, where it stays.

    Attributes:
        system: The system; it must bear calls from several threads if `connections` is above 1.
        name: For messages.
        connections: Sessions that may be open at once.
        timed: Whether replies say how long they took.
        timeout: Seconds for one query; None for no limit. What runs longer is left alone in its
            thread, and its session is closed once it ends. A system that keeps state opens no
            other session before.
    """

    system: System = field(repr=False)
    name: str = "system"
    connections: int = 1
    timeout: float | None = None
    timed: bool = False

    @property
    def concurrency(self) -> int:
        """`connections`."""
        return self.connections

    async def open_async(self, context: Context) -> ThreadedSession:
        """Open a session in a new thread.

        Args:
            context: The examples (PRIVATE).

        Returns:
            The session.
        """
        session = ThreadedSession(self, context)
        await session.start()
        return session


class ThreadedSession:
    """A session of a synchronous system, in a thread.

    Args:
        system: Whose session it is.
        context: The examples (PRIVATE).
    """

    def __init__(self, system: ThreadedSystem, context: Context) -> None:
        self._system, self._context = system, context
        self._worker: _Worker | None = None
        self._session: Session | None = None
        self._opened: Session | None = None

    async def start(self) -> tuple[_Worker, Session]:
        """Open the session, unless it is open.

        Returns:
            Its thread, and the session.

        Raises:
            TargetError: If the system keeps state, and a session of it that was left does not end.
        """
        if self._worker is None or self._session is None:
            await self._require_alone()
            self._worker = _Worker()
            try:
                self._session = await asyncio.wrap_future(self._worker.do(self._open))
            except BaseException:
                await self._leave(self._worker, self._close_opened).finish()
                raise
        return self._worker, self._session

    async def _require_alone(self) -> None:
        """Records of a session that was left would be in the answers of the next."""
        system = self._system.system
        if says_stateful(system):
            for one in left_sessions(system):
                await one.require_closed()

    def _open(self) -> Session:
        self._opened = None
        self._opened = session_of(self._system.system.open(self._context), self._system.name)
        return self._opened

    def _close_opened(self) -> None:
        if self._opened is not None:
            self._opened.close()

    async def ask(self, query: str) -> Reply:
        """Answer a query. After a time-out the next one opens a session anew.

        Args:
            query: What the user sends.

        Returns:
            The reply.

        Raises:
            NoAnswer: If it takes too long.
        """
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
        seconds = time.perf_counter() - began
        return as_reply(answer, self._system.name, seconds if self._system.timed else None)

    def _leave(self, worker: _Worker, close: Callable[[], None]) -> LeftSession:
        """The thread closes the session after whatever it does, and ends."""
        closed = worker.do(close)
        worker.end()
        self._worker = self._session = None
        return LeftSession(self._system.system, self._system.name, closed)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Close the session, if it is open, and end its thread."""
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
