"""Run an application on this machine for the length of a `with`."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from limits import PATIENCE

__all__ = ["nobody", "running"]


@contextmanager
def running(app: Any, seconds: float = PATIENCE) -> Iterator[str]:
    """Serve an ASGI application on 127.0.0.1 at a free port, in a thread; yields its base URL,
    which ends in /v1.
    """
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{_port(server, thread, seconds)}/v1"
    finally:
        server.should_exit = True
        thread.join(seconds)


@contextmanager
def nobody() -> Iterator[str]:
    """A base URL at which nobody listens: its port is taken for the length of the `with`."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def _port(server: uvicorn.Server, thread: threading.Thread, seconds: float) -> int:
    end = time.monotonic() + seconds
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise RuntimeError("the server did not start.")
        time.sleep(0.01)
    return int(server.servers[0].sockets[0].getsockname()[1])
