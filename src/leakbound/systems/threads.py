"""Synchronous systems in threads: several calls at once, each with a time limit."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from leakbound.systems.failures import too_slow
from leakbound.systems.protocol import AsyncSystem, Reply, Session, System
from leakbound.systems.sessions import session_of
from leakbound.tasks import Context

__all__ = ["ThreadedSystem"]

R = TypeVar("R")
LOG = logging.getLogger("leakbound.systems")
PATIENCE = 120.0  # seconds to wait for a session that is being opened when the audit ends
Work = tuple[Callable[[], object], "Future[object]"]


@dataclass(frozen=True, slots=True)
class ThreadedSystem(AsyncSystem):
    """Opens each session of a synchronous system in a thread of its own, where it stays.

    Attributes:
        system: The system; it must bear calls from several threads if `connections` is above 1.
        name: For messages.
        connections: Sessions that may be open at once.
        timeout: Seconds for one query; None for no limit. What runs longer is left alone in its
            thread, and its session is closed once it ends.
    """

    system: System = field(repr=False)
    name: str = "system"
    connections: int = 1
    timeout: float | None = None

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
        """
        if self._worker is None or self._session is None:
            self._worker = _Worker()
            try:
                self._session = await asyncio.wrap_future(self._worker.do(self._open))
            except BaseException:
                await self._give_up(self._worker)
                raise
        return self._worker, self._session

    def _open(self) -> Session:
        self._opened = session_of(self._system.system.open(self._context), self._system.name)
        return self._opened

    async def _give_up(self, worker: _Worker) -> None:
        """Close what is being opened, once it is: its records would stay in a store."""
        closed = asyncio.wrap_future(worker.do(self._close_opened))
        worker.end()
        self._worker = None
        done, _ = await asyncio.wait({closed}, timeout=PATIENCE)
        if done and closed.exception() is not None:
            LOG.warning("a session that was given up could not be closed.")

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
        asked = asyncio.wrap_future(worker.do(partial(session.ask, query)))
        try:
            done, _ = await asyncio.wait({asked}, timeout=self._system.timeout)
        except BaseException:
            self._leave(worker, session)
            raise
        if done:
            return asked.result()
        self._leave(worker, session)
        raise too_slow(self._system.name, self._system.timeout or 0.0)

    def _leave(self, worker: _Worker, session: Session) -> None:
        """Nobody waits for what runs still; its thread closes the session and ends."""
        worker.do(session.close)
        worker.end()
        self._worker = self._session = None

    async def close(self) -> None:
        """Close the session, if it is open, and end its thread."""
        worker, session = self._worker, self._session
        self._worker = self._session = None
        if worker is None or session is None:
            return
        try:
            await asyncio.wrap_future(worker.do(session.close))
        finally:
            worker.end()


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
