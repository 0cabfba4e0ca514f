"""The requests of a YAML file: templates filled with values, sent at their pace, checked."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import partial, reduce
from typing import cast
from urllib.parse import quote

from pydantic import JsonValue

from leakbound.errors import TargetError
from leakbound.models.http.transport import HttpReply, Transport, TransportError
from leakbound.systems.calls import Caller
from leakbound.systems.failures import RETRIED, NoAnswer
from leakbound.systems.http.config import SLOT, HttpCall, is_one_a_row

SlotValues = Mapping[str, JsonValue]  # what slots are filled with (PRIVATE)
JSON_TYPE = {"content-type": "application/json"}
# What no query and no context changes; every other status may be the work of one of them.
ENDS = {
    401: "Put the right key into the environment variable that the file names in `headers`.",
    407: "A proxy wants a name and a password; ask the service directly.",
}
REDIRECT = "No other address than the given one is contacted; give the right `url`."


class HttpRequests:
    """Sends the requests of a file."""

    def __init__(self, transport: Transport, caller: Caller, timeout: float) -> None:
        self.transport, self.caller, self._timeout = transport, caller, timeout

    async def send(
        self, call: HttpCall, values: SlotValues, limited: bool = False
    ) -> tuple[HttpReply, float]:
        """Send a request, again where it gave no output."""
        return await self.caller.call_async(partial(self.once, call, values), limited=limited)

    async def once(self, call: HttpCall, values: SlotValues) -> tuple[HttpReply, float]:
        """Send a request once. An error shows status or kind: bodies may hold private text."""
        content = None if call.body is None else json.dumps(filled(call.body, values)).encode()
        began, timeout = time.perf_counter(), self.caller.options.timeout or self._timeout
        try:
            reply = await self.transport.send(
                call.method, _address(call.url, values), _all_headers(call), content, timeout
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
        wait=reply.wait,
    )


def _all_headers(call: HttpCall) -> dict[str, str]:
    named = {name.lower() for name in call.headers}
    json_type = {} if call.body is None or "content-type" in named else JSON_TYPE
    return {**json_type, **call.headers}


def _address(url: str, values: SlotValues) -> str:
    """The id of a record as one step of a path, whatever its characters."""
    return url.replace("{id}", quote(_text(values["id"]), safe="")) if "id" in values else url


def filled(template: JsonValue, values: SlotValues) -> JsonValue:
    """The template with its slots filled as JSON values.

    What is filled in is never read for slots or quotes.

    Examples:
        >>> filled({"q": "Find {query}", "n": 1}, {"query": "{id}"})
        {'q': 'Find {id}', 'n': 1}
        >>> filled(["{text}"], {"rows": [{"input": "a", "label": ""}, {"input": "b", "label": ""}]})
        ['a', 'b']
    """
    if isinstance(template, dict):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, list) and is_one_a_row(template) and "rows" in values:
        rows = cast("list[dict[str, JsonValue]]", values["rows"])
        each = [{**values, "text": row["input"], "label": row["label"]} for row in rows]
        return [filled(template[0], one) for one in each]
    if isinstance(template, list):
        return [filled(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if (whole := SLOT.fullmatch(template)) and whole[1] in values:
        return values[whole[1]]
    return SLOT.sub(lambda slot: _text(values[slot[1]]) if slot[1] in values else slot[0], template)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def decoded(reply: HttpReply, call: HttpCall) -> JsonValue:
    """The JSON of a reply."""
    try:
        found: JsonValue = json.loads(reply.body)
    except (ValueError, RecursionError):
        sentence = f"the system at {call.shown} did not answer with JSON."
        raise NoAnswer(sentence, "a reply that is not JSON") from None
    return found


def at(reply: JsonValue, path: str, call: HttpCall) -> JsonValue:
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


def at_or_none(reply: JsonValue, path: str) -> JsonValue:
    """What stands at a path: services leave out what a reply does not have, such as tool calls."""
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
