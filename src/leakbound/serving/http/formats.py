"""The three answer endpoints of the OpenAI API: how to read a request and write an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TypeAlias

from leakbound.errors import UsageError

Payload: TypeAlias = dict[str, object]
SHOWN = 40  # characters of a value that an error repeats
METADATA = 16  # keys of metadata, as in the OpenAI API


@dataclass(frozen=True, slots=True)
class _FieldRule:
    accepts: Callable[[object, int | None], bool]
    must: str
    why: str
    ignorable: bool = False
    required: bool = False


def _equal(*values: object, why: str, ignorable: bool = False) -> _FieldRule:
    """Accept values that are equal to what the service does."""
    shown = " or ".join("empty" if value in ("", [], {}) else _show(value) for value in values)
    exact = [(isinstance(one, bool), one) for one in values]  # true is not 1
    return _FieldRule(lambda value, _: (isinstance(value, bool), value) in exact, shown, why,
                     ignorable)  # fmt: skip


def _kind(*kinds: type, must: str, why: str, required: bool = False) -> _FieldRule:
    return _FieldRule(lambda value, _: type(value) in kinds, must, why, required=required)


_needed = partial(_kind, required=True)


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
LENGTH = _FieldRule(
    lambda value, longest: type(value) is int and longest is not None and value >= longest,
    "at least the longest answer of this service",
    "an answer is paid for whole, and never cut",
    ignorable=True,
)
STREAM_OPTIONS = _FieldRule(
    _options,
    "an object with include_usage, and stream must be true",
    "include_usage ends the stream with an event that holds the usage",
)

COMMON: Mapping[str, _FieldRule] = {
    "model": _kind(str, must="a text", why="any name; the reply names what answered"),
    "stream": _kind(bool, must="true or false", why="the answer comes as server-sent events"),
    "temperature": _equal(1, why=DRAWN, ignorable=True),
    "top_p": _equal(1, why=DRAWN, ignorable=True),
    "top_k": _equal(why=DRAWN, ignorable=True),
    "user": _kind(str, must="a text", why=LABEL),
    "safety_identifier": _kind(str, must="a text", why=LABEL),
    "prompt_cache_key": _kind(str, must="a text", why=LABEL),
    "prompt_cache_retention": _kind(str, must="a text", why="no prompt is kept for a client"),
    "metadata": _FieldRule(_metadata, "at most 16 texts by name", LABEL),
    "store": _equal(False, why="requests and answers are not kept for later retrieval"),
    "service_tier": _equal("auto", "default", why="there is one tier"),
}
PENALTIES: Mapping[str, _FieldRule] = {
    "frequency_penalty": _equal(0, why=DRAWN, ignorable=True),
    "presence_penalty": _equal(0, why=DRAWN, ignorable=True),
    "logit_bias": _equal({}, why=DRAWN),
    "seed": _equal(why="anyone who knows the seed of the noise can subtract it", ignorable=True),
    "n": _equal(1, why=ONE_PAYMENT),
    "stop": _FieldRule(
        _stop, "a text or a list of at most 4", "the released answer ends before it"
    ),
    "stream_options": STREAM_OPTIONS,
}
TOOLS: Mapping[str, _FieldRule] = {
    "tools": _equal([], why=NO_TOOLS),
    "tool_choice": _equal("none", "auto", why=NO_TOOLS),
    "parallel_tool_calls": _kind(bool, must="true or false", why=NO_TOOLS),
}
CHAT_FIELDS: Mapping[str, _FieldRule] = {
    "messages": _needed(
        list, must="a list of {role, content}", why="the conversation is the query"
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
COMPLETION_FIELDS: Mapping[str, _FieldRule] = {
    "prompt": _needed(str, list, must="a text, or a list of one text", why="it is the query"),
    **COMMON,
    **PENALTIES,
    "max_tokens": LENGTH,
    "best_of": _equal(1, why=ONE_PAYMENT),
    "echo": _equal(False, why="the reply holds the answer alone"),
    "suffix": _equal("", why="an answer always comes last"),
    "logprobs": _equal(False, why="the guarantee covers the answer, and not its probabilities"),
}
RESPONSE_FIELDS: Mapping[str, _FieldRule] = {
    "input": _needed(
        str, list, must="a text or a list of messages", why="the conversation is the query"
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
    "text": _FieldRule(
        lambda value, _: value in ({}, {"format": {"type": "text"}}),
        "{'format': {'type': 'text'}}",
        "an answer is a text",
    ),
    "reasoning": _equal({}, why="answers have no reasoning", ignorable=True),
    "top_logprobs": _equal(0, why="the guarantee covers the answer, and not its probabilities"),
    "stream_options": _FieldRule(
        _options, "{'include_obfuscation': false}", "a stream of responses always holds the usage"
    ),
}


def ignorable_fields() -> tuple[str, ...]:
    """Fields that an operator may let the service ignore."""
    tables = (CHAT_FIELDS, COMPLETION_FIELDS, RESPONSE_FIELDS)
    return tuple(sorted({name for table in tables for name, rule in table.items()
                         if rule.ignorable}))  # fmt: skip


def check_fields(
    payload: Payload, rules: Mapping[str, _FieldRule], longest: int | None, ignored: Iterable[str]
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


def _refusal(name: str, value: object, rule: _FieldRule | None, longest: int | None) -> str:
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


# No token counts: the length of a prompt is private, and the released text is never tokenized.
NO_COUNTS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
UNANSWERED = "There is no answer to this query. Its price is that of an answer."
ROLES = {"system": "System", "developer": "System", "user": "User", "assistant": "Assistant"}
TEXT_PARTS = ("text", "input_text", "output_text")
PART_FIELDS = ("annotations", "logprobs", "text", "type")  # other fields ask for something
# sent empty by clients that return messages as they received them; refused if not empty
EMPTY = (
    "annotations", "audio", "function_call", "reasoning", "reasoning_content", "refusal",
    "tool_call_id", "tool_calls",
)  # fmt: skip
FREE = ("id", "phase", "status", "type")  # of items of the Responses API: not part of the text


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    text: str
    name: str = ""

    @property
    def speaker(self) -> str:
        return ROLES[self.role] + (f" ({self.name})" if self.name else "")


def query_text(messages: Sequence[Message]) -> str:
    """Turn a conversation into one query, by a public template. A single user message is the query
    itself.

    Examples:
        >>> print(query_text([Message("system", "Be brief."), Message("user", "Where is it?")]))
        System: Be brief.
        User: Where is it?
    """
    if not any(message.role == "user" for message in messages):
        raise UsageError(
            "messages has no message of the role user; the last one is the query, so send at "
            "least one."
        )
    if messages[-1].role == "assistant":
        raise UsageError(
            "the last message is the assistant's; an answer is never continued, so end with a "
            "message of the role user."
        )
    if len(messages) == 1 and not messages[0].name:
        return messages[0].text
    return "\n".join(f"{message.speaker}: {message.text}" for message in messages)


def message_from(found: object) -> Message:
    if not isinstance(found, dict):
        raise UsageError("a message is not an object; it must be {role, content}.")
    role = found.get("role")
    if found.get("type") not in (None, "message") or role not in ROLES:
        raise UsageError(
            f"a message has the role {str(role)[:40]!r}; it must be one of {', '.join(ROLES)}. "
            "Tools and their results cannot be part of a query."
        )
    refusal = found.get("refusal") if role == "assistant" else None  # sent by this service
    for key, value in found.items():
        empty = value is None or (key in EMPTY and value in ([], {}, ""))
        known = key in ("role", "content", "name", *FREE)
        if not (known or empty or (key == "refusal" and isinstance(refusal, str))):
            raise UsageError(
                f"a message holds {key[:40]}; only its role, name and text can be part of a "
                "query. Leave it out."
            )
    content = found.get("content")
    text = _text_of(refusal if content is None and isinstance(refusal, str) else content)
    name = "" if found.get("name") is None else found["name"]
    if not isinstance(name, str) or not name.isprintable() or len(name) > 64:
        raise UsageError("the name of a message must be a text of at most 64 characters.")
    return Message(str(role), text, name)


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [
        part.get("text")
        for part in parts
        if isinstance(part, dict) and part.get("type") in TEXT_PARTS
        if all(value is None for name, value in part.items() if name not in PART_FIELDS)
    ]
    if not texts or len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise UsageError(
            "a message is not text; its content must be a string or parts of the type text."
        )
    return "\n".join(str(text) for text in texts)


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """A released answer as a client receives it (PUBLIC)."""

    id: str
    created: int
    model: str
    text: str
    epsilon_spent: float | None
    epsilon_remaining: float | None
    delta: float
    answered: bool = True
    ignored: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServedAnswer:
        found = json.loads(text)
        return cls(**{**found, "ignored": tuple(found["ignored"])})

    def cut_before(self, stop: object) -> ServedAnswer:
        """The answer up to the first stop sequence: a function of the released text."""
        texts = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
        places = [self.text.find(str(one)) for one in texts]
        ends = [place for place in places if place >= 0]
        return replace(self, text=self.text[: min(ends)]) if ends else self

    @property
    def refusal(self) -> str | None:
        return None if self.answered else UNANSWERED

    def price(self) -> Payload:
        shown: Payload = {
            "epsilon_spent": self.epsilon_spent,
            "epsilon_remaining": self.epsilon_remaining,
            "delta": self.delta,
            "answered": self.answered,
        }
        return {**shown, "ignored_fields": list(self.ignored)} if self.ignored else shown


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    path: str
    fields: Mapping[str, _FieldRule]
    messages: Callable[[Payload], list[Message]]
    body: Callable[[ServedAnswer, Payload], Payload]
    events: Callable[[ServedAnswer, Payload], Iterator[str]]


def _event(body: object, name: str = "") -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


def _choice_format(
    path: str,
    fields: Mapping[str, _FieldRule],
    messages: Callable[[Payload], list[Message]],
    prefix: str,
    kinds: tuple[str, str],
    choices: Callable[[ServedAnswer], tuple[Payload, Payload, Payload]],
) -> AnswerFormat:
    """Chat or completions. `choices` are those of a body, of a first chunk and of a last one."""

    def head(answer: ServedAnswer, kind: str) -> Payload:
        made = {"created": answer.created, "model": answer.model}
        return {"id": f"{prefix}-{answer.id}", "object": kind, **made}

    def body(answer: ServedAnswer, payload: Payload) -> Payload:
        ended: Payload = {"finish_reason": "stop", "logprobs": None}
        rest = {"usage": NO_COUNTS, "leakbound": answer.price()}
        choice = {"index": 0, **choices(answer)[0], **ended}
        return {**head(answer, kinds[0]), "choices": [choice], **rest}

    def events(answer: ServedAnswer, payload: Payload) -> Iterator[str]:
        """The last chunk before the usage states the price."""
        options = payload.get("stream_options")
        counted = isinstance(options, dict) and options.get("include_usage") is True
        usage: Payload = {"usage": None} if counted else {}
        start, (_, first, last) = head(answer, kinds[1]), choices(answer)
        common: Payload = {"index": 0, "logprobs": None}
        yield _event({**start, "choices": [{**common, **first, "finish_reason": None}], **usage})
        ended = [{**common, **last, "finish_reason": "stop"}]
        yield _event({**start, "choices": ended, **usage, "leakbound": answer.price()})
        if usage:
            yield _event({**start, "choices": [], "usage": NO_COUNTS})
        yield _event("[DONE]")

    return AnswerFormat(path, fields, messages, body, events)


# --- chat


def _chat_messages(payload: Payload) -> list[Message]:
    messages = payload.get("messages")
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise UsageError(
            "messages is missing or is not a list of objects; it must be a list of {role, content}."
        )
    return [message_from(one) for one in messages]


def _chat_choices(answer: ServedAnswer) -> tuple[Payload, Payload, Payload]:
    said: Payload = {"role": "assistant", "content": answer.text}
    refused = {"refusal": answer.refusal}
    delta = said | (refused if answer.refusal else {})
    return {"message": said | refused}, {"delta": delta}, {"delta": {}}


# --- completions


def _prompt_messages(payload: Payload) -> list[Message]:
    prompt = payload.get("prompt")
    texts = prompt if isinstance(prompt, list) else [prompt]
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise UsageError(
            "prompt is not text; it must be one text, or a list of one text. Each answer is paid "
            "for separately, and token ids are not accepted."
        )
    return [Message("user", texts[0])]


# --- responses


def _input_messages(payload: Payload) -> list[Message]:
    found, instructions = payload.get("input"), payload.get("instructions")
    if not isinstance(found, str | list):
        raise UsageError("input is missing; it must be a text or a list of messages.")
    asked = [Message("user", found)] if isinstance(found, str) else [*map(message_from, found)]
    if not isinstance(instructions, str) or not instructions:
        return asked
    return [Message("system", instructions), *asked]


def _response_message(answer: ServedAnswer, done: bool = True) -> Payload:
    part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": f"msg_{answer.id}",
        "status": "completed" if done else "in_progress",
        "role": "assistant",
        "content": [part] if done else [],
    }


def _response_body(answer: ServedAnswer, payload: Payload, done: bool = True) -> Payload:
    usage: Payload = {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 0,
    }
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created,
        "status": "completed" if done else "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": payload.get("instructions"),
        "metadata": payload.get("metadata") or {},
        "model": answer.model,
        "output": [_response_message(answer)] if done else [],
        "parallel_tool_calls": payload.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": payload.get("tool_choice") or "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if done else None,
        "user": payload.get("user"),
        **({"leakbound": answer.price()} if done else {}),
    }


def _response_events(answer: ServedAnswer, payload: Payload) -> Iterator[str]:
    started, ended = (_response_body(answer, payload, done) for done in (False, True))
    place: Payload = {"output_index": 0, "item_id": f"msg_{answer.id}", "content_index": 0}
    text: Payload = {"text": answer.text, "logprobs": []}
    part = {"type": "output_text", "annotations": [], **text}
    events: list[tuple[str, Payload]] = [
        ("created", {"response": started}),
        ("in_progress", {"response": started}),
        ("output_item.added", {"output_index": 0, "item": _response_message(answer, False)}),
        ("content_part.added", {**place, "part": {**part, "text": ""}}),
        ("output_text.delta", {**place, "delta": answer.text, "logprobs": []}),
        ("output_text.done", {**place, **text}),
        ("content_part.done", {**place, "part": part}),
        ("output_item.done", {"output_index": 0, "item": _response_message(answer)}),
        ("completed", {"response": ended}),
    ]
    for number, (name, body) in enumerate(events):
        kind = f"response.{name}"
        yield _event({"type": kind, "sequence_number": number, **body}, kind)


FORMATS = (
    _choice_format(
        "/v1/chat/completions", CHAT_FIELDS, _chat_messages, "chatcmpl",
        ("chat.completion", "chat.completion.chunk"), _chat_choices,
    ),
    _choice_format(
        "/v1/completions", COMPLETION_FIELDS, _prompt_messages, "cmpl", ("text_completion",) * 2,
        lambda answer: ({"text": answer.text}, {"text": answer.text}, {"text": ""}),
    ),
    AnswerFormat("/v1/responses", RESPONSE_FIELDS, _input_messages, _response_body,
                 _response_events),
)  # fmt: skip
