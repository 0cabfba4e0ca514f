"""A system behind HTTP, described by a YAML file.

The file says how a context and a query become HTTP requests, and where the answer stands in the
reply.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from pydantic import JsonValue

from leakbound.errors import TargetError
from leakbound.models.content import join, text_only
from leakbound.models.http.transport import AiohttpTransport, HttpReply, Transport, TransportError
from leakbound.systems.callable import TOGETHER
from leakbound.systems.calls import RETRIED, Caller, CallOptions, NoAnswer
from leakbound.systems.http.config import SLOT, HttpCall, HttpSystemConfig, is_one_a_row
from leakbound.systems.protocol import AsyncSession, AsyncSystem, FunctionSession, Reply
from leakbound.systems.replies import REPLY, as_reply, text_in, whole_reply
from leakbound.tasks import Context, Task

SlotValues = Mapping[str, JsonValue]  # what slots are filled with (PRIVATE)
EVENTS, END = "text/event-stream", "[DONE]"
STREAMS = (EVENTS, "application/x-ndjson", "application/jsonl")
DATA = re.compile(r"^data: ?(.*)$", re.MULTILINE)
JSON_TYPE = {"content-type": "application/json"}
# What no query and no context changes; every other status may be the work of one of them.
ENDS = {
    401: "Put the right key into the environment variable that the file names in `headers`.",
    407: "A proxy wants a name and a password; ask the service directly.",
}
REDIRECT = "No other address than the given one is contacted; give the right `url`."


class HttpRequests:
    def __init__(self, transport: Transport, caller: Caller, timeout: float) -> None:
        self.transport, self.caller, self._timeout = transport, caller, timeout

    async def send(
        self, call: HttpCall, values: SlotValues, limited: bool = False
    ) -> tuple[HttpReply, float]:
        """Send a request, again where it gave no output."""
        return await self.caller.call_async(partial(self.once, call, values), limited=limited)

    async def once(self, call: HttpCall, values: SlotValues) -> tuple[HttpReply, float]:
        """Send a request once. An error shows status or kind: bodies may hold private text."""
        content = None if call.body is None else json.dumps(fill_slots(call.body, values)).encode()
        named = {name.lower() for name in call.headers}
        headers = {} if content is None or "content-type" in named else JSON_TYPE
        headers, url = {**headers, **call.headers}, call.url
        if "id" in values:  # one step of a path, whatever its characters
            url = url.replace("{id}", quote(_text(values["id"]), safe=""))
        began, timeout = time.perf_counter(), self.caller.options.timeout or self._timeout
        try:
            reply = await self.transport.send(call.method, url, headers, content, timeout)
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
        wait=reply.wait,
        body=reply.body,
    )


def fill_slots(template: JsonValue, values: SlotValues) -> JsonValue:
    """The template with its slots filled; what is filled in is never read for slots or quotes."""
    if isinstance(template, dict):
        return {key: fill_slots(value, values) for key, value in template.items()}
    if isinstance(template, list) and is_one_a_row(template) and "rows" in values:
        rows = cast("list[dict[str, JsonValue]]", values["rows"])
        each = [
            {**values, "text": row["input"], "label": row["label"], "number": number}
            for number, row in enumerate(rows, 1)
        ]
        return [fill_slots(template[0], one) for one in each]
    if isinstance(template, list):
        return [fill_slots(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if (whole := SLOT.fullmatch(template)) and whole[1] in values:
        return values[whole[1]]
    return SLOT.sub(lambda slot: _text(values[slot[1]]) if slot[1] in values else slot[0], template)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def decode_json(reply: HttpReply, call: HttpCall) -> JsonValue:
    try:
        found: JsonValue = json.loads(reply.body)
    except (ValueError, RecursionError):
        sentence = f"the system at {call.shown} answers with {other_than_json(reply)}"
        raise NoAnswer(sentence, "a reply that is not JSON", body=reply.body) from None
    return found


def other_than_json(reply: HttpReply) -> str:
    """What a reply is by its type, and what to do about it."""
    kind = (reply.header("content-type") or "").partition(";")[0].strip().lower()
    if kind == "text/html" or reply.body.lstrip()[:1] == b"<":
        return "a web page; a service must answer with JSON. Check the path."
    if kind in STREAMS:
        return (
            f"a stream ({kind}); a service must answer with one JSON value. Ask it for that (often "
            "`stream: false` in the body), or give a Python function that joins its pieces."
        )
    return (
        "something that is not JSON; a service must answer with JSON. For plain text, give a "
        "Python function that asks it."
    )


def events_in(reply: HttpReply, call: HttpCall) -> list[JsonValue] | None:
    """The events of a stream, all texts where the first one is not JSON; None otherwise."""
    kind = (reply.header("content-type") or "").partition(";")[0].strip().lower()
    if kind not in STREAMS:
        return None
    text = reply.body.decode(errors="replace").replace("\r\n", "\n")
    if kind == EVENTS:
        told = ["\n".join(DATA.findall(one)) for one in text.split("\n\n") if DATA.search(one)]
    else:
        told = [line for line in text.split("\n") if line.strip()]
    told = [one for one in told if one.strip() != END]
    if kind == EVENTS and not any(one.lstrip().startswith(("{", "[", '"')) for one in told[:1]):
        return [*told]
    try:
        return [*map(json.loads, told)]
    except (ValueError, RecursionError):
        sentence = f"the system at {call.shown} answers with a stream that is not all JSON."
        raise NoAnswer(sentence, "a reply that is not JSON", body=reply.body) from None


def at(reply: JsonValue, path: str, call: HttpCall) -> JsonValue:
    """What stands at a dotted path; whole numbers index lists, and "" is the whole reply."""
    for step in path.split(".") if path else ():
        try:
            reply = _step(reply, step)
        except (KeyError, IndexError, ValueError, TypeError):
            raise NoAnswer(
                f"the reply of {call.shown} has nothing at {path!r}; check `answer` and `scores`.",
                "a reply without an answer",
            ) from None
    return reply


def value_at(reply: Any, path: str) -> Any:
    """What stands in a field, or at a path below one, whose names may have dots; None if nothing:
    services leave out what a reply does not have, such as tool calls."""
    if not path or (isinstance(reply, Mapping) and path in reply):
        return reply[path] if path else reply
    first, _, rest = path.partition(".")
    try:
        return value_at(_step(reply, first), rest) if rest or isinstance(reply, list) else None
    except (KeyError, IndexError, ValueError, TypeError):
        return None


def _first_at(replies: Sequence[JsonValue], path: str) -> JsonValue:
    found = (value_at(one, path) for one in replies)
    return next((one for one in found if one is not None), None)


def _step(reply: JsonValue, step: str) -> JsonValue:
    if isinstance(reply, list):
        return reply[int(step)]
    if isinstance(reply, dict):
        return reply[step]
    raise TypeError("neither a list nor an object")


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
        self.reads_rows = config.reads_rows
        self._open: Counter[asyncio.AbstractEventLoop] = Counter()  # sessions by loop

    def __repr__(self) -> str:
        return f"HttpSystem({self._config.shown})"

    def called(self, calls: CallOptions) -> HttpSystem:
        """The same service, called in another way."""
        return HttpSystem(self._config, self._transport, calls)

    @property
    def concurrency(self) -> int:
        """1 for a service that stores a context, else 64."""
        return 1 if self._config.setup or self._config.teardown else TOGETHER

    async def open_async(self, context: Context) -> AsyncSession:
        config, values = self._config, row_values(context)
        transport = self._transport or AiohttpTransport(1, cookies=True)
        requests = HttpRequests(transport, self.caller, config.timeout)
        self._open[asyncio.get_running_loop()] += 1

        async def ask(query: str) -> Reply:
            sent, seconds = await requests.send(config, {**values, "query": query}, limited=True)
            return reply_of(config, sent, seconds)

        async def close() -> None:
            """Send `teardown`, if there is one, and close the transport."""
            try:
                if config.teardown is not None:
                    await requests.send(config.teardown, values)
            except NoAnswer as failure:
                raise TargetError(f"{failure} It was to take the context away.") from None
            finally:
                await self._release(transport)

        try:
            if config.setup is not None:
                await requests.send(config.setup, values)
        except BaseException:
            await close()
            raise
        return FunctionSession(ask, close)

    async def _release(self, transport: Transport) -> None:
        loop = asyncio.get_running_loop()
        self._open[loop] -= 1
        if transport is not self._transport or not self._open[loop]:
            await transport.close()
        if not self._open[loop]:
            del self._open[loop]


def reply_of(config: HttpSystemConfig, sent: HttpReply, seconds: float) -> Reply:
    events = events_in(sent, config)
    reply = decode_json(sent, config) if events is None else events
    try:
        said = _answer_in(reply, config) if events is None else _answer_of(events, config)
        found: dict[str, JsonValue] = {"text": said}
        if config.scores is not None:
            found["scores"] = at(reply, config.scores, config)
    except NoAnswer as failure:
        failure.body = sent.body
        raise
    parts = [reply] if events is None else events[::-1]  # the last event that has it
    for name, path in config.paths.items():
        found[name] = None if path is None else _first_at(parts, path)
    channels = {name: _first_at(parts, path) for name, path in config.channels.items()}
    headers: JsonValue = {one: sent.header(one) or "" for one in config.reply_headers}
    if headers and channels:
        channels["headers"] = headers
    text = found["text"]
    if not channels and (config.answer or headers) and isinstance(text, str):
        beside = {**(reply if isinstance(reply, dict) else {"reply": reply}), "headers": headers}
        told = whole_reply(beside if headers else reply, text)
        channels = {} if told is None else {REPLY: told}
    found["channels"] = channels
    return as_reply(found, config.shown, seconds)


def _answer_of(events: list[JsonValue], config: HttpSystemConfig) -> str:
    """The pieces of an answer, joined: many events of a stream have none."""
    path = config.answer
    pieces = [text_in(value_at(one, path)) for one in events]
    texts = [one for one in pieces if isinstance(one, str)]
    if texts:
        return "".join(texts)
    raise NoAnswer(
        f"no event of the stream of {config.shown} has a text at {path!r}; check `answer`.",
        "a reply without an answer",
    )


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
    if not config.answer and not isinstance(reply, str):
        return json.dumps(reply, ensure_ascii=False)  # all of it
    if isinstance(found, str):
        return found
    raise NoAnswer(
        f"the reply of {config.shown} has {type(found).__name__} at {config.answer!r}; it must be "
        "a text.",
        "a reply without an answer",
    )
