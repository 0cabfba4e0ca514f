"""Requests to the addresses of an endpoint: retried, paced, counted and answered in order.

The interface is synchronous, the implementation asynchronous.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from leakbound.errors import Refused, TargetError
from leakbound.models.http.blocking import LoopThread, run_blocking
from leakbound.models.http.transport import AiohttpTransport, TransportError, backoff
from leakbound.models.openai.account import Price, Usage, cost_of, usage_of
from leakbound.models.openai.endpoint import Endpoint, key_from_environment
from leakbound.models.openai.replies import Fault, Filtered, JsonAddress
from leakbound.models.openai.requests import HttpRequest, http_request_for
from leakbound.models.request import Complete

R = TypeVar("R")
REST = 10.0  # seconds to pause an address after FAILURES in a row, if there is another address
FREE = Usage(0, 0)  # for a prompt that a content filter refuses: nothing is generated
FAILURES = 3  # a single lost connection can cause one or two failures in a row


START = 8  # requests in flight at first: even a small server can handle them


class AdaptiveWindow:
    """Requests in flight: slow start, then additive increase, and halving once a busy round."""

    def __init__(self, most: int) -> None:
        self.most, self.size, self.busy = most, float(min(most, START)), 0
        self._sent = self._halved = 0

    @property
    def free(self) -> bool:
        return self.busy < int(self.size)

    def enter(self) -> int:
        self.busy += 1
        self._sent += 1
        return self._sent

    def leave(self) -> None:
        self.busy -= 1

    def grow(self) -> None:
        step = 1 / self.size if self._halved else 1.0
        self.size = min(float(self.most), self.size + step)

    def shrink(self, ticket: int) -> None:
        """Count a request that the server was too busy for."""
        if ticket > self._halved:
            self.size, self._halved = max(1.0, self.size / 2), self._sent


class ErrorBudget:
    """Whether too many of the last 20 requests failed for good: over a quarter, and three."""

    def __init__(self) -> None:
        self._last: deque[str | None] = deque(maxlen=20)

    def add(self, kind: str | None) -> None:
        self._last.append(kind)

    @property
    def kinds(self) -> Counter[str]:
        return Counter(kind for kind in self._last if kind is not None)

    @property
    def exhausted(self) -> bool:
        failed = self.kinds.total()
        return failed >= 3 and failed > 0.25 * len(self._last)


@dataclass(slots=True)
class Host:
    address: JsonAddress
    window: AdaptiveWindow
    rests_until: float = 0.0
    failures: int = 0


class Client:
    """Sends batches from any thread; a wait of more than `patience` seconds is an error."""

    def __init__(
        self, model: str, endpoint: Endpoint, key: str | None = None, price: Price | None = None,
        patience: float = 600.0,
    ) -> None:  # fmt: skip
        self._endpoint, self._key, self._price, self._patience = endpoint, key, price, patience
        self._meter, self._priced = endpoint.meter, endpoint.price_date(model)
        self._lock = threading.Lock()
        self._running: LoopThread | None = None

    def send(self, requests: Sequence[HttpRequest[R]]) -> list[R]:
        return self._opened().run(self._all(requests)) if requests else []

    def ask(self, request: HttpRequest[R]) -> R:
        """Send one request; raises its last Fault."""
        return self._opened().run(self._persist(request))

    def _opened(self) -> LoopThread:
        with self._lock:
            if self._running is None:
                self._open()
            return self._thread

    def _open(self) -> None:
        end = self._endpoint
        self._meter.priced = self._priced
        transport = end.transport or AiohttpTransport(end.connections, reuse=not end.separate)
        self._hosts = [
            Host(
                JsonAddress(transport, url, self._key, end.timeout), AdaptiveWindow(end.connections)
            )
            for url in end.urls
        ]
        self._errors, self._changed = ErrorBudget(), asyncio.Event()
        self._answered: HttpRequest[object] | None = None  # the last request with an answer
        self._running = self._thread = LoopThread("leakbound-openai", transport.close)

    def close(self) -> None:
        with self._lock:  # the next requests wait for what is cancelled
            running, self._running = self._running, None
            if running is not None:
                running.close()

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
        separate = self._endpoint.separate
        if separate:
            self._errors = ErrorBudget()
        self._errors.add(kind)
        if not (separate or self._errors.exhausted):
            return
        most, urls = self._errors.kinds.most_common(), " and ".join(self._endpoint.urls)
        raise TargetError(
            f"{urls} fails too often: of the last requests, after {self._endpoint.retries} retries "
            f"each: {', '.join(f'{kind} ({count})' for kind, count in most)}. What was finished is "
            "kept; run the same command when it works again."
        )

    async def _persist(self, request: HttpRequest[R]) -> R:
        """The answer to a request, after retries if necessary; raises its last Fault."""
        tries, waited = 0, 0.0
        while True:
            try:
                return await self._try(request)
            except Fault as fault:
                tries, wait = tries + 1, fault.wait or 0.0 if self._endpoint.separate else 0.0
                waited += wait  # for one row, perhaps for ever
                if tries > self._endpoint.retries or waited > self._patience:
                    raise
            await asyncio.sleep(max(backoff(tries), wait))
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
            # one that takes long must not end the time of others
            answer = await asyncio.to_thread(request.read, reply)
            usage = usage_of(reply)
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
        if self._endpoint.separate:
            return
        if fault.busy:
            host.window.shrink(ticket)
        host.failures += 1
        if fault.wait is not None and fault.wait > self._patience:
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
                return min(free, key=lambda host: host.window.busy / host.window.size)
            resting = [host.rests_until - now for host in self._hosts if host.rests_until > now]
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(resting, default=None))


PUBLIC = Complete("The capital of France is", max_tokens=8)
BASE = "start the server, or give its base URL, which usually ends in /v1"
NAMED = "name its model beside it, as openai/MODEL"


def list_models(endpoint: Endpoint) -> tuple[str, ...]:
    return run_blocking(_list_all(_address(endpoint)))


def _address(endpoint: Endpoint) -> JsonAddress:
    transport, key = endpoint.transport or AiohttpTransport(1), key_from_environment(endpoint)
    return JsonAddress(transport, endpoint.urls[0], key, endpoint.timeout)


async def _list_all(address: JsonAddress) -> tuple[str, ...]:
    base = address.url
    try:
        data = (await address.get("/models")).get("data")
    except TransportError as error:
        raise TargetError(f"{base} does not answer ({error.kind}); {BASE}.") from None
    except Fault as fault:
        raise TargetError(f"{base} lists no models ({fault}); {BASE}, or {NAMED}.") from None
    except Refused as refused:
        if refused.status != 404:
            raise
        raise TargetError(f"{base} lists no models (HTTP 404); {BASE}, or {NAMED}.") from None
    finally:
        await address.transport.close()
    models = data if isinstance(data, list) else []
    ids = [one.get("id") for one in models if isinstance(one, dict)]
    names = tuple(name for name in ids if isinstance(name, str) and name.isprintable() and name)
    if not names:
        raise TargetError(f"{base} lists no models; {NAMED}.")
    return names


def require_answer(model: str, endpoint: Endpoint) -> None:
    """Send one request about a public text, as an audit sends its own."""
    request = http_request_for(PUBLIC, model, endpoint.capabilities, endpoint.dialect)
    run_blocking(_answer(request, _address(endpoint)))


async def _answer(request: HttpRequest[object], address: JsonAddress) -> None:
    try:
        request.read(await address.post(request.path, request.body))
    except Fault as fault:
        raise TargetError(
            f"{address.url} does not answer a chat request about a public text ({fault}); {BASE}."
        ) from None
    finally:
        await address.transport.close()
