"""No field of a request is ignored in silence: honoured, equal to what the service does, or refused
in a sentence that costs nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from services import ASK, CHAT, ROWS, TASK, private, send

from leakbound.models import Scripted
from leakbound.serving import PrivateICL, ServiceState, Tenant
from leakbound.serving.http.calls import Call, ServiceCalls, request_digest
from leakbound.serving.http.formats import (
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    FORMATS,
    RESPONSE_FIELDS,
    ignorable_fields,
)
from leakbound.serving.ledger import Ledger
from leakbound.systems import SystemMechanism
from leakbound.tasks import Task

pytest.importorskip("starlette")

COMPLETE = {"model": "any", "prompt": "what is this"}
RESPOND = {"model": "any", "input": "what is this"}
URLS = {"chat": (CHAT, ASK), "completion": ("/v1/completions", COMPLETE),
        "response": ("/v1/responses", RESPOND)}  # fmt: skip
TABLES = {"chat": CHAT_FIELDS, "completion": COMPLETION_FIELDS, "response": RESPONSE_FIELDS}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> ServiceCalls:
    """Answers without HTTP, from a budget that is never spent."""
    system = SystemMechanism(lambda context, query: "odd")
    ledger = Ledger(tmp_path_factory.mktemp("fields") / "ledger", float("inf"), 1e-5)
    return ServiceCalls(PrivateICL(system, ROWS, TASK, Scripted(), ledger), ServiceState())


# What clients send by default, or to say what the service does anyway.
ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    ("chat", {"temperature": 1.0, "top_p": 1, "n": 1, "seed": None, "stop": None, "tools": [],
              "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "user": "u",
              "logprobs": False, "top_logprobs": 0, "response_format": {"type": "text"},
              "tool_choice": "auto", "parallel_tool_calls": True, "store": False,
              "max_tokens": 16, "max_completion_tokens": 11, "metadata": {"team": "desk"},
              "modalities": ["text"], "service_tier": "auto", "stream": False}),
    ("chat", {"stream": True, "stream_options": {"include_usage": True}}),
    ("completion", {"max_tokens": 16, "temperature": 1, "best_of": 1, "echo": False, "suffix": "",
                    "logprobs": None, "prompt": ["what is this"]}),
    ("response", {"max_output_tokens": 100, "store": False, "truncation": "disabled",
                  "text": {"format": {"type": "text"}}, "include": [], "tools": [],
                  "tool_choice": "none", "reasoning": {}, "metadata": {}, "background": False,
                  "instructions": "Be brief."}),
]  # fmt: skip

# What asks for another answer than the service gives. All of chat was ignored in silence before.
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("chat", {"temperature": 0.3}, "temperature is 0.3; it must be 1, or left out"),
    ("chat", {"temperature": True}, "temperature is true"),
    ("chat", {"top_p": 0.5}, "top_p is 0.5"),
    ("chat", {"seed": 0}, "can subtract it"),
    ("chat", {"max_tokens": 5}, "max_tokens is 5; it must be at least 11"),
    ("chat", {"max_completion_tokens": 1}, "paid for whole"),
    ("chat", {"frequency_penalty": 1}, "frequency_penalty is 1"),
    ("chat", {"presence_penalty": -1}, "presence_penalty is -1"),
    ("chat", {"logit_bias": {"50256": -100}}, "logit_bias is"),
    ("chat", {"n": 2}, "n is 2"),
    ("chat", {"stop": [1]}, "stop is [1]"),
    ("chat", {"store": True}, "not kept"),
    ("chat", {"top_logprobs": 3}, "top_logprobs is 3"),
    ("chat", {"tools": [{"type": "function"}]}, "calls no tool"),
    ("chat", {"tool_choice": "required"}, "tool_choice is"),
    ("chat", {"response_format": {"type": "json_object"}}, "response_format is"),
    ("chat", {"modalities": ["text", "audio"]}, "modalities is"),
    ("chat", {"reasoning_effort": "high"}, "reasoning_effort is"),
    ("chat", {"top_k": 4}, "top_k is 4; it must be left out"),
    ("chat", {"repetition_penalty": 1.1}, "not a field that this service knows"),
    ("chat", {"stream": "yes"}, "stream is"),
    ("chat", {"stream_options": {"include_usage": True}}, "stream is not true"),
    ("chat", {"stream": True, "stream_options": {"speed": 1}}, "stream_options is"),
    ("chat", {"model": 5}, "model is 5; it must be a text"),
    ("completion", {"prompt": ["a", "b"]}, "paid for separately"),
    ("completion", {"prompt": [1, 2]}, "prompt is not text"),
    ("completion", {"best_of": 3}, "best_of is 3"),
    ("completion", {"echo": True}, "echo is true"),
    ("completion", {"logprobs": 0}, "logprobs is 0"),
    ("completion", {"suffix": "."}, "suffix is"),
    ("completion", {"messages": []}, "not a field that this service knows"),
    ("response", {"previous_response_id": "resp_1"}, "send the earlier messages in input"),
    ("response", {"store": True}, "not kept"),
    ("response", {"max_output_tokens": 3}, "at least 11"),
    ("response", {"background": True}, "background is true"),
    ("response", {"text": {"format": {"type": "json_schema"}}}, "an answer is a text"),
    ("response", {"input": [{"type": "function_call_output", "output": "x"}]}, "Tools"),
    ("response", {"input": 5}, "input is 5"),
    ("response", {"metadata": {"a": "\ud800"}}, "half a character"),
    ("response", {"user": "\ud800"}, "half a character"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fields"), ACCEPTED, ids=[f"{a[0]}" for a in ACCEPTED])
def test_what_asks_for_what_the_service_does_is_accepted(
    tmp_path: Path, kind: str, fields: dict[str, Any]
) -> None:
    url, body = URLS[kind]
    (reply,) = send(private(tmp_path), {"url": url, "json": {**body, **fields}})
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize(
    ("kind", "fields", "sentence"), REFUSED, ids=[f"{r[0]} {r[1]}" for r in REFUSED]
)
def test_what_asks_for_something_else_is_refused_and_costs_nothing(
    tmp_path: Path, kind: str, fields: dict[str, Any], sentence: str
) -> None:
    url, body = URLS[kind]
    served = private(tmp_path)
    content = json.dumps({**body, **fields})
    headers = {"content-type": "application/json"}
    (reply,) = send(served, {"url": url, "content": content, "headers": headers})
    assert (reply.status_code, served.state.answers) == (400, 0), reply.text
    assert sentence in reply.json()["error"]["message"]


@pytest.mark.parametrize("kind", TABLES)
def test_null_asks_for_nothing(tmp_path: Path, kind: str) -> None:
    url, body = URLS[kind]
    (reply,) = send(
        private(tmp_path), {"url": url, "json": {**dict.fromkeys(TABLES[kind]), **body}}
    )
    assert reply.status_code == 200, reply.text


def test_every_field_of_the_official_client_has_a_rule() -> None:
    """What is newer than these tables is refused as not known."""
    pytest.importorskip("openai")
    from openai.types import completion_create_params as completion
    from openai.types.chat import completion_create_params as chat
    from openai.types.responses import response_create_params as response

    known = {
        "chat": chat.CompletionCreateParamsBase.__annotations__,
        "completion": completion.CompletionCreateParamsBase.__annotations__,
        "response": response.ResponseCreateParamsBase.__annotations__,
    }
    newer = {"access_programs", "background_options", "context_management", "image", "moderation",
             "prompt_cache_options"}  # fmt: skip
    for kind, fields in known.items():
        assert set(fields) - set(TABLES[kind]) <= newer, kind


def test_an_operator_may_let_fields_be_ignored_and_the_reply_names_them(tmp_path: Path) -> None:
    asked = {**ASK, "temperature": 0.1, "seed": 7, "top_p": 1}
    ignored = {"ignored_fields": ("temperature", "seed", "max_tokens")}
    (reply,) = send(private(tmp_path), {"json": asked}, **ignored)
    assert reply.json()["leakbound"]["ignored_fields"] == ["temperature", "seed"]
    assert not {"n", "tools", "stop", "messages"} & set(ignorable_fields())


def test_a_stop_sequence_cuts_the_released_text(tmp_path: Path) -> None:
    asked = ({"json": {**ASK, "stop": stop}} for stop in ("d", ["x", "dd"], "zz"))
    replies = send(private(tmp_path, 9.0, complete=lambda prompt: "odd"), *asked)
    texts = [one.json()["choices"][0]["message"]["content"] for one in replies]
    whole = {"odd": ("o", "o", "odd"), "plain": ("plain",) * 3, "(no answer)": ("(no answer)",) * 3}
    assert all(text in {row[at] for row in whole.values()} for at, text in enumerate(texts)), texts


def test_how_long_the_answers_of_a_system_are_is_not_known(tmp_path: Path) -> None:
    system = SystemMechanism(lambda context, query: "a b \ud800")
    served = PrivateICL(system, ROWS, Task("generation"), Scripted(),
                        Ledger(tmp_path / "ledger", float("inf"), 1e-5))  # fmt: skip
    reply, half = send(served, {"json": {**ASK, "max_tokens": 10_000}}, {"json": ASK})
    assert half.json()["choices"][0]["message"]["content"] == "a b \ufffd"
    assert "must be at least the longest answer" in reply.json()["error"]["message"]


def test_the_docs_have_every_field_of_every_endpoint() -> None:
    page = (Path(__file__).parents[2] / "docs" / "serving.md").read_text()
    names = {name for table in TABLES.values() for name in table}
    assert not {name for name in names if f"`{name}`" not in page}
    assert not [one.path for one in FORMATS if f"`{one.path}`" not in page]


def test_a_payload_that_is_nested_deeply_is_refused(tmp_path: Path) -> None:
    deep = json.dumps(ASK)[:-1] + ', "metadata": ' + "[" * 30_000 + "]" * 30_000 + "}"
    headers = {"content-type": "application/json"}
    served = private(tmp_path)
    (reply,) = send(served, {"content": deep, "headers": headers})
    assert (reply.status_code, served.state.answers) == (400, 0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 20) | st.floats() | st.text(max_size=9)
    | st.sampled_from(["text", "user", "auto", "\ud800", "input_text", "message", "assistant"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["role", "content", "type", "text", "name", "format", "x", "include_usage"])
        | st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=100)
@given(data=st.data())
def test_no_payload_is_an_internal_error(service: ServiceCalls, data: st.DataObject) -> None:
    """Whatever a client sends gets an answer or a sentence, and only an answer costs anything."""
    form = data.draw(st.sampled_from(FORMATS))
    body = dict(URLS.values())[form.path]
    fields = data.draw(st.dictionaries(st.sampled_from(sorted(form.fields)), JSON, max_size=3))
    payload = {**body, **fields}
    before = service.private.state.answers
    reply = service.answer(
        Call(Tenant("a", "t" * 16), form, payload, request_digest(form, payload))
    )
    assert reply.status in (200, 400), reply.body
    assert service.private.state.answers == before + (reply.status == 200)
    if reply.answer:
        assert json.dumps(reply.body, allow_nan=False)
        assert [*form.events(reply.answer, payload)]
