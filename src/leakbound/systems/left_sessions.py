"""Sessions that were left while a call of them ran: each is closed in its thread after the call.

Until then its records are in the store, so others wait for it: whoever opens the next session of a
system that keeps state, and the end of the audit.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from leakbound.errors import LeakboundError, TargetError
from leakbound.models.http.blocking import run_blocking
from leakbound.systems.callable import CallableSystem
from leakbound.systems.protocol import System
from leakbound.systems.stores.shared import OneSession

LOG = logging.getLogger("leakbound.systems")
PATIENCE = 120.0  # seconds until nobody waits any more for a session that was left
NOTICE = 2.0  # seconds of waiting in silence
_LEFT: list[LeftSession] = []  # of this process; those that were closed are not in it
_LOCK = threading.Lock()


@dataclass(slots=True, eq=False, repr=False)
class LeftSession:
    """A session that its thread closes once a call of it has ended."""

    system: System
    name: str
    closed: Future[object]
    until: float = field(default_factory=lambda: time.monotonic() + PATIENCE)
    _told: bool = False  # that its call still runs

    def __post_init__(self) -> None:
        with _LOCK:
            _LEFT.append(self)
        self.closed.add_done_callback(self._forget_success)

    def _forget_success(self, closed: Future[object]) -> None:
        if closed.exception() is None:
            self.forget()

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
        """Wait until it is closed."""
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
            self._tell()

    def _tell(self) -> None:
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
            + (str(error) if known else f"its close raised {type(error).__name__}.")
        )


def left_sessions(system: System) -> list[LeftSession]:
    """Sessions of a system that were left, and are not closed."""
    with _LOCK:
        return [one for one in _LEFT if one.system is system]


def end_left_sessions() -> None:
    """Wait for all sessions that were left, and say which could not be closed.

    Those of functions hold no records; nobody waits for them.
    """
    with _LOCK:
        found = list(_LEFT)
    holding = [one for one in found if not isinstance(one.system, CallableSystem | OneSession)]
    if holding:
        run_blocking(_finish_all(holding))


async def _finish_all(found: list[LeftSession]) -> None:
    await asyncio.gather(*(one.finish() for one in found))


def unread(future: asyncio.Future[Any]) -> None:
    """Nobody reads how it ends: asyncio would print that, with a message that may be private."""
    if not future.cancel() and not future.cancelled():
        future.exception()
