"""Replies of real servers, written from their documentation: every one of them is an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.models import Capabilities, Complete, Endpoint, ScoreLabels, ScoreTokens
from leakbound.models.http.transport import HttpReply
from leakbound.models.openai import OpenAIModel
from leakbound.models.openai.replies import without_reasoning

FOLDER = Path(__file__).parent / "replies"
CASES = [
    pytest.param(case, id=f"{file.stem}-{case['name']}")
    for file in sorted(FOLDER.glob("*.json"))
    for case in json.loads(file.read_text(encoding="utf-8"))["cases"]
]
CAPABILITIES = {
    "text": "", "labels": "top_logprobs=20,first_tokens_differ",
    "tokens": "completions,prompt_logprobs", "echo": "completions,echo,echo_shift=0",
}  # fmt: skip
JSON = {"content-type": "application/json"}


class Recorded:
    """A transport that gives the recorded reply to every request."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.case = case

    async def send(self, *about: object) -> HttpReply:
        body = json.dumps(self.case["reply"]).encode()
        return HttpReply(self.case.get("status", 200), JSON, body)

    async def close(self) -> None: ...


def model(case: Mapping[str, Any]) -> OpenAIModel:
    can = Capabilities.parse(case.get("capabilities", CAPABILITIES[case["ask"]]))
    where = ("http://127.0.0.1:9/v1",)
    return OpenAIModel("m", Endpoint(where, capabilities=can, transport=Recorded(case), retries=0))


@pytest.mark.parametrize("case", CASES)
def test_a_reply_of_a_real_server_is_an_answer(case: Mapping[str, Any]) -> None:
    asked = model(case)
    if case["ask"] == "text":
        request = Complete("Is 4f there?")
        (found,) = asked.replies([request])
        assert asked.answer([request]) == [case["answer"]]
        assert found.outcome == case["outcome"]
        assert found.reasoning.startswith(case.get("reasoning", ""))
        counted = asked.endpoint.meter.outcomes
        assert counted == ({} if found.outcome == "text" else {found.outcome: 2})
    else:
        scored: Any = ScoreLabels("Is 4f there?", ("yes", "no"))
        if case["ask"] != "labels":
            scored = ScoreTokens(case["prompt"], case["response"])
        wanted = [np.nan if one is None else one for one in case["scores"]]
        np.testing.assert_allclose(asked.answer([scored])[0], wanted, atol=1e-6)


def test_every_case_names_its_source() -> None:
    assert len(CASES) > 25
    assert all(str(case.values[0]["source"]).startswith("https://") for case in CASES)  # type: ignore[index]


def test_a_reply_without_a_text_where_one_must_be_is_a_fault_still() -> None:
    from leakbound.errors import TargetError

    case = {"ask": "text", "reply": {"choices": [{"index": 0, "finish_reason": "stop"}]}}
    with pytest.raises(TargetError, match="without text"):
        model(case).answer([Complete("a")])


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("<THINK>They ask.</THINK> yes", "yes", "They ask."),
        ("<thought>They ask.</thought>yes", "yes", "They ask."),
        ("<reasoning>They ask.</reasoning>yes", "yes", "They ask."),
        ("[think]They ask.[/think]yes", "yes", "They ask."),
        ("<think>They</think> yes <think>ask", "yes", "They ask"),
        ("yes\n<think>They ask", "yes", "They ask"),
        ("yes <Thinking>They ask</Thinking>", "yes", "They ask"),
        ("They ask.</think>yes", "yes", "They ask."),
        ("a < b, she thinks", "a < b, she thinks", ""),
    ],
)
def test_reasoning_is_told_from_the_answer(text: str, answer: str, reasoning: str) -> None:
    found, inside = without_reasoning(text)
    assert (found.strip(), inside) == (answer, reasoning)
