"""The default `Transport`, based on aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache

import aiohttp

from leakbound.models.http.transport import MOST_BYTES, HttpReply, TransportError

PIECE = 64 * 1024  # bytes read at once: less than a connection buffers


class AiohttpTransport:
    """Keeps connections open, for each event loop, until `close`."""

    def __init__(
        self, connections: int = 16, cookies: bool = False, most_bytes: int = MOST_BYTES
    ) -> None:
        self._connections, self._cookies, self._most = connections, cookies, most_bytes
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
                timeout=_seconds(timeout),
                allow_redirects=False,
            ) as reply:
                return HttpReply(reply.status, reply.headers, await self._body(reply))
        except TimeoutError:
            raise TransportError("timeout") from None
        except aiohttp.ClientConnectorError:
            raise TransportError("no connection") from None
        except aiohttp.ClientPayloadError:
            raise TransportError("a reply cut off") from None
        except (aiohttp.ClientError, OSError):
            raise TransportError("a connection lost") from None

    async def _body(self, reply: aiohttp.ClientResponse) -> bytes:
        """The body, up to the limit on its length."""
        found = bytearray()
        async for piece in reply.content.iter_chunked(PIECE):
            found += piece
            if len(found) > self._most:
                raise TransportError("a reply too long")
        return bytes(found)

    async def close(self) -> None:
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections),
                # hosts given as addresses may set cookies
                cookie_jar=aiohttp.CookieJar(unsafe=True)
                if self._cookies
                else aiohttp.DummyCookieJar(),
                trust_env=False,  # no proxies and no netrc of the environment
            )
        return self._sessions[loop]


@lru_cache(maxsize=16)
def _seconds(timeout: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=timeout)
