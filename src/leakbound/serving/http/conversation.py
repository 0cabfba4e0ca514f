"""Messages to one query, by a public template.

An answer is made from the private context and one query. A single user message is the query
itself. System messages and earlier messages are added to it, each after the name of its role. The
limit on the length of a query applies to all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbound.errors import UsageError

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
    """One message of a conversation."""

    role: str
    text: str
    name: str = ""


def query_text(messages: Sequence[Message]) -> str:
    """Turn a conversation into one query.

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
    return "\n".join(f"{_speaker(message)}: {message.text}" for message in messages)


def _speaker(message: Message) -> str:
    role = ROLES[message.role]
    return f"{role} ({message.name})" if message.name else role


def message_from(found: object) -> Message:
    """Read a message of a request."""
    if not isinstance(found, dict):
        raise UsageError("a message is not an object; it must be {role, content}.")
    role = found.get("role")
    if found.get("type") not in (None, "message") or role not in ROLES:
        raise UsageError(
            f"a message has the role {str(role)[:40]!r}; it must be one of {', '.join(ROLES)}. "
            "Tools and their results cannot be part of a query."
        )
    refusal = found.get("refusal") if role == "assistant" else None  # sent by this service
    for name, value in found.items():
        if name == "refusal" and isinstance(refusal, str):
            continue
        if name not in ("role", "content", "name", *FREE) and not _is_empty(name, value):
            raise UsageError(
                f"a message holds {name[:40]}; only its role, name and text can be part of a "
                "query. Leave it out."
            )
    content = found.get("content")
    text = text_of(refusal if content is None and isinstance(refusal, str) else content)
    return Message(str(role), text, _name(found.get("name")))


def _is_empty(name: str, value: object) -> bool:
    return value is None or (name in EMPTY and value in ([], {}, ""))


def _name(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.isprintable() or len(value) > 64:
        raise UsageError("the name of a message must be a text of at most 64 characters.")
    return value


def _asks(part: dict[object, object]) -> bool:
    return any(value is not None for name, value in part.items() if name not in PART_FIELDS)


def text_of(content: object) -> str:
    """The text of a message."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [
        part.get("text")
        for part in parts
        if isinstance(part, dict) and part.get("type") in TEXT_PARTS and not _asks(part)
    ]
    if not texts or len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise UsageError(
            "a message is not text; its content must be a string or parts of the type text."
        )
    return "\n".join(str(text) for text in texts)
