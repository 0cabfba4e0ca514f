"""A store behind HTTP: records are planted and removed by requests of their own."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, TypeVar

from leakbound.errors import TargetError
from leakbound.models.content import text_only
from leakbound.models.http.blocking import LoopThread
from leakbound.models.http.transport import AiohttpTransport, HttpReply, Transport
from leakbound.systems.calls import Caller, CallOptions, NoAnswer
from leakbound.systems.http.config import HttpSystemConfig, PlantCall, load_http_config
from leakbound.systems.http.system import (
    HttpRequests,
    HttpSystem,
    SlotValues,
    at,
    decode_json,
    reply_of,
    row_values,
)
from leakbound.systems.planted import (
    PlantedRecord,
    Records,
    orphan_error,
    remove_left,
    settle,
)
from leakbound.systems.protocol import PreparedStore, Reply
from leakbound.systems.stores import TENANTS, open_over
from leakbound.tasks import Context, Example

T = TypeVar("T")
R = TypeVar("R")
TOGETHER = 8  # documents sent at once, where nobody says how many: services index slowly
PATIENCE = 15.0  # seconds to wait for replies of what was on its way: services embed what they add
GONE = ("status 404", "status 410")  # of an id that an unanswered request has added or removed


class _StoreService:
    """Sends requests in an event loop of its own."""

    def __init__(self, config: HttpSystemConfig, transport: Transport, calls: CallOptions) -> None:
        self._config, self._calls = config, calls
        self.requests = HttpRequests(transport, Caller(calls), config.timeout)
        self._thread = LoopThread("leakbound-store", transport.close)
        # ids of requests without a reply, or of a process that was killed: there or not
        left = calls.journal.left() if calls.journal is not None else ()
        self._unsure = {str(name) for _, name in left}
        self._under_way: set[asyncio.Task[None]] = set()  # records on their way

    def run(self, work: Coroutine[object, object, R]) -> R:
        return self._thread.run(work)

    def close(self) -> None:
        self._thread.close(patience=None)

    async def _plant(self, record: Example, into: Records) -> None:
        """An id of our own names the record before it is sent, so that it can be removed."""
        call = self._config.plant
        if call is None:
            raise TargetError(f"the system at {self._config.shown} is no store: it has no plant.")
        text = text_only(record.input, "a store behind HTTP")
        own = f"leakbound-{uuid.uuid4()}"
        values: SlotValues = {"input": text, "label": record.label, "id": own}
        if call.id is None:
            into[own] = PlantedRecord(own, record)
            self._unsure.add(own)
        try:
            found = await self._planted(call, values)
        except NoAnswer as failure:
            if _refuse(failure):
                into.take(own)
            raise TargetError(f"{failure} {_unknown(call, failure, values)}") from None
        self._unsure.discard(own)
        into[found] = PlantedRecord(found, record)

    async def _plant_to_end(self, record: Example, into: Records) -> None:
        # an interrupt does not take back a request: the reply says whether a record is there
        task = asyncio.create_task(self._plant(record, into))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.shield(task)

    async def _planted(self, call: PlantCall, values: SlotValues) -> str:
        attempt = self.requests.once if call.id is None else self._once_for_all
        sent, _ = await self.requests.caller.call_async(lambda: attempt(call, values))
        return str(values["id"]) if call.id is None else _id_in(sent, call)

    async def _once_for_all(self, call: PlantCall, values: SlotValues) -> tuple[HttpReply, float]:
        # sent again, a record that was added without a reply would be there twice
        try:
            return await self.requests.once(call, values)
        except NoAnswer as failure:
            failure.passes = failure.passes and failure.kind.startswith("status ")
            raise

    async def plant_all(self, records: Sequence[Example], into: Records) -> None:
        """Plant until one fails; what was planted stands in `into`."""
        plant = partial(self._plant_to_end, into=into)
        errors = await self._each(plant, records, until_error=True)
        if errors:
            raise errors[0]

    async def remove(self, record_id: str) -> None:
        call = self._config.remove
        if call is None:
            raise TargetError(f"the system at {self._config.shown} is no store: it has no remove.")

        async def attempt() -> None:
            unsure = record_id in self._unsure
            self._unsure.add(record_id)
            try:
                await self.requests.once(call, {"id": record_id})
            except NoAnswer as failure:
                if not unsure or failure.kind not in GONE:
                    raise

        await for_good(self.requests.caller.call_async(attempt))

    async def remove_all(self, planted: Records) -> None:
        """Remove what can be removed; what stays stands in `planted`."""
        if under_way := self._under_way.copy():
            await asyncio.wait(under_way, timeout=PATIENCE)
            for task in under_way:
                task.cancel()

        async def one(record_id: str) -> None:
            await self.remove(record_id)
            planted.take(record_id)

        errors = await self._each(one, list(planted), until_error=False)
        if errors:
            raise errors[0]

    async def _each(
        self, work: Callable[[T], Awaitable[None]], things: Sequence[T], until_error: bool
    ) -> list[TargetError]:
        errors: list[TargetError] = []
        free = asyncio.Semaphore(self._calls.connections or TOGETHER)

        async def one(thing: T) -> None:
            async with free:
                if until_error and errors:
                    return
                try:
                    await work(thing)
                except TargetError as error:
                    errors.append(error)

        await asyncio.gather(*map(one, things))
        return errors


async def for_good(work: Awaitable[R]) -> R:
    try:
        return await work
    except NoAnswer as failure:
        raise TargetError(str(failure)) from None


def _refuse(failure: NoAnswer) -> bool:
    # whether nothing was added. A conflict may be one with a try whose reply was lost
    return failure.kind.startswith("status 4") and failure.kind != "status 409"


def _unknown(call: PlantCall, failure: NoAnswer, values: SlotValues) -> str:
    """What is not known of a record whose request had no good end."""
    if _refuse(failure):
        return "No record was added."
    if call.id is None:
        return f"The record {values['id']} may have been added, so it is removed."
    return "The record may be in the store, under an id that nobody was told."


def _id_in(sent: HttpReply, call: PlantCall) -> str:
    try:
        found = at(decode_json(sent, call), str(call.id), call)
    except NoAnswer:
        found = None
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise TargetError(
            f"the reply of {call.shown} has no id at {call.id!r}, so the record that was added "
            "cannot be removed; check `id` of plant. The record is in the store."
        )
    return str(found)


def despite_interrupt(step: Callable[[], object]) -> None:
    """Take a step again that Ctrl-C has interrupted: the audit ends, but leaves nothing behind."""
    try:
        step()
    except KeyboardInterrupt:
        step()
        raise


class HttpStore(PreparedStore):
    """A store that a YAML file describes: its `plant` and `remove`, beside the query.

    Only its own host and port is contacted. One pool of connections is open as long as a record of
    this object, or a session, is.

    Args:
        config: What to send, checked; with `plant` and `remove`.
        transport: What sends it; it is closed whenever nothing of this object is in the store. None
            makes an `AiohttpTransport` with cookies.
        calls: Pace, time and retries of the requests that plant and remove. Queries are sent once:
            whoever asks makes them again.
    """

    stateful: ClassVar[bool] = True  # asked by one thread, about one content

    def __init__(
        self,
        config: HttpSystemConfig,
        transport: Transport | None = None,
        calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
    ) -> None:
        self._config, self._transport, self._calls = config, transport, calls
        self.reads_rows = config.reads_rows
        self._service: _StoreService | None = None
        self._uses = 0  # records and sessions of this object
        self._opened = Counter[str]()  # sessions of each tenant

    def __repr__(self) -> str:
        return f"HttpStore({self._config.shown})"

    def called(self, calls: CallOptions) -> HttpStore:
        """A new object for the same store, which knows nothing of what this one has planted."""
        return type(self)(self._config, self._transport, calls)

    def plant(self, record: Example) -> str:
        """Send `plant` for a record (PRIVATE).

        Returns:
            Its id at the service.

        Raises:
            TargetError: If the service does not do it, or names no id.
        """
        service, planted = self._begin(), Records(self._calls.journal)
        try:
            service.run(service.plant_all((record,), planted))
        except BaseException as error:
            try:
                _take_out(service, planted, error)
            finally:
                self._end()
            raise
        return next(iter(planted))

    def remove(self, record_id: str) -> None:
        """Send `remove` for what `plant` returned.

        Raises:
            TargetError: If the service does not do it: the record may be there still.
        """
        service = self._begin()
        try:
            service.run(service.remove(record_id))
            self._uses = max(1, self._uses - 1)  # the record, if this object planted it
        finally:
            self._end()

    def open(self, context: Context) -> _HttpStoreSession:
        """Send `setup`, if there is one, and plant the documents (PRIVATE) that it does not hold.

        Returns:
            A session; closing it removes these documents and sends `teardown`.

        Raises:
            TargetError: If the service does not do it. What was put in place is taken away then.
            UsageError: If there are documents, and nobody has said that the store is
                disposable.
        """
        if context:
            self._calls.require_disposable(self._config.shown)
            remove_left(self, self._calls.journal, self._config.shown)
        planted = Records(self._calls.journal)
        session = _HttpStoreSession(self._begin(), self._config, planted, self._end)
        try:
            session.set_up(context)
        except BaseException as error:
            session.close(error)
            raise
        return session

    def _begin(self) -> _StoreService:
        if self._service is None:
            transport = self._transport or AiohttpTransport(TOGETHER, cookies=True)
            self._service = _StoreService(self._config, transport, self._calls)
        self._uses += 1
        return self._service

    def _end(self) -> None:
        self._uses -= 1
        if self._uses <= 0 and self._service is not None:
            self._service.close()
            self._service = None


class _HttpTenants(HttpStore):
    def open_tenant(self, tenant: str) -> SimpleNamespace:
        config = self._config.of_tenant(TENANTS.index(tenant), self._opened[tenant])
        self._opened[tenant] += 1
        calls = self._calls.of_tenant(tenant)
        return open_over(HttpStore(config, self._transport, calls), config.shown)


class _HttpStoreSession:
    def __init__(
        self, service: _StoreService, config: HttpSystemConfig, planted: Records,
        closed: Callable[[], None],
    ) -> None:  # fmt: skip
        self._service, self._config, self._closed = service, config, closed
        self._planted = planted
        self._open = True

    def set_up(self, context: Context) -> None:
        config, service = self._config, self._service
        whole = config.sets_up_rows
        if config.setup is not None:
            values = row_values(context) if whole else {}
            service.run(for_good(service.requests.send(config.setup, values)))
        if not whole:
            began = time.monotonic()
            service.run(service.plant_all(context, self._planted))
            settle(1.5 * (time.monotonic() - began))

    def ask(self, query: str) -> Reply:
        service = self._service
        sent, seconds = service.run(service.requests.once(self._config, {"query": query}))
        return reply_of(self._config, sent, seconds)

    def close(self, because: BaseException | None = None) -> None:
        """Remove the documents, send `teardown` if there is one, and let go of the service."""
        if not self._open:
            return
        self._open = False
        try:
            _take_out(self._service, self._planted, because)
        except BaseException:
            with suppress(TargetError, KeyboardInterrupt):  # what stays is named
                self._tear_down()
            raise
        else:
            self._tear_down()
        finally:
            self._closed()

    def _tear_down(self) -> None:
        service, call = self._service, self._config.teardown
        if call is None:
            return
        try:
            despite_interrupt(lambda: service.run(for_good(service.requests.send(call, {}))))
        except TargetError as failure:
            raise TargetError(f"{failure} It was to take the documents away.") from None


def _take_out(service: _StoreService, planted: Records, because: BaseException | None) -> None:
    number = len(planted)
    try:
        despite_interrupt(lambda: service.run(service.remove_all(planted)))
    except (TargetError, KeyboardInterrupt) as cause:
        if not planted:
            raise
        stay = [*planted.values()]  # also what was on its way
        raise orphan_error(stay, max(number, len(stay)), cause, because) from None


def load_http_system(
    file: Path,
    transport: Transport | None = None,
    calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
) -> HttpSystem | HttpStore:
    """The system that a YAML file describes, checked; a store if the file has `plant`.

    It is not contacted yet.

    Args:
        file: Keys and values of an `HttpSystemConfig`.
        transport: What sends its requests; None for `AiohttpTransport`.
        calls: Pace, time and retries of its requests.

    Raises:
        UsageError: With what is wrong in the file. It shows no header.
    """
    config = load_http_config(file)
    stored = _HttpTenants if config.tenants else HttpStore
    kind = HttpSystem if config.plant is None else stored
    return kind(config, transport, calls)
