"""A system behind HTTP, described by a YAML file.

The file says how a context and a query become HTTP requests, and where the answer stands in the
reply.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from pydantic import JsonValue

from leakbound.errors import TargetError
from leakbound.models.content import join, text_only
from leakbound.models.http.transport import HttpReply, Transport, default_transport
from leakbound.systems.callable import TOGETHER
from leakbound.systems.calls import Caller, CallOptions
from leakbound.systems.failures import NoAnswer
from leakbound.systems.http.config import HttpCall, HttpSystemConfig
from leakbound.systems.http.requests import HttpRequests, at, at_or_none, decoded
from leakbound.systems.protocol import AsyncSystem, Reply
from leakbound.systems.replies import as_reply, text_in
from leakbound.tasks import Context, Task

__all__ = [
    "HttpCall", "HttpSession", "HttpSystem", "HttpSystemConfig", "reply_of",
    "row_values",
]  # fmt: skip


class HttpSystem(AsyncSystem):
    """Answers through a service behind HTTP.

    Only its own host and port is contacted. A request is sent again where no output came back: its
    status is one of `RETRIED`, or there was no whole reply in time.

    Args:
        config: What to send, checked.
        transport: What sends it, and keeps cookies if the service needs them; it is closed whenever
            no session is open. None gives each session an `AiohttpTransport` of its own, with
            cookies.
        calls: Pace, time and retries of its requests.
    """

    def __init__(
        self,
        config: HttpSystemConfig,
        transport: Transport | None = None,
        calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
    ) -> None:
        self._config, self._transport, self.caller = config, transport, Caller(calls)
        self._open: Counter[asyncio.AbstractEventLoop] = Counter()  # sessions by loop

    def __repr__(self) -> str:
        return f"HttpSystem({self._config.shown})"

    def called(self, calls: CallOptions) -> HttpSystem:
        """The same service, called in another way.

        Args:
            calls: Pace, time and retries of its requests.

        Returns:
            A new system.
        """
        return HttpSystem(self._config, self._transport, calls)

    @property
    def concurrency(self) -> int:
        """1 for a service that stores a context, else 64."""
        return 1 if self._config.setup or self._config.teardown else TOGETHER

    async def open_async(self, context: Context) -> HttpSession:
        """Send `setup`, if there is one."""
        values = row_values(context)
        transport = self._transport or default_transport(1, cookies=True)
        session = HttpSession(self._config, transport, values, self._close, self.caller)
        self._open[asyncio.get_running_loop()] += 1
        try:
            await session.set_up()
        except BaseException:
            await session.close()
            raise
        return session

    async def _close(self, transport: Transport) -> None:
        loop = asyncio.get_running_loop()
        self._open[loop] -= 1
        if transport is not self._transport or not self._open[loop]:
            await transport.close()
        if not self._open[loop]:
            del self._open[loop]


class HttpSession:
    """A context in place at a service."""

    def __init__(
        self,
        config: HttpSystemConfig,
        transport: Transport,
        values: Mapping[str, JsonValue],
        closed: Callable[[Transport], Awaitable[None]],
        caller: Caller,
    ) -> None:
        self._config, self._values, self._closed = config, values, closed
        self._requests = HttpRequests(transport, caller, config.timeout)

    async def set_up(self) -> None:
        """Send `setup`, if there is one."""
        if self._config.setup is not None:
            await self._requests.send(self._config.setup, self._values)

    async def ask(self, query: str) -> Reply:
        """Send a query."""
        asked = {**self._values, "query": query}
        sent, seconds = await self._requests.send(self._config, asked, limited=True)
        return reply_of(self._config, sent, seconds)

    async def close(self) -> None:
        """Send `teardown`, if there is one, and close the transport."""
        try:
            if self._config.teardown is not None:
                await self._requests.send(self._config.teardown, self._values)
        except NoAnswer as failure:
            raise TargetError(f"{failure} It was to take the context away.") from None
        finally:
            await self._closed(self._requests.transport)


def reply_of(config: HttpSystemConfig, sent: HttpReply, seconds: float) -> Reply:
    """What a service replied to a query."""
    reply = decoded(sent, config)
    found: dict[str, JsonValue] = {"text": _answer_in(reply, config)}
    if config.scores is not None:
        found["scores"] = at(reply, config.scores, config)
    for name, path in config.paths.items():
        found[name] = None if path is None else at_or_none(reply, path)
    found["channels"] = {name: at_or_none(reply, p) for name, p in config.channels.items()}
    return as_reply(found, config.shown, seconds)


def row_values(context: Context) -> dict[str, JsonValue]:
    """What slots are filled with, except the query."""
    who = "a system behind HTTP"
    rows: list[JsonValue] = [
        {"input": text_only(row.input, who), "label": row.label} for row in context
    ]
    return {"rows": rows, "context": text_only(join(map(Task("http").block, context)), who)}


def _answer_in(reply: JsonValue, config: HttpSystemConfig) -> str:
    """The text at the answer's path; a refusal or a filter may leave nothing there."""
    found = text_in(at(reply, config.answer, config))
    if isinstance(found, str):
        return found
    raise NoAnswer(
        f"the reply of {config.shown} has {type(found).__name__} at {config.answer!r}; it must be "
        "a text.",
        "a reply without an answer",
    )
