"""What an agent did, read from the messages that its framework or its trace keeps.

Frameworks and conventions give other names to one structure: a message has parts, and a part is a
text, a call of a tool, or what a tool returned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from leakbound.errors import UsageError

SAID, INPUTS, OUTPUTS = "messages", "tool_inputs", "tool_outputs"
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("tool_call", "tool-call", "function_call", "tool_use", "function"), INPUTS),
    **dict.fromkeys(
        ("tool_call_response", "tool-return", "function_call_output", "tool_result", "tool"),
        OUTPUTS,
    ),
    **dict.fromkeys(("user", "human", "system", "developer", "user-prompt", "system-prompt"), ""),
}  # of a part or a message; "" is what was asked
NAMES, ARGUMENTS = ("name", "tool_name"), ("arguments", "args", "input")
RETURNED = ("content", "response", "result", "output")
INNER = ("parts", "content", "text", "tool_calls", "function")  # what a message has within

# The answer, and the messages of the run.
FRAMEWORKS: Mapping[str, Callable[[Any], tuple[object, object]]] = {
    "pydantic-ai": lambda run: (run.output, json.loads(run.new_messages_json())),
    "openai-agents": lambda run: (run.final_output, [one.to_input_item() for one in run.new_items]),
    "langgraph": lambda state: (state["messages"][-1].content, [*turn_of(state["messages"])][::-1]),
}


def agent_reply(framework: str, result: object) -> dict[str, object]:
    """The reply of an agent of pydantic-ai, openai-agents or langgraph, whose channels are its
    messages before the answer, and the inputs and outputs of its tools.

    >>> from types import SimpleNamespace
    >>> said = SimpleNamespace(type="ai", content="No.", tool_calls=[])
    >>> agent_reply("langgraph", {"messages": [said]})
    {'answer': 'No.', 'channels': {'messages': ''}}
    """
    if framework not in FRAMEWORKS:
        raise UsageError(f"framework is {framework!r}; it must be one of {', '.join(FRAMEWORKS)}.")
    try:
        answer, messages = FRAMEWORKS[framework](result)
    except (AttributeError, LookupError, TypeError):
        raise UsageError(
            f"the agent returned {type(result).__name__}; it must be what a run of {framework} "
            "returns."
        ) from None
    return {"answer": text_of(answer), "channels": channels_of([*steps_of(messages)], answer)}


def turn_of(messages: list[Any]) -> Iterator[Any]:
    """What was said since the user spoke, the last first."""
    typed = [one for one in messages if hasattr(one, "type")]
    return takewhile(lambda one: one.type != "human", reversed(typed))


def channels_of(steps: list[tuple[str, str]], answer: object) -> dict[str, str]:
    """The texts of each channel; the answer is none of them."""
    found: dict[str, list[str]] = {SAID: []}
    for name, text in steps:
        found.setdefault(name, []).append(text)
    if found[SAID][-1:] == [text_of(answer)]:
        found[SAID].pop()
    return {name: "\n".join(texts) for name, texts in found.items()}


def steps_of(value: object, kind: str = SAID) -> Iterator[tuple[str, str]]:
    """The channel and the text of each part of messages, in their order."""
    if isinstance(value, str):
        yield from [(kind, value)] if kind and value else ()
    elif isinstance(value, list | tuple):
        for one in value:
            yield from steps_of(one, kind)
    elif value is not None:
        part: Mapping[str, object] = value if isinstance(value, Mapping) else vars(value)
        named = [part.get(name) for name in ("part_kind", "type", "role")]
        known = [KINDS[one] for one in named if isinstance(one, str) and one in KINDS]
        kind = known[0] if known else kind
        if kind == INPUTS and "function" not in part:
            call = {"name": _first(part, NAMES), "args": _first(part, ARGUMENTS)}
            yield INPUTS, text_of(call)
        elif kind == OUTPUTS:
            yield OUTPUTS, text_of(_first(part, RETURNED))
        else:
            for name in INNER:
                yield from steps_of(part.get(name), kind)


def text_of(value: object) -> str:
    """Objects, such as documents, in their own words."""
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)


def _first(part: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((part[name] for name in names if part.get(name) is not None), None)
