"""Connections: bodies and headers that do not arrive, TLS, and what is refused beyond loopback."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from limits import PATIENCE, expires
from services import ASK, CHAT, TOKEN, certificate, private, running

from leakbound.errors import UsageError
from leakbound.serving import application

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

BODY = json.dumps(ASK).encode()


def head(length: int, token: str = TOKEN, path: str = CHAT) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def until_closed(url: str, *pieces: bytes, pause: float = 0.0) -> bytes:
    """What the server sends to these bytes until it closes the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        for piece in pieces:
            connection.settimeout(pause or PATIENCE)
            try:
                connection.sendall(piece)
                if pause and not connection.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
            except ConnectionError:  # a drop that arrives after the end resets the connection
                return b""
        connection.settimeout(PATIENCE)
        received = b""
        while piece := connection.recv(4096):
            received += piece
    return received


STALLED: list[tuple[str, list[bytes], float, bytes]] = [
    ("nothing", [b""], 0.0, b""),
    ("half a header", [head(9)[:40]], 0.0, b""),
    ("headers in drops", [head(9)[i : i + 1] for i in range(99)], 0.05, b""),
    ("half a body", [head(len(BODY)), BODY[:9]], 0.0, b"HTTP/1.1 408"),
    ("half a body with a wrong token", [head(99, "wrong"), b"{"], 0.0, b"HTTP/1.1 401"),
    ("half a body to no path", [head(99, path="/none"), b"{"], 0.0, b"HTTP/1.1 404"),
    ("a second request that stops", [head(len(BODY)) + BODY, head(9)[:40]], 0.0, b"HTTP/1.1 200"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pieces", "pause", "begins"), [one[1:] for one in STALLED], ids=[one[0] for one in STALLED]
)
def test_a_request_that_does_not_arrive_is_closed(
    tmp_path: Path, pieces: list[bytes], pause: float, begins: bytes
) -> None:
    """Half-open requests stayed open for ever: the sockets here would time out."""
    served = private(tmp_path, 9.0)
    seconds = expires(1.5 if begins else 0.3)  # a busy machine may be slow to send the headers, too
    with running(application(served, TOKEN, timeout=seconds), timeout=seconds) as url:
        received = until_closed(url, *pieces, pause=pause)
    assert received.startswith(begins)
    assert received or not begins
    assert served.state.answers == received.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("sent", ["half a header", "half a body"])
def test_slow_clients_of_one_address_leave_room_for_others(tmp_path: Path, sent: str) -> None:
    """256 connections that sent half a header gave everybody 503, without any token. With half a
    body each had a later deadline than any newcomer, which was closed in its place."""
    from leakbound.serving.http.server import CONNECTIONS

    served = private(tmp_path, 9.0)
    options: dict[str, Any] = {"limit_concurrency": CONNECTIONS}
    with running(application(served, TOKEN), **options) as url, ExitStack() as opened:
        port = int(url.rpartition(":")[2])
        slow = []
        for _ in range(CONNECTIONS):
            one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            opened.enter_context(one)
            one.sendall(head(9)[:40] if sent == "half a header" else head(9) + b"1234")
            slow.append(one)
        assert httpx.get(f"{url}/health", timeout=PATIENCE).status_code == 200
        headers = {"authorization": f"Bearer {TOKEN}"}
        asked = httpx.post(f"{url}{CHAT}", json=ASK, headers=headers, timeout=PATIENCE)
        assert asked.status_code == 200
        with suppress(ConnectionResetError):  # as what it sent was not read
            assert slow[0].recv(1) == b""  # the oldest were closed
        newest = slow[-1]  # and may still send the rest
        newest.sendall(head(9)[40:] + b"123456789" if sent == "half a header" else b"56789")
        assert newest.recv(12) == b"HTTP/1.1 400"


def test_a_body_that_is_too_large_gets_its_sentence_before_the_end(tmp_path: Path) -> None:
    with running(application(private(tmp_path), limit=1000)) as url:
        big = {"content": b"x" * 3_000_000, "headers": {"content-type": "application/json"}}
        assert httpx.post(f"{url}{CHAT}", **big, timeout=PATIENCE).status_code == 413  # type: ignore[arg-type]


def test_answers_over_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    served = private(tmp_path)
    options: dict[str, Any] = {"ssl_certfile": cert, "ssl_keyfile": key}
    with running(application(served), **options) as url:
        trusted = ssl.create_default_context(cafile=str(cert))
        assert (
            httpx.post(f"{url}{CHAT}", json=ASK, verify=trusted, timeout=PATIENCE).status_code
            == 200
        )
        with pytest.raises(httpx.ConnectError):
            httpx.post(f"{url}{CHAT}", json=ASK, timeout=PATIENCE)
        with pytest.raises(httpx.HTTPError):
            httpx.post(f"{url.replace('https', 'http')}{CHAT}", json=ASK, timeout=PATIENCE)
    assert served.state.answers == 1


@pytest.mark.slow
@pytest.mark.parametrize("greeted", [False, True])
def test_tls_connections_begin_and_end_in_time(tmp_path: Path, greeted: bool) -> None:
    """A client that says nothing held its connection for 60 seconds in the handshake; one that did
    not say goodbye, for 30: the sockets here would time out.
    """
    cert, key = certificate(tmp_path)
    options: dict[str, Any] = {"ssl_certfile": cert, "ssl_keyfile": key}
    trusted = ssl.create_default_context(cafile=str(cert))
    seconds = expires(2.0 if greeted else 0.3)  # a busy machine may be slow to shake hands, too
    with running(application(private(tmp_path)), timeout=seconds, **options) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            if not greeted:
                assert connection.recv(1) == b""
                return
            raw = connection.dup()
            raw.settimeout(PATIENCE)
            with trusted.wrap_socket(connection, server_hostname="127.0.0.1"), raw:
                while raw.recv(4096):
                    pass


def test_files_that_are_no_certificate_and_key_are_refused(tmp_path: Path) -> None:
    from leakbound.serving.http.server import Listener

    cert, key = certificate(tmp_path)
    _, other = certificate(tmp_path, "other")
    Listener("127.0.0.1", 0, cert, key)
    for wrong in ((cert, other), (key, cert), (tmp_path / "none", key)):
        with pytest.raises(UsageError, match="PEM form"):
            Listener("127.0.0.1", 0, *wrong)
    with pytest.raises(UsageError, match="both --tls-cert and --tls-key"):
        Listener("127.0.0.1", 0, cert)
