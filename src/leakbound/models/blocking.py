"""Asynchronous work for synchronous callers, also where an event loop runs already."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

__all__ = ["LoopThread", "run_blocking"]

R = TypeVar("R")
PATIENCE = 5.0  # seconds: work that was cancelled should end at once, and an exit must not hang


async def _nothing() -> None:
    """What runs at the end of a loop that has nothing to close."""


class LoopThread:
    """An event loop in a thread of its own. It ends with this object at the latest.

    Args:
        name: Name of the thread.
        at_end: Runs in the loop before it ends, such as the `close` of a transport.
    """

    def __init__(self, name: str, at_end: Callable[[], Awaitable[None]] = _nothing) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=_run_forever, args=(self.loop,), daemon=True, name=name
        )
        self._thread.start()
        self._end = weakref.finalize(self, _end, self.loop, self._thread, at_end, PATIENCE)

    def run(self, work: Coroutine[object, object, R]) -> R:
        """Run work in the loop and wait for it. May be called from several threads.

        Args:
            work: The coroutine. It is cancelled if the caller is interrupted.

        Returns:
            What the coroutine returns.
        """
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, patience: float | None = PATIENCE) -> None:
        """Cancel what still runs, run `at_end`, then end the loop and its thread.

        Args:
            patience: Seconds to wait for that; None waits for as long as it takes.
        """
        found = self._end.detach()
        if found is not None:
            loop, thread, at_end, _ = found[2]
            _end(loop, thread, at_end, patience)


def run_blocking(work: Coroutine[object, object, R]) -> R:
    """Run work in an event loop of its own and wait for it.

    The loop runs in this thread, or in another one where this thread runs a loop already, as in a
    notebook.

    Args:
        work: The coroutine. It is cancelled if the caller is interrupted, and then waited for.

    Returns:
        What the coroutine returns.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    thread = LoopThread("leakbound-blocking")
    try:
        return thread.run(work)
    finally:
        thread.close(patience=None)


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    at_end: Callable[[], Awaitable[None]],
    patience: float | None,
) -> None:
    """End a loop; does not wait where its own thread is the one that lets go of it."""
    asyncio.run_coroutine_threadsafe(_finish(loop, at_end), loop)
    if threading.current_thread() is not thread:
        thread.join(patience)


async def _finish(loop: asyncio.AbstractEventLoop, at_end: Callable[[], Awaitable[None]]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    try:
        await at_end()
    finally:
        loop.stop()
