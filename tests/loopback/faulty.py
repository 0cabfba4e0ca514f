"""A service over notes that fails now and then, by a seeded rule."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from limits import PATIENCE

Fault = Literal["503", "429", "502", "late", "reset", "none"]
FAULTS: tuple[Fault, ...] = ("503", "429", "502", "late", "reset")


class Faulty(ThreadingHTTPServer):
    """Says whether the quoted text of a query is among its rows.

    A share of the requests fails, each in one of the ways of `FAULTS`; which, is a hash of the
    request and of how often it came.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, share: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.share = share
        self.seen: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.inside = self.most = 0
        self.lock, self.end = threading.Lock(), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/ask"

    def config(self, timeout: float = PATIENCE) -> dict[str, Any]:
        """The YAML file of the service."""
        body = {"rows": "{rows}", "query": "{query}"}
        return {"url": self.url, "answer": "text", "body": body, "timeout": timeout}

    def fault(self, body: bytes) -> Fault:
        key = hashlib.sha256(body).hexdigest()
        with self.lock:
            self.seen[key] += 1
            found = hashlib.sha256(f"{key} {self.seen[key]}".encode()).digest()
            fails = int.from_bytes(found[:4], "big") < self.share * 2**32
            fault: Fault = FAULTS[found[4] % len(FAULTS)] if fails else "none"
            self.faults[fault] += 1
        return fault

    def handle_error(self, *about: Any) -> None:
        """Clients that went away are what this is about."""


class _Handler(BaseHTTPRequestHandler):
    server: Faulty

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        with server.lock:
            server.inside += 1
            server.most = max(server.most, server.inside)
        try:
            self._reply(server.fault(body), json.loads(body))
        finally:
            with server.lock:
                server.inside -= 1

    def _reply(self, fault: Fault, asked: Any) -> None:
        if fault == "late":
            self.server.end.wait()
        elif fault == "reset":
            self.close_connection = True
            self.connection.close()
        elif fault == "none":
            found = any(f'"{row["input"]}"' in asked["query"] for row in asked["rows"])
            self._send(200, {"text": "yes" if found else "no"})
        else:
            self._send(int(fault), {"error": "later"})

    def _send(self, status: int, reply: Any) -> None:
        content = json.dumps(reply).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0.1")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None: ...


@contextmanager
def faulty(share: float) -> Iterator[Faulty]:
    """The service, running until the end of the block."""
    server = Faulty(share)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end.set()
        server.shutdown()
        thread.join()
        server.server_close()
