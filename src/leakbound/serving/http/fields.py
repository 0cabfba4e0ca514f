"""Which fields of a request are honoured, accepted or refused. None is silently ignored.

A field that is null or missing asks for nothing. Any other value is honoured, accepted because it
asks for what the service does anyway, or refused with a sentence. `docs/serving.md` shows the
tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from leakbound.errors import UsageError
from leakbound.mechanisms.parts.base import NO_ANSWER
from leakbound.systems import SystemMechanism
from leakbound.tasks import Mechanism, Query, Task

Payload: TypeAlias = dict[str, object]
SHOWN = 40  # characters of a value that an error repeats
METADATA = 16  # keys of metadata, as in the OpenAI API


@dataclass(frozen=True, slots=True)
class FieldRule:
    accepts: Callable[[object, int | None], bool]
    must: str
    why: str
    ignorable: bool = False
    required: bool = False


def _equal(*values: object, why: str, ignorable: bool = False) -> FieldRule:
    """Accept values that are equal to what the service does."""
    shown = " or ".join("empty" if value in ("", [], {}) else _show(value) for value in values)
    return FieldRule(lambda value, _: any(_same(value, one) for one in values), shown, why,
                     ignorable)  # fmt: skip


def _kind(*kinds: type, must: str, why: str, required: bool = False) -> FieldRule:
    return FieldRule(lambda value, _: type(value) in kinds, must, why, required=required)


def _same(value: object, allowed: object) -> bool:
    """Equality of JSON values: true is not 1."""
    return isinstance(value, bool) == isinstance(allowed, bool) and value == allowed


def _show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _stop(value: object, _: int | None) -> bool:
    texts = [value] if isinstance(value, str) else value
    return (
        isinstance(texts, list)
        and len(texts) <= 4
        and all(isinstance(text, str) and text for text in texts)
    )


def _options(value: object, _: int | None) -> bool:
    return isinstance(value, dict) and all(
        (name == "include_usage" and isinstance(found, bool))
        or (name == "include_obfuscation" and found is False)
        for name, found in value.items()
        if found is not None
    )


def _metadata(value: object, _: int | None) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= METADATA
        and all(isinstance(text, str) for text in value.values())
    )


DRAWN = "the mechanism fixes how an answer is drawn, and its guarantee depends on it"
LABEL = "a note of the client, which asks for nothing"
NO_TOOLS = "an answer is a text, and calls no tool"
ONE_PAYMENT = "each answer is paid for separately, so send one request for each"
LENGTH = FieldRule(
    lambda value, longest: type(value) is int and longest is not None and value >= longest,
    "at least the longest answer of this service",
    "an answer is paid for whole, and never cut",
    ignorable=True,
)
STREAM_OPTIONS = FieldRule(
    _options,
    "an object with include_usage, and stream must be true",
    "include_usage ends the stream with an event that holds the usage",
)

COMMON: Mapping[str, FieldRule] = {
    "model": _kind(str, must="a text", why="any name; the reply names what answered"),
    "stream": _kind(bool, must="true or false", why="the answer comes as server-sent events"),
    "temperature": _equal(1, why=DRAWN, ignorable=True),
    "top_p": _equal(1, why=DRAWN, ignorable=True),
    "top_k": _equal(why=DRAWN, ignorable=True),
    "user": _kind(str, must="a text", why=LABEL),
    "safety_identifier": _kind(str, must="a text", why=LABEL),
    "prompt_cache_key": _kind(str, must="a text", why=LABEL),
    "prompt_cache_retention": _kind(str, must="a text", why="no prompt is kept for a client"),
    "metadata": FieldRule(_metadata, "at most 16 texts by name", LABEL),
    "store": _equal(False, why="requests and answers are not kept for later retrieval"),
    "service_tier": _equal("auto", "default", why="there is one tier"),
}
PENALTIES: Mapping[str, FieldRule] = {
    "frequency_penalty": _equal(0, why=DRAWN, ignorable=True),
    "presence_penalty": _equal(0, why=DRAWN, ignorable=True),
    "logit_bias": _equal({}, why=DRAWN),
    "seed": _equal(why="anyone who knows the seed of the noise can subtract it", ignorable=True),
    "n": _equal(1, why=ONE_PAYMENT),
    "stop": FieldRule(_stop, "a text or a list of at most 4", "the released answer ends before it"),
    "stream_options": STREAM_OPTIONS,
}
TOOLS: Mapping[str, FieldRule] = {
    "tools": _equal([], why=NO_TOOLS),
    "tool_choice": _equal("none", "auto", why=NO_TOOLS),
    "parallel_tool_calls": _kind(bool, must="true or false", why=NO_TOOLS),
}
CHAT_FIELDS: Mapping[str, FieldRule] = {
    "messages": _kind(
        list, must="a list of {role, content}", why="the conversation is the query", required=True
    ),
    **COMMON,
    **PENALTIES,
    **TOOLS,
    "max_tokens": LENGTH,
    "max_completion_tokens": LENGTH,
    "functions": _equal([], why=NO_TOOLS),
    "function_call": _equal("none", "auto", why=NO_TOOLS),
    "response_format": _equal({"type": "text"}, why="an answer is a text"),
    "modalities": _equal(["text"], why="an answer is a text"),
    "audio": _equal(why="an answer is a text"),
    "prediction": _equal(why="every answer is generated from scratch"),
    "web_search_options": _equal(why="nothing but the private rows is searched"),
    "logprobs": _equal(False, why="the guarantee covers the answer, and not its probabilities"),
    "top_logprobs": _equal(0, why="the guarantee covers the answer, and not its probabilities"),
    "reasoning_effort": _equal("none", why="answers have no reasoning", ignorable=True),
    "verbosity": _equal("medium", why=DRAWN, ignorable=True),
}
COMPLETION_FIELDS: Mapping[str, FieldRule] = {
    "prompt": _kind(
        str, list, must="a text, or a list of one text", why="it is the query", required=True
    ),
    **COMMON,
    **PENALTIES,
    "max_tokens": LENGTH,
    "best_of": _equal(1, why=ONE_PAYMENT),
    "echo": _equal(False, why="the reply holds the answer alone"),
    "suffix": _equal("", why="an answer always comes last"),
    "logprobs": _equal(False, why="the guarantee covers the answer, and not its probabilities"),
}
RESPONSE_FIELDS: Mapping[str, FieldRule] = {
    "input": _kind(
        str,
        list,
        must="a text or a list of messages",
        why="the conversation is the query",
        required=True,
    ),
    "instructions": _kind(str, must="a text", why="the first system message"),
    **COMMON,
    **TOOLS,
    "max_output_tokens": LENGTH,
    "max_tool_calls": _kind(int, must="a number", why=NO_TOOLS),
    "previous_response_id": _equal(why="nothing is kept; send the earlier messages in input"),
    "conversation": _equal(why="nothing is kept; send the earlier messages in input"),
    "prompt": _equal(why="there are no stored prompts; send the text in input"),
    "background": _equal(False, why="a request waits for its answer"),
    "include": _equal([], why="the reply holds the answer alone"),
    "truncation": _equal("disabled", why="a query that is too long is refused"),
    "text": FieldRule(
        lambda value, _: value in ({}, {"format": {"type": "text"}}),
        "{'format': {'type': 'text'}}",
        "an answer is a text",
    ),
    "reasoning": _equal({}, why="answers have no reasoning", ignorable=True),
    "top_logprobs": _equal(0, why="the guarantee covers the answer, and not its probabilities"),
    "stream_options": FieldRule(
        _options, "{'include_obfuscation': false}", "a stream of responses always holds the usage"
    ),
}


def longest_answer(task: Task, mechanism: Mechanism) -> int | None:
    """The most tokens that an answer can have, from public facts.

    Examples:
        >>> from leakbound.mechanisms import ReportNoisyMax
        >>> longest_answer(Task("mail", ("work", "home")), ReportNoisyMax(2.0))
        11
    """
    given = task.answers(Query("-"))
    if given:
        return max(len(text.encode()) for text in (*given, NO_ANSWER))
    if isinstance(mechanism, SystemMechanism):
        return None
    own = mechanism.to_config().get("tokens")
    return max(task.max_answer_tokens, own) if isinstance(own, int) else task.max_answer_tokens


def ignorable_fields() -> tuple[str, ...]:
    """Fields that an operator may let the service ignore."""
    tables = (CHAT_FIELDS, COMPLETION_FIELDS, RESPONSE_FIELDS)
    return tuple(sorted({name for table in tables for name, rule in table.items()
                         if rule.ignorable}))  # fmt: skip


def check_fields(
    payload: Payload, rules: Mapping[str, FieldRule], longest: int | None, ignored: Iterable[str]
) -> tuple[str, ...]:
    """Refuse a request if a field cannot be served as asked."""
    lenient, found = set(ignored), []
    for name, value in payload.items():
        rule = rules.get(name)
        if value is None or (rule is not None and rule.accepts(value, longest)):
            continue
        if name not in lenient:
            raise UsageError(_refusal(name, value, rule, longest))
        found.append(name)
    if payload.get("stream_options") is not None and payload.get("stream") is not True:
        raise UsageError(
            "stream_options is given, and stream is not true; set stream to true, or leave "
            "stream_options out."
        )
    return tuple(found)


def _refusal(name: str, value: object, rule: FieldRule | None, longest: int | None) -> str:
    if rule is None:
        return f"{name[:SHOWN]} is not a field that this service knows; leave it out."
    if rule is LENGTH and longest is not None:
        return (
            f"{name} is {_show(value)}; it must be at least {longest}, the longest answer here, "
            f"or left out: {rule.why}."
        )
    left_out = "" if rule.required else ", or left out" if rule.must else "left out"
    must = f"{rule.must}{left_out}"
    return f"{name} is {_show(value)}; it must be {must}: {rule.why}."
