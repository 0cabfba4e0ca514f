"""A system behind HTTP, described by a YAML file.

The file says how a context and a query become HTTP requests, and where the answer stands in the
reply.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from leakbound.errors import TargetError, UsageError
from leakbound.models.content import join, text_only
from leakbound.models.transport import HttpReply, Transport, TransportError, default_transport
from leakbound.systems.callable import TOGETHER, as_reply
from leakbound.systems.protocol import AsyncSystem, Reply
from leakbound.tasks import Context, Task

__all__ = ["HttpCall", "HttpSession", "HttpSystem", "HttpSystemConfig", "load_http_system"]

SLOT = re.compile(r"\{(context|rows|query)\}")
VARIABLE = re.compile(r"\$\{(\w+)\}")
SECRET = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)
PORTS = {"http": 80, "https": 443}
JSON_TYPE = {"content-type": "application/json"}


class HttpCall(BaseModel):
    """One HTTP request.

    Attributes:
        url: Absolute address.
        method: HTTP method.
        headers: Header fields; `${NAME}` stands for an environment variable.
        body: JSON to send. In its texts, "{rows}" becomes a list of {input, label}, "{context}" the
            rows as text, "{query}" the query. None sends no content.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = Field({}, repr=False)
    body: JsonValue = None

    @property
    def origin(self) -> tuple[str, str | None, int | None]:
        """Scheme, host and port."""
        url = urlsplit(self.url)
        return url.scheme, url.hostname, url.port or PORTS.get(url.scheme)

    @property
    def slots(self) -> set[str]:
        """Names of the slots in the body; its keys stay as they are."""
        return {name for text in _texts(self.body) for name in SLOT.findall(text)}

    @property
    def shown(self) -> str:
        """The address for messages, without its query, which may hold a key."""
        return urlsplit(self.url)._replace(query="", fragment="").geturl()


class HttpSystemConfig(HttpCall):
    """The request that asks, and those around it.

    Attributes:
        answer: Path of the answer in the reply, such as choices.0.message.content.
        scores: Path of the scores in the reply; None if it has none.
        timeout: Seconds for one request.
        setup: Sent when a session opens, to put the context in place.
        teardown: Sent when it closes, to take the context away, whatever happened.
    """

    answer: str
    scores: str | None = None
    timeout: float = Field(60.0, gt=0)
    setup: HttpCall | None = None
    teardown: HttpCall | None = None

    @property
    def calls(self) -> list[HttpCall]:
        """All requests that there are, in order."""
        return [one for one in (self.setup, self, self.teardown) if one is not None]


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
            The text and the scores that the file points to.

        Raises:
            TargetError: If the service does not answer, or the reply holds no answer.
        """
        config, began = self._config, time.perf_counter()
        reply = _decode(await self._send(config, {**self._values, "query": query}), config)
        found = {"text": _at(reply, config.answer, config)}
        if config.scores is not None:
            found["scores"] = _at(reply, config.scores, config)
        return as_reply(found, config.shown, time.perf_counter() - began)

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


def _texts(template: JsonValue) -> Iterator[str]:
    """The texts of a template that are filled."""
    if isinstance(template, str):
        yield template
    elif isinstance(template, dict | list):
        for value in template.values() if isinstance(template, dict) else template:
            yield from _texts(value)


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
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = HttpSystemConfig(**values)
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"the system file {str(file)!r} is not YAML.") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"the system file {str(file)!r} is wrong at {'.'.join(map(str, first['loc']))!r}: "
            f"{first['msg']}."
        ) from None
    except TypeError:
        raise UsageError(
            f"the system file {str(file)!r} must hold keys and values, such as 'url: http://...'."
        ) from None
    _check(found, str(file))
    return HttpSystem(_with_secrets(found, str(file)), transport)


def _check(config: HttpSystemConfig, file: str) -> None:
    for call in config.calls:
        _check_call(call, file)
        if call.origin != config.origin:
            raise UsageError(
                f"setup and teardown of {file!r} must go to the same host and port as its url."
            )
    shown = config.slots | (config.setup.slots if config.setup else set())
    if "query" not in config.slots or not shown & {"context", "rows"}:
        raise UsageError(
            f'{file!r} must have "{{query}}" in its body, and "{{context}}" or "{{rows}}" in its '
            "body or in that of its setup."
        )


def _check_call(call: HttpCall, file: str) -> None:
    if not _is_plain(call.url):
        raise UsageError(
            f"a url of {file!r} cannot be used; it must be http://host:port/path, without a name "
            "or password."
        )
    if VARIABLE.search(call.url + json.dumps(call.body)):
        raise UsageError(
            f"{file!r} has ${{...}} outside of headers; only headers are filled from the "
            "environment."
        )
    for name, value in call.headers.items():
        if SECRET.search(name) and not VARIABLE.search(value):
            raise UsageError(
                f"the header {name} of {file!r} holds its secret; write ${{NAME}} and set NAME in "
                "the environment."
            )


def _is_plain(text: str) -> bool:
    """A web address that everybody reads alike, without a user."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        return False
    odd = "\\" in text or not text.isprintable() or any(map(str.isspace, text))
    good = url.scheme in PORTS and url.hostname and port != 0
    return bool(good) and not odd and "@" not in url.netloc


def _with_secrets(config: HttpSystemConfig, file: str) -> HttpSystemConfig:
    """The configuration with headers filled from the environment."""
    around = {"setup": config.setup, "teardown": config.teardown}
    filled = {
        name: call.model_copy(update={"headers": _headers(call, file)})
        for name, call in around.items()
        if call is not None
    }
    return config.model_copy(update={"headers": _headers(config, file), **filled})


def _headers(call: HttpCall, file: str) -> dict[str, str]:
    for name in VARIABLE.findall("".join(call.headers.values())):
        if name not in os.environ:
            raise UsageError(f"{file!r} reads the environment variable {name}, which is not set.")
        if not os.environ[name].isprintable():
            raise UsageError(
                f"{file!r} reads the environment variable {name}, which has characters that no "
                "header has; set it again."
            )
    return {
        key: VARIABLE.sub(lambda at: os.environ[at[1]], value)
        for key, value in call.headers.items()
    }
