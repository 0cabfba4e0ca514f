"""The ledger as a guardrail of LiteLLM's proxy, in a process of its own before a server here."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from leakbound.errors import UsageError
from leakbound.serving.ledger import Ledger

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches one when it is imported
pytest.importorskip("litellm")
for needed in ("fastapi", "websockets", "orjson"):  # of the extra litellm[proxy]
    pytest.importorskip(needed)
PROGRAM = shutil.which("litellm", path=str(Path(sys.executable).parent))
pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("ignore")]  # LiteLLM's own

CONFIG = """
model_list:
  - model_name: desk
    litellm_params: {{model: openai/desk, api_base: "{url}/v1", api_key: sk-behind}}
guardrails:
  - guardrail_name: ledger
    litellm_params:
      guardrail: leakbound_hosts.litellm.LedgerGuardrail
      mode: pre_call
      default_on: true
      ledger: {ledger}
      budget: 2.0
      answer_epsilon: 1.0
      delta: 0.0
      dataset: mail
litellm_settings: {{num_retries: 0}}
general_settings: {{master_key: sk-proxy}}
"""


class Desk(BaseHTTPRequestHandler):
    """A service whose answers have a guarantee; it fails where it is asked to."""

    spent_when_asked: ClassVar[list[int]] = []
    ledger: Path

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ledger = Ledger(self.ledger, 2.0, 0.0)
        self.spent_when_asked.append(ledger.state("mail").answers)
        message = {"role": "assistant", "content": "billing"}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "desk",
                 "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                 "usage": {"prompt_tokens": 1, "completion_tokens": 1,
                           "total_tokens": 2}}  # fmt: skip
        failed = "fail" in asked["messages"][-1]["content"]
        body = json.dumps({"error": {"message": "down"}} if failed else reply).encode()
        self.send_response(500 if failed else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: object) -> None: ...


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """The proxy's address, once it answers."""
    behind = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    threading.Thread(target=behind.serve_forever, daemon=True).start()
    Desk.ledger = tmp_path / "mail.sqlite"
    file = tmp_path / "proxy.yaml"
    url = f"http://127.0.0.1:{behind.server_port}"
    file.write_text(CONFIG.format(url=url, ledger=Desk.ledger))
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = [str(PROGRAM), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    log = (tmp_path / "log").open("wb")
    with log, subprocess.Popen(words, env=env, stdout=log, stderr=log) as process:
        try:
            _wait(f"http://127.0.0.1:{port}/health/liveliness", process, tmp_path / "log")
            yield f"http://127.0.0.1:{port}/v1/chat/completions"
        finally:
            process.terminate()
            behind.shutdown()
            behind.server_close()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    while True:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            httpx.get(url, timeout=60)
            return
        except httpx.HTTPError:
            time.sleep(0.5)


def ask(url: str, text: str, **more: Any) -> httpx.Response:
    messages = [{"role": "user", "content": text}]
    return httpx.post(url, json={"model": "desk", "messages": messages, **more}, timeout=60,
                      headers={"Authorization": "Bearer sk-proxy"})  # fmt: skip


@pytest.mark.skipif(PROGRAM is None, reason="litellm has no program here")
def test_the_proxy_pays_before_it_asks_and_refuses_with_the_ledgers_sentence(proxy: str) -> None:
    several = ask(proxy, "which label", n=2)
    assert several.status_code == 400
    assert "send one a call" in several.text
    assert not Desk.spent_when_asked

    assert ask(proxy, "which label", guardrails=[]).status_code == 200
    assert ask(proxy, "fail", disable_global_guardrails=True).status_code >= 500
    assert Desk.spent_when_asked[0] == 1
    refused = ask(proxy, "which label", metadata={"disable_global_guardrails": True})
    assert refused.status_code == 403
    assert "the privacy budget of the data set 'mail' does not allow another" in refused.text
    assert set(Desk.spent_when_asked) == {1, 2}  # never before it was paid, and not the last time
    assert Ledger(Desk.ledger, 2.0, 0.0).state("mail").answers == 2


def test_clients_cannot_be_given_the_choice(tmp_path: Path) -> None:
    from leakbound_hosts.litellm import LedgerGuardrail

    with pytest.raises(UsageError, match="default_on is false"):
        LedgerGuardrail(str(tmp_path / "ledger"), 1.0, 0.5)


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("aembedding", {"input": ["a", "b"]}),
        ("atext_completion", {"prompt": ["a", "b"]}),
        ("acompletion", {"extra_body": {"n": 4}}),
        ("acompletion", {"best_of": 3}),
    ],
    ids=["embedding", "prompts", "extra_body", "best_of"],
)
def test_what_has_no_price_is_refused_and_costs_nothing(
    tmp_path: Path, call: str, request_: dict[str, Any]
) -> None:
    import asyncio

    from fastapi import HTTPException
    from leakbound_hosts.litellm import LedgerGuardrail

    guard = LedgerGuardrail(
        str(tmp_path / "ledger"), 1.0, 0.5, default_on=True, event_hook="pre_call"
    )
    with pytest.raises(HTTPException) as refused:
        asyncio.run(guard.async_pre_call_hook(None, None, request_, call))
    assert refused.value.status_code == 400
    assert guard.ledger.state().answers == 0
