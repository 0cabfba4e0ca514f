"""A refusal, a content filter and an empty answer end no audit, and can tell the contexts apart."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.models import Endpoint
from leakbound.models.http.transport import HttpReply
from leakbound.models.openai import OpenAIModel

JSON = {"content-type": "application/json"}
CODE = re.compile(r"\b[0-9a-f]{16}\b")
SILENT: Mapping[str, tuple[int, dict[str, Any]]] = {
    "refusal": (200, {"content": None, "refusal": "I'm sorry, I can't help with that."}),
    "content_filter": (400, {}),
    "empty": (200, {"content": None}),
    "reasoning_only": (200, {"content": None, "reasoning": "They ask for the code of"}),
}


class Guarded:
    """A transport whose model says no, and nothing at all where the canary stands in the prompt."""

    def __init__(self, how: str) -> None:
        self.status, self.message = SILENT[how]

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> HttpReply:
        codes = CODE.findall(json.loads(body or b"")["messages"][-1]["content"])
        if len(codes) == len(set(codes)):
            return _reply(200, {"content": "no"})
        return _reply(self.status, self.message)

    async def close(self) -> None: ...


def _reply(status: int, message: Mapping[str, Any]) -> HttpReply:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    error = {"message": "filtered", "code": "content_filter"}
    reply = {"choices": [choice]} if status == 200 else {"error": error}
    return HttpReply(status, JSON, json.dumps(reply).encode())


def audited(how: str, out: Path, **options: Any) -> tuple[AuditResult, OpenAIModel]:
    model = OpenAIModel("m", Endpoint(("http://127.0.0.1:9/v1",), transport=Guarded(how)))
    spec = make_spec(
        {"mechanism": "few_shot", "shots": 4, "pairs": 24, "simulations": 0, "model": "openai/m"}
        | options
    )
    return run_audit(prepare(spec, model), out)[0], model


@pytest.mark.parametrize("how", SILENT)
def test_silence_about_a_canary_is_a_leak(how: str, tmp_path: Path) -> None:
    """24 pairs of which each canary is met by silence: a claim of 1 is rejected."""
    result, model = audited(how, tmp_path, score="unanswered")
    assert result.verdict == "violation"
    controls = 3 * 8  # with one canary, with many, and late ones
    assert model.endpoint.meter.outcomes == {how: 24 + controls}


def test_a_score_of_answers_says_that_it_does_not_read_them(tmp_path: Path) -> None:
    result, _ = audited("refusal", tmp_path)
    assert result.verdict == "inconclusive"
    assert "--score unanswered" in result.to_json()
