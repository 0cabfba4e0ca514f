"""The only boundary to HTTP: a request goes out, a reply or a `TransportError` comes back.

Model endpoints, `probe` and systems behind HTTP send everything through a `Transport`. The default
is `AiohttpTransport`. A test or a user can pass another object with the same two methods.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import asyncio

    import aiohttp

Failure = Literal[
    "timeout", "no connection", "a reply cut off", "a connection lost", "a reply too long"
]
# bytes to read of one reply: enough for log-probabilities of 100,000 tokens
MOST_BYTES = 16 * 2**20
PIECE = 64 * 1024  # bytes read at once: less than a connection buffers
FIRST, LONGEST = 0.5, 30.0  # seconds between tries: a hiccup takes 0.5, a restart up to 30


@dataclass(frozen=True, slots=True, repr=False)
class HttpReply:
    """The reply to one HTTP request (PRIVATE: a body may repeat what was sent)."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"HttpReply({self.status}, <private>)"

    def header(self, name: str) -> str | None:
        return next((v for k, v in self.headers.items() if k.lower() == name), None)

    @property
    def wait(self) -> float | None:
        """The seconds that the server asks to wait."""
        return retry_after(self.header("retry-after"))


class TransportError(Exception):
    """No complete reply came back."""

    def __init__(self, kind: Failure) -> None:
        super().__init__(kind)
        self.kind = kind


class Transport(Protocol):
    """Sends requests to the URL's host alone: no redirect, proxy or credentials of others."""

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        """Send one request and read the complete reply."""

    async def close(self) -> None:
        """Close the connections of the running event loop; the next `send` opens new ones."""


class AiohttpTransport:
    """The default transport. Keeps connections open, for each event loop, until `close`."""

    def __init__(
        self, connections: int = 16, cookies: bool = False, most_bytes: int = MOST_BYTES,
        reuse: bool = True,
    ) -> None:  # fmt: skip
        import asyncio  # here, so that a command without HTTP does not load them

        import aiohttp

        self._http, self._running_loop, self._most = aiohttp, asyncio.get_running_loop, most_bytes
        self._pool: dict[str, Any] = {"limit": connections, "force_close": not reuse}
        self._cookies = cookies
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        try:
            async with self._session().request(
                method,
                url,
                headers=headers,
                data=body,
                timeout=self._http.ClientTimeout(total=timeout),
                allow_redirects=False,
            ) as reply:
                return HttpReply(reply.status, reply.headers, await self._body(reply))
        except TimeoutError:
            raise TransportError("timeout") from None
        except self._http.ClientConnectorError:
            raise TransportError("no connection") from None
        except self._http.ClientPayloadError:
            raise TransportError("a reply cut off") from None
        except (self._http.ClientError, OSError):
            raise TransportError("a connection lost") from None

    async def _body(self, reply: aiohttp.ClientResponse) -> bytes:
        found = bytearray()
        async for piece in reply.content.iter_chunked(PIECE):
            found += piece
            if len(found) > self._most:
                raise TransportError("a reply too long")
        return bytes(found)

    async def close(self) -> None:
        session = self._sessions.pop(self._running_loop(), None)
        if session is not None:
            await session.close()

    def _session(self) -> aiohttp.ClientSession:
        loop = self._running_loop()
        if loop not in self._sessions:
            self._sessions[loop] = self._http.ClientSession(
                connector=self._http.TCPConnector(**self._pool),
                # hosts given as addresses may set cookies
                cookie_jar=self._http.CookieJar(unsafe=True)
                if self._cookies
                else self._http.DummyCookieJar(),
                trust_env=False,  # no proxies and no netrc of the environment
            )
        return self._sessions[loop]


def backoff(tries: int) -> float:
    """Seconds before the next try: full jitter under a bound that doubles. Changes no result."""
    return random.SystemRandom().uniform(0.0, min(LONGEST, FIRST * 2.0 ** min(tries - 1, 30)))


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a Retry-After header asks to wait."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        seconds = (at - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
