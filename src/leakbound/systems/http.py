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
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path

from pydantic import JsonValue

from leakbound.errors import TargetError
from leakbound.models.content import join, text_only
from leakbound.models.openai.window import retry_after
from leakbound.models.transport import HttpReply, Transport, TransportError, default_transport
from leakbound.systems.callable import TOGETHER
from leakbound.systems.calls import Caller, CallOptions
from leakbound.systems.failures import RETRIED, NoAnswer
from leakbound.systems.http_config import SLOT, HttpCall, HttpSystemConfig, read_http_config
from leakbound.systems.protocol import AsyncSystem, Reply
from leakbound.systems.replies import as_reply, text_in
from leakbound.tasks import Context, Task

__all__ = ["HttpCall", "HttpSession", "HttpSystem", "HttpSystemConfig", "load_http_system"]

JSON_TYPE = {"content-type": "application/json"}
# What no query and no context changes; every other status may be the work of one of them.
ENDS = {
    401: "Put the right key into the environment variable that the file names in `headers`.",
    407: "A proxy wants a name and a password; ask the service directly.",
}
REDIRECT = "No other address than the given one is contacted; give the right `url`."


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
        """Send `setup`, if there is one.

        Args:
            context: The examples (PRIVATE).

        Returns:
            A session; closing it sends `teardown`.

        Raises:
            NoAnswer: If the service does not do it. `teardown` is sent then as well.
            TargetError: If it cannot be reached.
        """
        values = _values(context)
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
    """A context in place at a service.

    Args:
        config: What to send.
        transport: What sends it.
        values: What slots are filled with (PRIVATE).
        closed: Called with the transport at the end.
        caller: What makes the requests.
    """

    def __init__(
        self,
        config: HttpSystemConfig,
        transport: Transport,
        values: Mapping[str, JsonValue],
        closed: Callable[[Transport], Awaitable[None]],
        caller: Caller,
    ) -> None:
        self._config, self._transport, self._values = config, transport, values
        self._closed, self._caller = closed, caller

    async def set_up(self) -> None:
        """Send `setup`, if there is one.

        Raises:
            NoAnswer: If the service does not do it.
            TargetError: If it cannot be reached.
        """
        if self._config.setup is not None:
            await self._send(self._config.setup, self._values)

    async def ask(self, query: str) -> Reply:
        """Send a query.

        Args:
            query: What the user sends.

        Returns:
            What the file points to. Tokens, finish reason and tool calls are None where a reply
            has nothing there, and channels are empty. Its seconds are those of the request that
            was answered.

        Raises:
            NoAnswer: If no output comes back, or the reply holds no answer.
            TargetError: If the service cannot be reached, or will not be asked so.
        """
        config = self._config
        sent, seconds = await self._send(config, {**self._values, "query": query})
        reply = _decode(sent, config)
        found: dict[str, JsonValue] = {"text": _answer_in(reply, config)}
        if config.scores is not None:
            found["scores"] = _at(reply, config.scores, config)
        for name, path in config.paths.items():
            found[name] = None if path is None else _at_or_none(reply, path)
        found["channels"] = {name: _at_or_none(reply, p) for name, p in config.channels.items()}
        return as_reply(found, config.shown, seconds)

    async def close(self) -> None:
        """Send `teardown`, if there is one, and let go of the transport.

        Raises:
            TargetError: If the service does not do it: the context may be there still.
        """
        try:
            if self._config.teardown is not None:
                await self._send(self._config.teardown, self._values)
        except NoAnswer as failure:
            raise TargetError(f"{failure} It was to take the context away.") from None
        finally:
            await self._closed(self._transport)

    async def _send(
        self, call: HttpCall, values: Mapping[str, JsonValue]
    ) -> tuple[HttpReply, float]:
        """The reply of the last try, and its seconds."""
        content = None if call.body is None else json.dumps(_filled(call.body, values)).encode()
        return await self._caller.call_async(partial(self._send_once, call, content))

    async def _send_once(self, call: HttpCall, content: bytes | None) -> tuple[HttpReply, float]:
        """An error shows status or kind: bodies may hold private text."""
        began, timeout = time.perf_counter(), self._caller.options.timeout or self._config.timeout
        try:
            reply = await self._transport.send(
                call.method, call.url, _all_headers(call), content, timeout
            )
        except TransportError as error:
            raise NoAnswer(
                f"the system at {call.shown} could not be asked ({error.kind}).",
                error.kind,
                passes=error.kind != "a reply too long",
                counts=error.kind != "no connection",
            ) from None
        _require_ok(reply, call)
        return reply, time.perf_counter() - began


def _require_ok(reply: HttpReply, call: HttpCall) -> None:
    status = reply.status
    if 200 <= status < 300:
        return
    if status in ENDS or 300 <= status < 400:
        told = f"the system at {call.shown} answered with status {status}; it must be 2xx."
        raise TargetError(f"{told} {ENDS.get(status, REDIRECT)}")
    raise NoAnswer(
        f"the system at {call.shown} answered with status {status}; it must be 2xx.",
        f"status {status}",
        passes=status in RETRIED,
        wait=retry_after(reply.header("retry-after"), datetime.now(UTC)),
    )


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
        sentence = f"the system at {call.shown} did not answer with JSON."
        raise NoAnswer(sentence, "a reply that is not JSON") from None
    return found


def _answer_in(reply: JsonValue, config: HttpSystemConfig) -> str:
    """The text at the answer's path; a refusal or a filter may leave nothing there."""
    found = text_in(_at(reply, config.answer, config))
    if isinstance(found, str):
        return found
    raise NoAnswer(
        f"the reply of {config.shown} has {type(found).__name__} at {config.answer!r}; it must be "
        "a text.",
        "a reply without an answer",
    )


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
            raise NoAnswer(
                f"the reply of {call.shown} has nothing at {path!r}; check `answer` and `scores`.",
                "a reply without an answer",
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


def load_http_system(
    file: Path,
    transport: Transport | None = None,
    calls: CallOptions = CallOptions(),  # noqa: B008  # frozen
) -> HttpSystem:
    """The system that a YAML file describes, checked.

    Args:
        file: Keys and values of an `HttpSystemConfig`.
        transport: What sends its requests; None for `AiohttpTransport`.
        calls: Pace, time and retries of its requests.

    Returns:
        The system. It is not contacted yet.

    Raises:
        UsageError: With what is wrong in the file. It shows no header.
    """
    return HttpSystem(read_http_config(file), transport, calls)
