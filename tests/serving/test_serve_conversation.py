"""System and earlier messages are part of the query, or refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from services import private, send

pytest.importorskip("starlette")


def prompts(tmp_path: Path, *bodies: dict[str, Any], url: str = "/v1/chat/completions") -> str:
    """What the model was asked."""
    seen: list[str] = []
    served = private(tmp_path, 99.0, complete=lambda prompt: seen.append(prompt) or "odd")
    for body in bodies:
        (reply,) = send(served, {"url": url, "json": body})
        assert reply.status_code == 200, reply.text
    return "\n".join(seen)


def test_the_only_message_is_the_query_as_it_stands(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "two"}, {"type": "text", "text": "parts"}]
    asked = prompts(tmp_path, {"messages": [{"role": "user", "content": parts}]})
    assert "Input: two\nparts\nLabel:" in asked


def test_system_and_earlier_messages_are_part_of_the_query(tmp_path: Path) -> None:
    """They were dropped in silence: a system prompt had no effect."""
    turns = [
        {"role": "system", "content": "Answer as a clerk."},
        {"role": "user", "content": "first", "name": "ann"},
        {"role": "assistant", "content": "odd", "refusal": None, "tool_calls": None},
        {"role": "user", "content": "last"},
    ]
    asked = prompts(tmp_path, {"messages": turns})
    whole = "System: Answer as a clerk.\nUser (ann): first\nAssistant: odd\nUser: last"
    assert f"Input: {whole}\nLabel:" in asked


def test_instructions_and_items_of_responses_are_part_of_the_query(tmp_path: Path) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "first"}]},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "odd", "annotations": [], "logprobs": []}]},
        {"role": "user", "content": "last"},
    ]  # fmt: skip
    body = {"input": items, "instructions": "Be brief."}
    asked = prompts(tmp_path, body, url="/v1/responses")
    assert "Input: System: Be brief.\nUser: first\nAssistant: odd\nUser: last\nLabel:" in asked


USER = {"role": "user", "content": "x"}
REFUSED: list[tuple[list[dict[str, Any]], str]] = [
    ([{"role": "system", "content": "s" * 990}, USER], "at most 1000 bytes"),
    ([USER, {"role": "assistant", "content": "Let me"}], "never continued"),
    ([{"role": "tool", "content": "42", "tool_call_id": "1"}, USER], "role 'tool'"),
    ([{"role": "assistant", "content": None, "tool_calls": [{}]}, USER], "tool_calls"),
    ([{"role": "user", "content": "x", "weight": 1}], "weight"),
    ([{"role": "user", "content": [{"type": "text", "text": "x", "speed": 1}]}], "not text"),
    ([{"role": "user", "content": "x", "name": "n\n"}], "name of a message"),
    ([{"role": "system", "content": "x"}], "no message of the role user"),
    ([], "no message of the role user"),
]


@pytest.mark.parametrize(("messages", "sentence"), REFUSED, ids=[one[1] for one in REFUSED])
def test_what_cannot_be_part_of_a_query_is_refused_and_costs_nothing(
    tmp_path: Path, messages: list[dict[str, Any]], sentence: str
) -> None:
    served = private(tmp_path)
    (reply,) = send(served, {"json": {"messages": messages}})
    assert (reply.status_code, served.state.answers) == (400, 0), reply.text
    assert sentence in reply.json()["error"]["message"]
