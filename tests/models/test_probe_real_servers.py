"""`probe` finds out what real servers do: `transformers serve` and our own, in processes of their
own, and our own in this one.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from services import private, running

from leakbound.models import Endpoint
from leakbound.models.pocket import FOLDER
from leakbound.models.probe import ProbeRecord, probe_endpoint
from leakbound.serving import application
from leakbound.serving.http.formats import ignorable_fields

pytest.importorskip("torch")
pytest.importorskip("uvicorn")

pytestmark = pytest.mark.torch


@contextmanager
def process(*command: str, health: str, port: int) -> Iterator[None]:
    """A server in a process of its own, once it answers."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait(f"http://127.0.0.1:{port}{health}", server)
            yield
        finally:
            server.terminate()


def wait(url: str, server: subprocess.Popen[bytes]) -> None:
    while True:
        assert server.poll() is None, "the server ended"
        try:
            if httpx.get(url, timeout=60).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.2)


@pytest.fixture
def port() -> int:
    """Free, and of no other process that runs tests: below those that the system gives out."""
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with contextlib.suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.mark.hosts
def test_transformers_serve_is_found_out(port: int) -> None:
    """It takes log-probability fields and temperatures, and does nothing with them."""
    pytest.importorskip("fastapi")
    program = shutil.which("transformers", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("transformers has no program here")
    where = ("--host", "127.0.0.1", "--port", str(port), "--device", "cpu")
    command = (program, "serve", str(FOLDER), *where)
    with process(*command, health="/health", port=port):
        record = probe_endpoint(str(FOLDER), Endpoint((f"http://127.0.0.1:{port}/v1",)))
    assert record.holds("completions")
    assert record.holds("repeats")
    ignored = {
        "logprobs": "ignores log-probabilities",
        "temperature": "ignores the temperature",
        "echo": "without the prompt",
    }
    for check, told in ignored.items():
        assert record.finding(check).holds is False  # type: ignore[arg-type]
        assert told in record.finding(check).detail  # type: ignore[arg-type]
    assert record.finding("token_ids").holds is False
    assert record.supports == ("Complete",)


@pytest.mark.slow
def test_our_own_server_is_found_out(port: int, tmp_path: Path) -> None:
    """It answers texts only, refuses log-probabilities, and its mechanism draws as it likes.

    Fields that ask for another answer are refused unless the operator has them ignored.
    """
    ignored = [f"--ignore-field={name}" for name in ignorable_fields()]
    command = (sys.executable, "-m", "leakbound", "serve", "--mechanism", "few_shot", "--budget",
               "inf", "--ledger", str(tmp_path / "ledger"), "--shots", "4", "--port",
               str(port), *ignored)  # fmt: skip
    with process(*command, health="/healthz", port=port):
        found_out(probe_endpoint("any", Endpoint((f"http://127.0.0.1:{port}/v1",))))


def test_our_own_application_is_found_out(tmp_path: Path) -> None:
    app = application(private(tmp_path, math.inf), ignored_fields=ignorable_fields())
    with running(app) as url:
        found_out(probe_endpoint("any", Endpoint((f"{url}/v1",))))


def found_out(record: ProbeRecord) -> None:
    assert record.holds("chat")
    assert record.holds("completions")
    assert record.finding("chat_logprobs").holds is False
    assert "ignores the temperature" in record.finding("temperature").detail
    assert record.supports == ("Complete",)
