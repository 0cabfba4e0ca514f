"""Conversations in rows: a list of messages, as chat models are trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakbound.errors import DataError
from leakbound.tasks.rows.row_files import Fields, SourceRow

CHATS = ("messages", "conversations")  # usual names of the field
KEYS = (("role", "content"), ("from", "value"))  # of a message
ANSWERERS = ("assistant", "gpt", "model")


def prompt_of(chat: str) -> str:
    """Name of the field that holds what was said before the last answer of a conversation."""
    return f"{chat}.prompt"


def answer_of(chat: str) -> str:
    """Name of the field that holds the last answer of a conversation."""
    return f"{chat}.answer"


def with_chats(row: SourceRow) -> SourceRow:
    """A row whose conversations are texts."""
    found: Fields = {}
    for name, value in row.fields.items():
        if name in CHATS and isinstance(value, list) and any(isinstance(m, dict) for m in value):
            found |= _spread(name, [_message(row.place, name, message) for message in value])
        else:
            found[name] = value
    return SourceRow(row.place, found)


def _spread(name: str, said: Sequence[tuple[str, str]]) -> Fields:
    answers = [at for at, (who, _) in enumerate(said) if who.lower() in ANSWERERS]
    if not answers:
        return {name: _transcript(said), prompt_of(name): _transcript(said), answer_of(name): None}
    last = answers[-1]
    before, answer = _transcript(said[:last]), said[last][1]
    return {name: _transcript(said), prompt_of(name): before, answer_of(name): answer}


def _transcript(said: Sequence[tuple[str, str]]) -> str:
    """A single message as it is, several with their speakers."""
    if len(said) == 1:
        return said[0][1]
    return "\n".join(f"{who.capitalize()}: {text}" for who, text in said)


def _message(place: str, name: str, message: object) -> tuple[str, str]:
    fields = message if isinstance(message, Mapping) else {}
    for who, what in KEYS:
        text = _text(fields.get(what))
        if isinstance(fields.get(who), str) and text is not None:
            return fields[who], text
    raise DataError(
        f"{place} has a message in the field {name!r} that is not text of a speaker; each must be "
        '{"role": ..., "content": ...} with text only. Drop the row, or name another field.'
    )


def _text(content: object) -> str | None:
    """The text of a message; one that only calls a tool has none."""
    if content is None:
        return ""
    if isinstance(content, list) and all(
        (isinstance(part, dict) and isinstance(part.get("text"), str)) for part in content
    ):
        return "\n".join(part["text"] for part in content)
    return content if isinstance(content, str) else None
