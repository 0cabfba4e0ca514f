"""Requests that plant records in a store behind HTTP, and remove them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TypeVar

from leakbound.errors import TargetError
from leakbound.models.blocking import LoopThread
from leakbound.models.content import text_only
from leakbound.models.transport import HttpReply, Transport
from leakbound.systems.calls import Caller, CallOptions
from leakbound.systems.failures import NoAnswer
from leakbound.systems.http_config import HttpSystemConfig, PlantCall
from leakbound.systems.http_requests import HttpRequests, SlotValues, at, decoded
from leakbound.systems.left_records import PlantedRecord, Records
from leakbound.tasks import Example

T = TypeVar("T")
R = TypeVar("R")
TOGETHER = 8  # documents sent at once, where nobody says how many: services index slowly
PATIENCE = 15.0  # seconds to wait for replies of what was on its way: services embed what they add
GONE = ("status 404", "status 410")  # of an id that an unanswered request has added or removed


class StoreService:
    """Sends requests in an event loop of its own."""

    def __init__(self, config: HttpSystemConfig, transport: Transport, calls: CallOptions) -> None:
        self._config, self._calls = config, calls
        self.requests = HttpRequests(transport, Caller(calls), config.timeout)
        self._thread = LoopThread("leakbound-store", transport.close)
        self._unsure: set[str] = set()  # ids of requests without a reply: they may be there or not
        self._under_way: set[asyncio.Task[None]] = set()  # records on their way

    def run(self, work: Coroutine[object, object, R]) -> R:
        return self._thread.run(work)

    def close(self) -> None:
        self._thread.close(patience=None)

    async def _plant(self, record: Example, into: Records) -> None:
        """An id that leakbound makes names the record however often the request is sent, and stands
        in `into` before it is: a record whose request is interrupted is removed, too."""
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
            if _refused(failure):
                into.pop(own, None)
            raise TargetError(f"{failure} {_unknown(call, failure, values)}") from None
        self._unsure.discard(own)
        into[found] = PlantedRecord(found, record)

    async def _plant_to_end(self, record: Example, into: Records) -> None:
        """An interrupt does not take back a request: the reply says whether a record is there."""
        task = asyncio.create_task(self._plant(record, into))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        await asyncio.shield(task)

    async def _planted(self, call: PlantCall, values: SlotValues) -> str:
        attempt = self.requests.once if call.id is None else self._once_for_all
        sent, _ = await self.requests.caller.call_async(lambda: attempt(call, values))
        return str(values["id"]) if call.id is None else _id_in(sent, call)

    async def _once_for_all(self, call: PlantCall, values: SlotValues) -> tuple[HttpReply, float]:
        """Sent again, a record that was added without a reply would be there twice."""
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
            planted.pop(record_id, None)

        errors = await self._each(one, list(planted), until_error=False)
        if errors:
            raise errors[0]

    async def _each(
        self, work: Callable[[T], Awaitable[None]], things: Sequence[T], until_error: bool
    ) -> list[TargetError]:
        """Work on several at once; the errors."""
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
    """A store that cannot be filled or emptied is no outcome of a question."""
    try:
        return await work
    except NoAnswer as failure:
        raise TargetError(str(failure)) from None


def _refused(failure: NoAnswer) -> bool:
    """Whether nothing was added. A conflict may be one with a try whose reply was lost."""
    return failure.kind.startswith("status 4") and failure.kind != "status 409"


def _unknown(call: PlantCall, failure: NoAnswer, values: SlotValues) -> str:
    """What is not known of a record whose request had no good end."""
    if _refused(failure):
        return "No record was added."
    if call.id is None:
        return f"The record {values['id']} may have been added, so it is removed."
    return "The record may be in the store, under an id that nobody was told."


def _id_in(sent: HttpReply, call: PlantCall) -> str:
    try:
        found = at(decoded(sent, call), str(call.id), call)
    except NoAnswer:
        found = None
    if isinstance(found, bool) or not isinstance(found, str | int) or found == "":
        raise TargetError(
            f"the reply of {call.shown} has no id at {call.id!r}, so the record that was added "
            "cannot be removed; check `id` of plant. The record is in the store."
        )
    return str(found)
