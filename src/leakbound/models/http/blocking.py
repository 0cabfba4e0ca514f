"""Run asynchronous work from synchronous code, even if an event loop already runs."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

R = TypeVar("R")
Closer = Callable[[], Awaitable[None]]
ToEnd = Callable[[Coroutine[Any, Any, Any]], Any]  # runs work to its end, such as `run_blocking`
LOG = logging.getLogger("leakbound.models")
PATIENCE = 5.0  # seconds: cancelled work should end at once, and exiting must not hang


class LoopThread:
    """An event loop in its own thread. It ends with this object at the latest."""

    def __init__(self, name: str, at_end: Closer | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(_name_error)
        self._thread = threading.Thread(
            target=_run_forever, args=(self.loop,), daemon=True, name=name
        )
        self._thread.start()
        self._end = weakref.finalize(self, _end, self.loop, self._thread, at_end, PATIENCE)

    def run(self, work: Coroutine[object, object, R]) -> R:
        """Run work in the loop and wait for it. Several threads may call this."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, patience: float | None = PATIENCE) -> None:
        """Cancel running work, run `at_end`, then end the loop and its thread."""
        found = self._end.detach()
        if found is not None:
            loop, thread, at_end, _ = found[2]
            _end(loop, thread, at_end, patience)


def run_blocking(work: Coroutine[object, object, R]) -> R:
    """Run work to its end in this thread; in another one if an event loop already runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(_name_error)
            return runner.run(work)
    thread = LoopThread("leakbound-blocking")
    try:
        return thread.run(work)
    finally:
        thread.close(patience=None)


def _name_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report work that nobody waited for, without a word of its error that may be private."""
    error = context.get("exception")
    ended = "did not end" if error is None else f"ended with {type(error).__name__}"
    LOG.warning(
        "work in an event loop that nobody waited for %s; its message is not shown, as it may hold "
        "private text.",
        ended,
    )


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _end(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    at_end: Closer | None,
    patience: float | None,
) -> None:
    """End a loop. If the loop's own thread drops the last reference, do not wait for it."""
    asyncio.run_coroutine_threadsafe(_finish(loop, at_end), loop)
    if threading.current_thread() is not thread:
        thread.join(patience)


async def _finish(loop: asyncio.AbstractEventLoop, at_end: Closer | None) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    try:
        if at_end is not None:
            await at_end()
    finally:
        loop.stop()
