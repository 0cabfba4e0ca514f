"""The server process: uvicorn, TLS, and time limits for connections."""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import socket
from typing import ClassVar, cast

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.logging import AccessFormatter, DefaultFormatter
from uvicorn.protocols.http.h11_impl import H11Protocol

from leakbound.errors import UsageError, reason_of

CONNECTIONS = 256  # far more than the clients of a service that answers one call at a time
GRACE = 2.0  # seconds to send a refusal, to read the rest of a refused body, or to close TLS
LEVEL = "%(levelprefix)s"  # of a log line
# Connections of one address that wait for a request, of which more are closed, the oldest first: as
# many as a proxy keeps, and so few that one address leaves room for others.
PER_ADDRESS = 64
KEEP_ALIVE = 5  # seconds that a connection may be idle between two requests


@dataclass(frozen=True, slots=True)
class Listener:
    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    timeout: float = 10.0

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError(
                "TLS needs a certificate and its key; give both --tls-cert and --tls-key, or "
                "neither."
            )
        if self.certificate is None or self.key is None:
            return
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                self.certificate, self.key, password=""
            )
        except (OSError, ValueError) as error:
            why = "not PEM" if isinstance(error, ssl.SSLError) else reason_of(error)
            raise UsageError(
                f"{self.certificate} and {self.key} cannot be used ({why}); they must be a "
                "certificate chain and its key in PEM form, without a passphrase."
            ) from None


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection if a request does not arrive in time."""

    timeout: ClassVar[float] = 10.0
    grace: ClassVar[float] = GRACE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._phase, self._deadline = "", None
        self._watch()
        waiting = [
            (one._since, id(one), one)
            for one in cast("set[TimedProtocol]", self.connections)
            if one._deadline and (one.client or ())[:1] == (self.client or ())[:1]
        ]
        if len(waiting) > PER_ADDRESS:
            min(waiting)[-1]._late()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Set a deadline for a body that still arrives but is not read."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._await_within("", 0.0)

    def _watch(self) -> None:
        """Headers and body may take `timeout` each, and the rest of a refused body `grace`."""
        state = self.conn.their_state
        answered = self.cycle is not None and self.cycle.response_complete
        if state is h11.IDLE:
            self._await_within("headers", self.timeout)
        elif state is h11.SEND_BODY and answered:
            self._await_within("rest", self.grace)
        elif state is h11.SEND_BODY:
            self._await_within("body", self.timeout + self.grace)
        else:
            self._await_within("", 0.0)

    _phase: str
    _deadline: asyncio.TimerHandle | None
    _since: float

    def _await_within(self, phase: str, seconds: float) -> None:
        """Set one deadline for each phase, however many pieces arrive in it."""
        if phase == self._phase:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._phase, self._since = phase, self.loop.time()
        self._deadline = self.loop.call_later(seconds, self._late) if phase else None

    def _late(self) -> None:
        self._await_within("", 0.0)
        if not self.transport.is_closing():
            self.transport.close()


class _ServiceLoop(asyncio.SelectorEventLoop):
    """An event loop that limits TLS handshakes and shutdowns; asyncio allows 60 and 30 seconds."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._timeout = timeout

    async def create_server(  # type: ignore[override]
        self, *args: object, ssl: ssl.SSLContext | None = None, **options: object
    ) -> asyncio.Server:
        if ssl is not None:
            options |= {"ssl_handshake_timeout": self._timeout, "ssl_shutdown_timeout": GRACE}
        made: asyncio.Server
        made = await super().create_server(*args, ssl=ssl, **options)  # type: ignore[call-overload]
        return made


def run_server(server: uvicorn.Server, timeout: float) -> None:
    with asyncio.Runner(loop_factory=partial(_ServiceLoop, timeout)) as runner:
        runner.run(server.serve())


class _AnnouncedServer(uvicorn.Server):
    """A server that tells its port once it listens."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[int], None]) -> None:
        super().__init__(config)
        self._listening = listening

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._listening(self.servers[0].sockets[0].getsockname()[1])


def listen(
    app: Starlette, listener: Listener, listening: Callable[[int], None], level: int
) -> None:
    _log_as_uvicorn_does(level)
    protocol = type("ServiceProtocol", (TimedProtocol,), {"timeout": listener.timeout})
    server = _AnnouncedServer(uvicorn.Config(
        app, host=listener.host, port=listener.port, http=protocol, ws="none",
        server_header=False, proxy_headers=False, limit_concurrency=CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE, ssl_certfile=listener.certificate,
        ssl_keyfile=listener.key, log_config=None,
    ), listening)  # fmt: skip
    with suppress(KeyboardInterrupt, SystemExit):  # uvicorn raises SystemExit if it cannot listen
        run_server(server, listener.timeout)
    if not server.started:
        raise UsageError(
            f"the server cannot listen on {listener.host}, port {listener.port}; choose another "
            "--port or --host (--port 0 takes a free one)."
        )


def _log_as_uvicorn_does(level: int) -> None:
    """Its own configuration would close every log handler of this process."""
    said = f"{LEVEL} %(message)s"
    asked = f'{LEVEL} %(client_addr)s - "%(request_line)s" %(status_code)s'
    for name, formatter, stream in (
        ("uvicorn", DefaultFormatter(said), sys.stderr),
        ("uvicorn.access", AccessFormatter(asked), sys.stdout),
    ):
        handler, logger = logging.StreamHandler(stream), logging.getLogger(name)
        handler.setFormatter(formatter)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    # another server of this process may have set its level
    logging.getLogger("uvicorn.error").setLevel(level)
