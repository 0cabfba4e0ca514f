"""The loop behind a client:

it runs in a thread of its own, and spreads requests over the addresses of an endpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from leakbound.errors import TargetError
from leakbound.models.openai.account import Price, cost_of, usage_of
from leakbound.models.openai.endpoint import Endpoint
from leakbound.models.openai.faults import Fault
from leakbound.models.openai.post_json import new_session, post_json
from leakbound.models.openai.window import AdaptiveWindow, ErrorBudget, backoff
from leakbound.models.openai.wire import HttpRequest

__all__ = ["ConnectionPool"]

PATIENCE = 600.0  # longest wait, in seconds, that an endpoint may ask for
REST = 10.0  # seconds that an address is left alone after FAILURES in a row, if there is another
FAILURES = 3


@dataclass(slots=True)
class Host:
    """One address: how much it bears, and until when it is left alone."""

    url: str
    window: AdaptiveWindow
    rests_until: float = 0.0
    failures: int = field(default=0)

    @property
    def load(self) -> float:
        """Share of its window in use."""
        return self.window.busy / self.window.size


class ConnectionPool:
    """Open connections to an endpoint. Used by one `Client`, from any thread."""

    def __init__(
        self, model: str, endpoint: Endpoint, key: str | None, price: Price | None
    ) -> None:
        self._model, self._endpoint, self._price, self._meter = (
            model,
            endpoint,
            price,
            endpoint.meter,
        )
        self._places = [Host(url, AdaptiveWindow(endpoint.connections)) for url in endpoint.urls]
        self._errors, self._changed = ErrorBudget(), asyncio.Event()
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(
            target=_forever, args=(self._loop,), daemon=True, name="leakbound-openai"
        )
        thread.start()
        self._session = asyncio.run_coroutine_threadsafe(self._new(key), self._loop).result()
        self.close = weakref.finalize(self, _shut, self._loop, thread, self._session)

    async def _new(self, key: str | None) -> aiohttp.ClientSession:
        return new_session(key, self._endpoint.connections, self._endpoint.timeout)

    def run(self, requests: Sequence[HttpRequest]) -> list[Any]:
        """What `read` makes of each reply, in order.

        If this is interrupted, what is in flight is given up.
        """
        future = asyncio.run_coroutine_threadsafe(self._all(requests), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _all(self, requests: Sequence[HttpRequest]) -> list[Any]:
        waiting, answers = deque(range(len(requests))), [None] * len(requests)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._endpoint.connections, len(requests))):
                    group.create_task(self._work(waiting, requests, answers))
        except BaseExceptionGroup as found:
            raise found.exceptions[0] from None
        return answers

    async def _work(
        self, waiting: deque[int], requests: Sequence[HttpRequest], answers: list[Any]
    ) -> None:
        """Take requests while there are any; one that failed for good goes to the end, as long as
        few do.
        """
        while waiting:
            at = waiting.popleft()
            try:
                answers[at] = await self._persist(requests[at])
                self._errors.add(None)
            except Fault as fault:
                self._give_up(fault.kind)
                waiting.append(at)

    def _give_up(self, kind: str) -> None:
        self._errors.add(kind)
        if self._errors.exhausted:
            kinds = ", ".join(
                f"{kind} ({count})" for kind, count in self._errors.kinds.most_common()
            )
            raise TargetError(
                f"{' and '.join(place.url for place in self._places)} fails too often: of the "
                "last requests, after "
                f"{self._endpoint.retries} retries each: {kinds}. What was finished is kept; run "
                "the same command when it works again."
            )

    async def _persist(self, request: HttpRequest) -> Any:
        """The answer of a request, after so many retries at most; else its last Fault."""
        tries = 0
        while True:
            try:
                return await self._try(request)
            except Fault:
                tries += 1
                if tries > self._endpoint.retries:
                    raise
            await asyncio.sleep(backoff(tries))
            self._meter.retries += 1

    async def _try(self, request: HttpRequest) -> Any:
        most = cost_of(request.size, self._price)
        place = await self._free(most)
        ticket = place.window.enter()
        self._meter.sent(self._price)
        self._meter.reserved += most
        try:
            return await self._ask(place, request)
        except Fault as fault:
            self._failed(place, ticket, fault, request)
            raise
        finally:
            place.window.leave()
            self._meter.reserved -= most
            self._wake()

    async def _ask(self, place: Host, request: HttpRequest) -> Any:
        reply = await post_json(self._session, place.url, request.path, request.body)
        answer = request.read(reply)
        self._meter.count(usage_of(reply), request.size, self._price)
        place.window.grow()
        place.failures = 0
        return answer

    def _failed(self, place: Host, ticket: int, fault: Fault, request: HttpRequest) -> None:
        if fault.billed:
            self._meter.count(None, request.size, self._price)
        if fault.busy:
            place.window.shrink(ticket)
        place.failures += 1
        if fault.wait is not None and fault.wait > PATIENCE:
            raise TargetError(
                f"{place.url} asks to wait {fault.wait:.0f} seconds; what was finished is kept, "
                "so run the same command then."
            )
        rest = fault.wait or (REST if place.failures >= FAILURES and len(self._places) > 1 else 0.0)
        place.rests_until = max(place.rests_until, self._loop.time() + rest)

    # --- whose turn it is
    # -----------------------------------------------------------------------------------------

    async def _free(self, most: float) -> Host:
        """The least loaded address that may be asked now, once the limits admit a request that
        costs so much.
        """
        end = self._endpoint
        while True:
            now = self._loop.time()
            admitted = self._meter.admits(most, end.max_cost, end.max_minutes)
            free = [
                place for place in self._places if place.window.free and place.rests_until <= now
            ]
            if free and admitted:
                return min(free, key=lambda place: place.load)
            resting = [place.rests_until - now for place in self._places if place.rests_until > now]
            await self._change(min(resting, default=None))

    async def _change(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _wake(self) -> None:
        """Everyone who waits looks again."""
        self._changed.set()
        self._changed = asyncio.Event()


def _forever(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def _shut(
    loop: asyncio.AbstractEventLoop, thread: threading.Thread, session: aiohttp.ClientSession
) -> None:
    """Close the connections, then the loop; waits for it unless it is the loop's own thread that
    lets go of the line.
    """

    async def end() -> None:
        await session.close()
        loop.stop()

    asyncio.run_coroutine_threadsafe(end(), loop)
    if threading.current_thread() is not thread:
        thread.join(timeout=5)
