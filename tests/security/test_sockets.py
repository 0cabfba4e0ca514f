"""Nothing but the target is contacted:

every address that a process asks for or connects to is told by the interpreter itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.process

WATCH = """
import json, sys
OF_SOCKETS = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")
EVENTS = (*OF_SOCKETS, "socket.getaddrinfo", "socket.gethostbyname",
          "subprocess.Popen", "os.system", "os.posix_spawn", "os.exec")
def watch(event, args):
    if event in EVENTS:
        about = [str(part) for part in (args[1:] if event in OF_SOCKETS else args)]
        print("EVENT", json.dumps([event, about]), file=sys.stderr, flush=True)
sys.addaudithook(watch)
"""
# what ctypes asks where a shared library is, and torch 2.6 how many cores there are
OF_THIS_MACHINE = {"ldconfig", "gcc", "cc", "ld", "objdump", "lscpu"}
ROWS = ["--data", "rows.jsonl", "--pairs", "2", "--shots", "4", "--controls", "1"]


def events(stderr: str) -> list[tuple[str, list[str]]]:
    """What was asked of the network, and programs that were started."""
    told = [json.loads(line[6:]) for line in stderr.splitlines() if line.startswith("EVENT ")]
    return [(event, about) for event, about in told if Path(about[0]).name not in OF_THIS_MACHINE]


def test_the_watch_sees_a_connection() -> None:
    code = (
        WATCH
        + "import socket\ntry: socket.create_connection(('127.0.0.1', 9))\nexcept OSError: pass"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ("socket.connect", ["('127.0.0.1', 9)"]) in events(done.stderr)


@pytest.mark.slow
@pytest.mark.torch
def test_a_local_model_needs_no_connection(desk: Path, run: Callable[..., Any]) -> None:
    done = run(
        ["audit", *ROWS, "--store-text", "all"],
        ["influence", "--context", "note.txt", "--question", "What code?", "--max-tokens", "4"],
        ["report", "runs/*", "--html", "page.html"],
        codes=[3, 0, 0], first=WATCH,
    )  # fmt: skip
    assert events(done.stderr) == []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "15")
        self.end_headers()
        self.wfile.write(b'{"said": "yes"}')

    def log_message(self, *args: Any) -> None: ...


@pytest.mark.slow
@pytest.mark.torch
def test_with_a_system_behind_http_only_its_host_and_port_are_contacted(
    desk: Path, run: Callable[..., Any]
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    body = {"rows": "{rows}", "query": "{query}"}
    about = {"url": f"http://127.0.0.1:{server.server_port}/", "answer": "said", "body": body}
    (desk / "system.yaml").write_text(yaml.safe_dump(about))
    try:
        done = run(["audit", *ROWS, "--system", "http:system.yaml"], codes=[3], first=WATCH)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    seen = events(done.stderr)
    assert {event for event, _ in seen} <= {"socket.connect", "socket.getaddrinfo"}
    assert {about[0] for event, about in seen if event == "socket.connect"} == {
        f"('127.0.0.1', {server.server_port})"
    }
    names = {tuple(about[:2]) for event, about in seen if event == "socket.getaddrinfo"}
    assert names <= {("127.0.0.1", str(server.server_port))}
