"""Requests to the addresses of an endpoint: retried, paced, counted and answered in order.

The interface is synchronous, the implementation asynchronous.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from leakbound.errors import TargetError
from leakbound.models.http.blocking import LoopThread
from leakbound.models.http.post_json import Fault, Filtered, JsonAddress
from leakbound.models.http.transport import default_transport
from leakbound.models.http.window import AdaptiveWindow, ErrorBudget, backoff
from leakbound.models.openai.account import Price, Usage, cost_of, usage_of
from leakbound.models.openai.endpoint import Endpoint
from leakbound.models.openai.wire.requests import HttpRequest

R = TypeVar("R")
PATIENCE = 600.0  # seconds: a run that waits longer seems to hang, so it ends with an error
REST = 10.0  # seconds to pause an address after FAILURES in a row, if there is another address
FREE = Usage(0, 0)  # for a prompt that a content filter refuses: nothing is generated
FAILURES = 3  # a single lost connection can cause one or two failures in a row


class Client:
    """Sends batches; connections are kept until `close` or the end of the process."""

    def __init__(
        self, model: str, endpoint: Endpoint, key: str | None = None, price: Price | None = None
    ) -> None:
        self._arguments = (model, endpoint, key, price)
        self._lock = threading.Lock()
        self._pool: ConnectionPool | None = None

    def send(self, requests: Sequence[HttpRequest[R]]) -> list[R]:
        """Send requests and wait for all of them. Several threads may call this."""
        if not requests:
            return []
        with self._lock:
            if self._pool is None:
                self._pool = ConnectionPool(*self._arguments)
            pool = self._pool
        return pool.run(requests)

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


@dataclass(slots=True)
class Host:
    address: JsonAddress
    window: AdaptiveWindow
    rests_until: float = 0.0
    failures: int = field(default=0)

    @property
    def load(self) -> float:
        return self.window.busy / self.window.size


class ConnectionPool:
    """Open connections to an endpoint, used by one `Client` from any thread."""

    def __init__(
        self, model: str, endpoint: Endpoint, key: str | None, price: Price | None
    ) -> None:
        self._model, self._endpoint, self._price = model, endpoint, price
        self._meter = endpoint.meter
        self._meter.priced = endpoint.price_date(model)
        self._transport = endpoint.transport or default_transport(endpoint.connections)
        self._hosts = [
            Host(
                JsonAddress(self._transport, url, key, endpoint.timeout),
                AdaptiveWindow(endpoint.connections),
            )
            for url in endpoint.urls
        ]
        self._errors, self._changed = ErrorBudget(), asyncio.Event()
        self._answered: HttpRequest[object] | None = None  # the last request with an answer
        self._thread = LoopThread("leakbound-openai", self._transport.close)

    def run(self, requests: Sequence[HttpRequest[R]]) -> list[R]:
        return self._thread.run(self._all(requests))

    def close(self) -> None:
        self._thread.close()

    async def _all(self, requests: Sequence[HttpRequest[R]]) -> list[R]:
        waiting, answers, failed = deque(range(len(requests))), dict[int, R](), set[int]()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._endpoint.connections, len(requests))):
                    group.create_task(self._work(waiting, requests, answers, failed))
        except BaseExceptionGroup as found:
            raise found.exceptions[0] from None
        return [answers[at] for at in range(len(requests))]

    async def _work(
        self, waiting: deque[int], requests: Sequence[HttpRequest[R]], answers: dict[int, R],
        failed: set[int],
    ) -> None:  # fmt: skip
        """Send until none is left. A request that fails twice while others are answered is lost."""
        while waiting:
            at = waiting.popleft()
            request = requests[at]
            try:
                answers[at] = await self._persist(request)
                self._errors.add(None)
                self._answered = request
            except Fault as fault:
                lost = request.lost if at in failed and fault.of_prompt else None
                if lost is not None and await self._answers():
                    answers[at] = lost()
                    continue
                self._give_up(fault.kind)
                failed.add(at)
                waiting.append(at)

    async def _answers(self) -> bool:
        """Whether the endpoint still answers a request that it has answered before."""
        if self._answered is None:
            return False
        try:
            await self._persist(self._answered)
        except Fault:
            return False
        return True

    def _give_up(self, kind: str) -> None:
        self._errors.add(kind)
        if not self._errors.exhausted:
            return
        most, urls = self._errors.kinds.most_common(), " and ".join(self._endpoint.urls)
        raise TargetError(
            f"{urls} fails too often: of the last requests, after {self._endpoint.retries} retries "
            "each: "
            f"{', '.join(f'{kind} ({count})' for kind, count in most)}. What was finished is "
            "kept; run the same command when it works again."
        )

    async def _persist(self, request: HttpRequest[R]) -> R:
        """The answer to a request, after retries if necessary; raises its last Fault."""
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

    async def _try(self, request: HttpRequest[R]) -> R:
        most = cost_of(request.size, self._price)
        host = await self._free_host(most)
        ticket = host.window.enter()
        self._meter.sent(self._price)
        self._meter.reserved += most
        try:
            return await self._ask(host, request)
        except Fault as fault:
            self._note_failure(host, ticket, fault, request)
            raise
        finally:
            host.window.leave()
            self._meter.reserved -= most
            self._changed.set()  # all waiting requests check again
            self._changed = asyncio.Event()

    async def _ask(self, host: Host, request: HttpRequest[R]) -> R:
        try:
            reply = await host.address.post(request.path, request.body)
            answer, usage = request.read(reply), usage_of(reply)
        except Filtered:
            if request.filtered is None:
                raise
            answer, usage = request.filtered(), FREE
        self._meter.count(usage, request.size, self._price)
        host.window.grow()
        host.failures = 0
        return answer

    def _note_failure(self, host: Host, ticket: int, fault: Fault, request: HttpRequest[R]) -> None:
        if fault.billed:
            self._meter.count(None, request.size, self._price)
        if fault.busy:
            host.window.shrink(ticket)
        host.failures += 1
        if fault.wait is not None and fault.wait > PATIENCE:
            raise TargetError(
                f"{host.address.url} asks to wait {fault.wait:.0f} seconds; finished work is kept, "
                "so run the same command after that time."
            )
        rest = fault.wait or (REST if host.failures >= FAILURES and len(self._hosts) > 1 else 0.0)
        host.rests_until = max(host.rests_until, self._thread.loop.time() + rest)

    # --- whose turn it is

    async def _free_host(self, most: float) -> Host:
        """The least loaded free address, once the limits admit a request with this cost."""
        end = self._endpoint
        while True:
            now = self._thread.loop.time()
            admitted = self._meter.admits(most, end.max_cost, end.max_minutes)
            free = [host for host in self._hosts if host.window.free and host.rests_until <= now]
            admitted = admitted and sum(host.window.busy for host in self._hosts) < end.connections
            if free and admitted:
                return min(free, key=lambda host: host.load)
            resting = [host.rests_until - now for host in self._hosts if host.rests_until > now]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(resting, default=None))
