"""LiteLLM's proxy, the bridge to other services, in a process of its own before a server here."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from leakbound.models import Complete, Endpoint
from leakbound.models.openai import open_endpoint
from leakbound.models.probe import capabilities_of, probe_endpoint

pytest.importorskip("litellm")
for needed in ("fastapi", "websockets", "orjson"):  # of the extra litellm[proxy]
    pytest.importorskip(needed)
PROGRAM = shutil.which("litellm", path=str(Path(sys.executable).parent))
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(PROGRAM is None, reason="litellm has no program here"),
]
CONFIG = """
model_list:
  - model_name: bridge
    litellm_params: {{model: openai/parrot, api_base: "{url}/v1", api_key: sk-behind}}
litellm_settings: {{num_retries: 0, drop_params: true}}
general_settings: {{master_key: sk-proxy}}
"""


class Behind(BaseHTTPRequestHandler):
    """The service behind the proxy: refuses one prompt, filters another, answers all others."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = asked["messages"][-1]["content"]
        message: dict[str, Any] = {"role": "assistant", "content": "yes"}
        if "refuse" in prompt:
            message = {"role": "assistant", "content": None, "refusal": "I can't say."}
        if "think" in prompt:
            message |= {"reasoning_content": "They ask."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "parrot",
                 "choices": [choice], "usage": usage}  # fmt: skip
        error = {"message": "The response was filtered due to the prompt triggering the content "
                 "management policy.", "type": None, "param": "prompt",
                 "code": "content_filter"}  # fmt: skip
        filtered = "filter" in prompt
        body = json.dumps({"error": error} if filtered else reply).encode()
        self.send_response(400 if filtered else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: object) -> None: ...


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The proxy's address, once it answers."""
    behind = ThreadingHTTPServer(("127.0.0.1", 0), Behind)
    threading.Thread(target=behind.serve_forever, daemon=True).start()
    file = tmp_path_factory.mktemp("proxy") / "proxy.yaml"
    file.write_text(CONFIG.format(url=f"http://127.0.0.1:{behind.server_port}"))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = [str(PROGRAM), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=env, **quiet) as process:  # type: ignore[call-overload]
        try:
            _wait(f"http://127.0.0.1:{port}/health/liveliness", process)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            behind.shutdown()
            behind.server_close()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "the proxy ended"
        try:
            with urllib.request.urlopen(url, timeout=60):
                return
        except OSError:
            time.sleep(0.5)


def test_answers_of_every_kind_come_through_the_proxy(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKBOUND_API_KEY", "sk-proxy")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-kept-here")
    model = open_endpoint("bridge", Endpoint((proxy,), retries=0))
    prompts = ("Is 4f there?", "think: is 4f there?", "filter this")
    found = model.replies([Complete(prompt) for prompt in prompts])
    model.close()
    assert [one.answer for one in found] == ["yes", "yes", "(content filter)"]
    assert found[1].reasoning == "They ask."


def test_the_proxy_is_probed(proxy: str) -> None:
    record = probe_endpoint("bridge", Endpoint((proxy,)), "sk-proxy")
    assert record.holds("chat")
    assert capabilities_of(record).chat
    assert record.supports == ("Complete",)
