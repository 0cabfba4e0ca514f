"""The only boundary to HTTP: a request goes out, a reply or a `TransportError` comes back.

Model endpoints, `probe` and systems behind HTTP send everything through a `Transport`. The default
is `AiohttpTransport`. A test or a user can pass another object with the same two methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from leakbound.models.http.window import retry_after

Failure = Literal[
    "timeout", "no connection", "a reply cut off", "a connection lost", "a reply too long"
]
# bytes to read of one reply: enough for log-probabilities of 100,000 tokens
MOST_BYTES = 16 * 2**20


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
    """Sends HTTP requests.

    A transport contacts only the host and port of the URL: it follows no redirect, uses no proxy
    and reads no credentials from the environment. It keeps at most `MOST_BYTES` of a reply,
    whatever a server sends. It may be called from several event loops, and for several requests at
    once in each.
    """

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        """Send one request and read the complete reply."""

    async def close(self) -> None:
        """Close the connections of the running event loop; the next `send` opens new ones."""


def default_transport(connections: int, cookies: bool = False) -> Transport:
    """A transport based on aiohttp, which is imported only here."""
    from leakbound.models.http.aiohttp_transport import AiohttpTransport

    return AiohttpTransport(connections, cookies)
