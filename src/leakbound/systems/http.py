"""A system behind HTTP, described by a YAML file.

The file says how a context and a query become HTTP requests, and where the answer stands in the
reply.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import reduce
from pathlib import Path

from pydantic import JsonValue

from leakbound.errors import TargetError
from leakbound.models.content import join, text_only
from leakbound.models.transport import HttpReply, Transport, TransportError, default_transport
from leakbound.systems.callable import TOGETHER
from leakbound.systems.http_config import SLOT, HttpCall, HttpSystemConfig, read_http_config
from leakbound.systems.protocol import AsyncSystem, Reply
from leakbound.systems.replies import as_reply
from leakbound.tasks import Context, Task

__all__ = ["HttpCall", "HttpSession", "HttpSystem", "HttpSystemConfig", "load_http_system"]

JSON_TYPE = {"content-type": "application/json"}


class HttpSystem(AsyncSystem):
    """Answers through a service behind HTTP.

    Only its own host and port is contacted. Nothing is sent twice: each answer is one release.

    Args:
        config: What to send, checked.
        transport: What sends it, and keeps cookies if the service needs them; it is closed whenever
            no session is open. None gives each session an `AiohttpTransport` of its own, with
            cookies.
    """

    def __init__(self, config: HttpSystemConfig, transport: Transport | None = None) -> None:
        self._config, self._transport = config, transport
        self._open: Counter[asyncio.AbstractEventLoop] = Counter()  # sessions by loop

    def __repr__(self) -> str:
        return f"HttpSystem({self._config.shown})"

    @property
    def concurrency(self) -> int:
        """1 for a service that stores a context, else 64."""
        return 1 if self._config.setup or self._config.teardown else TOGETHER

    async def open_async(self, context: Context) -> HttpSession:
        """Send `setup`, if there is one.

        Args:
            context: The examples (PRIVATE).

        Returns:
            A session; closing it sends `teardown`.

        Raises:
            TargetError: If the service does not do it. `teardown` is sent then as well.
        """
        values = _values(context)
        transport = self._transport or default_transport(1, cookies=True)
        session = HttpSession(self._config, transport, values, self._close)
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
    """A context in place at a service.

    Args:
        config: What to send.
        transport: What sends it.
        values: What slots are filled with (PRIVATE).
        closed: Called with the transport at the end.
    """

    def __init__(
        self,
        config: HttpSystemConfig,
        transport: Transport,
        values: Mapping[str, JsonValue],
        closed: Callable[[Transport], Awaitable[None]],
    ) -> None:
        self._config, self._transport, self._values = config, transport, values
        self._closed = closed

    async def set_up(self) -> None:
        """Send `setup`, if there is one.

        Raises:
            TargetError: If the service does not do it.
        """
        if self._config.setup is not None:
            await self._send(self._config.setup, self._values)

    async def ask(self, query: str) -> Reply:
        """Send a query.

        Args:
            query: What the user sends.

        Returns:
            What the file points to. Tokens, finish reason and tool calls are None where a reply
            has nothing there.

        Raises:
            TargetError: If the service does not answer, or the reply holds no answer.
        """
        config, began = self._config, time.perf_counter()
        reply = _decode(await self._send(config, {**self._values, "query": query}), config)
        seconds = time.perf_counter() - began
        found = {"text": _at(reply, config.answer, config)}
        if config.scores is not None:
            found["scores"] = _at(reply, config.scores, config)
        for name, path in config.paths.items():
            found[name] = None if path is None else _at_or_none(reply, path)
        return as_reply(found, config.shown, seconds)

    async def close(self) -> None:
        """Send `teardown`, if there is one, and let go of the transport.

        Raises:
            TargetError: If the service does not do it.
        """
        try:
            if self._config.teardown is not None:
                await self._send(self._config.teardown, self._values)
        finally:
            await self._closed(self._transport)

    async def _send(self, call: HttpCall, values: Mapping[str, JsonValue]) -> HttpReply:
        """An error shows status or kind: bodies may hold private text."""
        content = None if call.body is None else json.dumps(_filled(call.body, values)).encode()
        try:
            reply = await self._transport.send(
                call.method, call.url, _all_headers(call), content, self._config.timeout
            )
        except TransportError as error:
            raise TargetError(
                f"the system at {call.shown} could not be asked ({error.kind})."
            ) from None
        if not 200 <= reply.status < 300:
            raise TargetError(
                f"the system at {call.shown} answered with status {reply.status}; it must be 2xx."
            )
        return reply


def _values(context: Context) -> dict[str, JsonValue]:
    """What slots are filled with, but for the query."""
    who = "a system behind HTTP"
    rows: list[JsonValue] = [
        {"input": text_only(row.input, who), "label": row.label} for row in context
    ]
    return {"rows": rows, "context": text_only(join(map(Task("http").block, context)), who)}


def _all_headers(call: HttpCall) -> dict[str, str]:
    named = {name.lower() for name in call.headers}
    json_type = {} if call.body is None or "content-type" in named else JSON_TYPE
    return {**json_type, **call.headers}


def _decode(reply: HttpReply, call: HttpCall) -> JsonValue:
    try:
        found: JsonValue = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise TargetError(f"the system at {call.shown} did not answer with JSON.") from None
    return found


def _filled(template: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """The template with its slots filled as JSON values.

    What is filled in is never read for slots or quotes.
    """
    if isinstance(template, dict):
        return {key: _filled(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if whole := SLOT.fullmatch(template):
        return values[whole[1]]
    return SLOT.sub(lambda slot: _text(values[slot[1]]), template)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _at(reply: JsonValue, path: str, call: HttpCall) -> JsonValue:
    """What stands at a dotted path; whole numbers index lists."""
    for step in path.split("."):
        try:
            reply = _step(reply, step)
        except (KeyError, IndexError, ValueError, TypeError):
            raise TargetError(
                f"the reply of {call.shown} has nothing at {path!r}; check `answer` and `scores`."
            ) from None
    return reply


def _at_or_none(reply: JsonValue, path: str) -> JsonValue:
    """Services leave out what a reply does not have, such as tool calls."""
    try:
        return reduce(_step, path.split("."), reply)
    except (KeyError, IndexError, ValueError, TypeError):
        return None


def _step(reply: JsonValue, step: str) -> JsonValue:
    if isinstance(reply, list):
        return reply[int(step)]
    if isinstance(reply, dict):
        return reply[step]
    raise TypeError("neither a list nor an object")


def load_http_system(file: Path, transport: Transport | None = None) -> HttpSystem:
    """The system that a YAML file describes, checked.

    Args:
        file: Keys and values of an `HttpSystemConfig`.
        transport: What sends its requests; None for `AiohttpTransport`.

    Returns:
        The system. It is not contacted yet.

    Raises:
        UsageError: With what is wrong in the file. It shows no header.
    """
    return HttpSystem(read_http_config(file), transport)
