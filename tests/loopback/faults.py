"""What goes wrong between a client and a server, chosen by a seeded generator for each request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

__all__ = ["FAULTS", "Faults", "gone"]

FAULTS = (
    "too_many", "too_many_until_date", "error_500", "error_503", "reset", "truncated", "wrong_type",
    "no_choices", "slow", "page_200", "page_502", "nan", "doubled",
)  # fmt: skip
PAGE = b"<!doctype html><title>Bad gateway</title><h1>The upstream server is having a rest</h1>"
JSON = b"application/json"


class Faults:
    """ASGI middleware: a share `rate` of the POST requests gets one of `kinds`.

    Replies are delivered at once but for `slow`, whose body waits `pause` seconds in its middle,
    or until the client has gone. `log` holds, in order, the fault of each POST, or None.
    """

    def __init__(
        self,
        app: Any,
        rate: float = 0.2,
        seed: int = 0,
        kinds: tuple[str, ...] = FAULTS,
        pause: float = 0.2,
    ) -> None:
        unknown = set(kinds) - set(FAULTS)
        if unknown:
            raise ValueError(
                f"the faults {sorted(unknown)} are not known; they must be among "
                f"{', '.join(FAULTS)}."
            )
        self.app, self.rate, self.kinds, self.pause = app, rate, kinds, pause
        self.rng, self.log = random.Random(seed), []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        kind = self.draw()
        self.log.append(kind)
        if kind == "reset":
            await _reset(receive, send)
        elif kind in REPLIES:
            await _send(send, *REPLIES[kind]())
        elif kind is not None:
            await self._spoiled(kind, scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def draw(self) -> str | None:
        """The fault of the next request, or None."""
        return self.rng.choice(self.kinds) if self.rng.random() < self.rate else None

    async def _spoiled(self, kind: str, scope: Any, receive: Any, send: Any) -> None:
        """The true reply, damaged."""
        start, body = await self._true(scope, receive)
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        if kind == "slow":
            await self._slowly(receive, send, start["status"], headers, body)
        else:
            await _send(send, start["status"], *DAMAGES[kind](headers, body))

    async def _true(self, scope: Any, receive: Any) -> tuple[Any, bytes]:
        messages: list[Any] = []

        async def keep(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, keep)
        return messages[0], b"".join(message.get("body", b"") for message in messages[1:])

    async def _slowly(
        self, receive: Any, send: Any, status: int, headers: Any, body: bytes
    ) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send(
            {"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True}
        )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gone(receive), self.pause)
        await send({"type": "http.response.body", "body": body[len(body) // 2 :]})


# --- replies without the application


def _error(status: int, *headers: tuple[bytes, bytes]) -> Any:
    body = json.dumps(
        {"error": {"message": "a fault", "type": "fault", "param": None, "code": status}}
    ).encode()
    return status, [(b"content-type", JSON), *headers], body


def _soon() -> bytes:
    """An HTTP date of one second from now, in whole seconds."""
    return format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True).encode()


REPLIES: dict[str | None, Any] = {
    "too_many": lambda: _error(429, (b"retry-after", b"0")),
    "too_many_until_date": lambda: _error(429, (b"retry-after", _soon())),
    "error_500": lambda: _error(500),
    "error_503": lambda: _error(503, (b"retry-after", b"0")),
    "page_200": lambda: (200, [(b"content-type", b"text/html")], PAGE),
    "page_502": lambda: (502, [(b"content-type", b"text/html")], PAGE),
}


# --- damaged replies


def _typed(headers: Any, kind: bytes) -> Any:
    return [(name, value) for name, value in headers if name != b"content-type"] + [
        (b"content-type", kind)
    ]


def _no_choices(headers: Any, body: bytes) -> Any:
    try:
        return headers, json.dumps({**json.loads(body), "choices": []}).encode()
    except ValueError:  # a stream
        return headers, b"data: [DONE]\n\n"


def _nan(headers: Any, body: bytes) -> Any:
    """Every log-probability becomes NaN, as a server that divides by zero writes it."""
    body = re.sub(rb'"logprob":\s*-?[\d.eE+-]+', b'"logprob":NaN', body)
    lists = re.sub(
        rb'("token_logprobs":\s*\[)([^\]]*)\]',
        lambda found: found[1] + _nans(found[2]) + b"]",
        body,
    )
    return headers, lists


def _nans(numbers: bytes) -> bytes:
    return b",".join(part if b"null" in part else b"NaN" for part in numbers.split(b","))


DAMAGES: dict[str, Any] = {
    "truncated": lambda headers, body: (headers, body[: len(body) // 2]),
    "wrong_type": lambda headers, body: (_typed(headers, b"text/plain"), body),
    "no_choices": _no_choices,
    "nan": _nan,
    "doubled": lambda headers, body: (headers, body + body),
}


async def _send(send: Any, status: int, headers: Any, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _reset(receive: Any, send: Any) -> None:
    """Abort the connection before any reply; uvicorn's `send` is bound to the cycle that holds the
    transport.
    """
    send.__self__.transport.abort()
    await gone(receive)


async def gone(receive: Any) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
