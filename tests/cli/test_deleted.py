"""Audits of deletions from the command line: a service over HTTP, and the example."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from commands import cli
from tenants import NOTHING, nearest

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]


class Service(ThreadingHTTPServer):
    """Notes behind HTTP: a deletion hides a note, and the search finds it where it is not sound."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, sound: bool, refuses: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sound, self.refuses, self.notes = sound, refuses, dict[str, tuple[str, bool]]()

    def reply(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "DELETE":
            number = path.rpartition("/")[2]
            if self.refuses:
                return 403, {}
            self.notes[number] = (self.notes[number][0], False)
            return 200, {}
        if path == "/notes":
            self.notes[body["id"]] = (body["text"], True)
            return 200, {}
        there = [text for text, shown in self.notes.values() if shown or not self.sound]
        return 200, {"answer": nearest(there, body["question"]) or NOTHING}


class _Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        body = json.loads(self.rfile.read(length)) if length else None
        status, reply = self.server.reply(self.command, self.path, body)
        content = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_DELETE = _do

    def log_message(self, *args: Any) -> None: ...


FILE = """
url: {url}/ask
body: {{question: "{{query}}"}}
answer: answer
plant: {{url: "{url}/notes", body: {{text: "{{input}}", id: "{{id}}"}}}}
remove: {{url: "{url}/notes/{{id}}", method: DELETE}}
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    running = []

    def start(**options: bool) -> Path:
        server = Service(**options)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        running.append((server, thread))
        file = tmp_path / "notes.yaml"
        file.write_text(FILE.format(url=f"http://127.0.0.1:{server.server_port}"))
        return file

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(("sound", "code"), [(False, 1), (True, 0)])
def test_a_service_over_http(
    sound: bool, code: int, serve: Callable[..., Path], tmp_path: Path
) -> None:
    file = serve(sound=sound)
    ended = cli(
        "audit", "--deleted", "--system", f"http:{file}", "--disposable-store", "--pairs", "40",
        cwd=tmp_path,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    assert "GDPR Article 17" in " ".join(ended.stdout.split())
    assert not [*tmp_path.glob("runs/*/planted.jsonl")]  # every record was removed


def test_a_service_that_does_not_delete_ends_with_4(
    serve: Callable[..., Path], tmp_path: Path
) -> None:
    file = serve(sound=True, refuses=True)
    asked = ("audit", "--deleted", "--system", f"http:{file}", "--disposable-store")
    ended = cli(*asked, cwd=tmp_path)
    assert ended.returncode == 4
    assert "1 of 1 records that were planted in the store could not be removed" in ended.stderr
    file.write_text("\n".join(one for one in file.read_text().split("\n") if "remove" not in one))
    ended = cli(*asked, cwd=tmp_path)
    assert ended.returncode == 2
    assert "has no remove" in ended.stderr


def test_the_example_from_the_command_line(tmp_path: Path) -> None:
    asked = (
        "audit", "--deleted", "--system", f"python:{ROOT / 'examples/deleted_notes.py'}:Notes",
        "--disposable-store", "--pairs", "40",
    )  # fmt: skip
    leaky = cli(*asked, cwd=tmp_path)
    assert leaky.returncode == 1, leaky.stderr
    assert "claim 0 (as if never stored; default)" in leaky.stdout
    sound = cli(*asked, "--system-option", "forget=true", cwd=tmp_path)
    assert sound.returncode == 0, sound.stderr
    for more in (("--between", "tenants"), ("--design", "session")):
        ended = cli(*asked, *more, cwd=tmp_path)
        assert ended.returncode == 2
        assert "name one design; give one of them" in ended.stderr
