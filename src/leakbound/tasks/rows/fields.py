"""A field map: which fields of a row make the input of an example, and which one its label.

A field may be a conversation: a list of messages, as chat models are trained on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern

from leakbound.errors import DataError
from leakbound.models.content import Image, join
from leakbound.tasks.example import Example
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
    if not any(name in row.fields for name in CHATS):
        return row
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


IMAGE = "image"  # the field that holds the path of an image
INPUT_FIELDS = (
    "text", "input", "sentence", "document", "question", "context", "message", "body", "review",
    "content", "comment", "query", "prompt", "instruction", "article", "dialogue", "utterance",
    "description", "tweet", "post", "email",
)  # fmt: skip
LABEL_FIELDS = (
    "label", "answer", "summary", "output", "category", "class", "sentiment", "target", "intent",
    "topic", "completion", "response", "reply", "highlights", "rating", "stars", "tag",
)  # fmt: skip
SURROGATE = re.compile("[\ud800-\udfff]")
SLOT = re.compile(r"\{([^{}]+)\}")
MOST_NAMES = 30  # of the fields that a message lists
# Files that name their fields in their first line: without such a line it is a private row.
HEADED = re.compile(r"\.(csv|tsv)(\.gz)?'?$", re.IGNORECASE)


class EmptyField(DataError):
    def __init__(self, place: str, field: str) -> None:
        super().__init__(
            f"{place} has an empty field {field!r}; drop the row or fill it, or let an audit leave "
            "such rows out with --drop-empty."
        )
        self.field = field


class NoUsualName(DataError):
    """No field has a usual name for the input or the label."""

    def __init__(self, sentence: str, template: str | None, label: str | None) -> None:
        super().__init__(sentence)
        self.template, self.label = template, label


FIRST_LINE = (
    " The first line of the file must name the fields, such as text,label; if it is a row, put "
    "such a line on top."
)


@dataclass(frozen=True, slots=True)
class FieldMap:
    """Which fields of a row make the input of an example, and which one its label."""

    template: str
    label: str

    @property
    def names(self) -> tuple[str, ...]:
        """Every field that a row must have."""
        return (*SLOT.findall(self.template), self.label)

    def example(self, row: SourceRow) -> Example:
        """A row as an example; what a field holds is put in as it is, braces and all."""
        place, fields = row
        pieces = SLOT.split(self.template)  # texts, and names of fields between them
        found: list[str | Image] = [*pieces]
        for at in range(1, len(pieces), 2):
            held = fields.get(pieces[at])
            found[at] = held if isinstance(held, Image) else _value(place, fields, pieces[at])
        images = [piece for piece in found if isinstance(piece, Image)]
        content = images[0] if found == ["", *images, ""] else join(found)
        return Example(content, intern(_value(place, fields, self.label)))  # many have few labels


def guess(
    have: Iterable[Sequence[str]],
    where: str,
    input_field: str | None,
    label_field: str | None,
    template: str | None,
) -> FieldMap:
    """The field map that a user gave, or usual names; every row must lead to the same by itself."""
    if template is not None and input_field:
        raise DataError(
            f"the input field {input_field!r} and the input template {template!r} both say what "
            "the input is; leave one of them out."
        )
    if template is not None and not SLOT.search(template):
        raise DataError(
            f"the input template is {template!r}; it must name fields in braces, such as "
            f"'{{title}}: {{text}}', and takes the place of --input-field."
        )
    named = template if not input_field else f"{{{input_field}}}"
    kinds = tuple(dict.fromkeys(map(tuple, have)))
    (shown, label), *others = {_choice(names, named, label_field) for names in kinds}
    if others:
        raise DataError(
            f"{where} has rows whose usual fields differ; all rows must have the same ones, so "
            "that no single row decides what stands in every prompt. Name the fields with "
            "--input-field and --label-field."
        )
    if shown is None or label is None:
        raise no_usual_name(where, shown, label, kinds)
    if shown == f"{{{label}}}":
        raise DataError(
            f"the field {label!r} is both the input and the label; name another with --input-field "
            "or --label-field."
        )
    return FieldMap(shown, label)


def _choice(
    have: Sequence[str], template: str | None, label: str | None
) -> tuple[str | None, str | None]:
    """Template and label field that one row leads to; None for what it has no usual name for."""
    shown = template or _usual_input(have)
    taken = SLOT.findall(shown or "")
    label = label or first_usual(LABEL_FIELDS, [name for name in have if name not in taken])
    chat = next((name for name in CHATS if answer_of(name) in have), None)
    if chat is None:
        return shown, label
    answer = label or answer_of(chat)
    return shown or f"{{{prompt_of(chat) if answer == answer_of(chat) else chat}}}", answer


def _usual_input(have: Sequence[str]) -> str | None:
    text = first_usual(INPUT_FIELDS, have)
    task = first_usual(("instruction",), have) if text and text.lower() == "input" else None
    image = IMAGE if IMAGE in have else None
    return "\n".join(f"{{{name}}}" for name in (image, task, text) if name) or None


def first_usual(usual: Sequence[str], have: Sequence[str]) -> str | None:
    """The field with the first of some names; names in small letters come before others."""
    plain = {name.strip().lower(): name for name in reversed(have)}
    plain |= {name: name for name in have}
    return next((plain[name] for name in usual if name in plain), None)


def no_usual_name(
    where: str, shown: str | None, label: str | None, kinds: Sequence[Sequence[str]]
) -> NoUsualName:
    """The error of rows whose fields have no usual name."""
    common = [name for name in kinds[0] if all(name in names for names in kinds)]
    what = [name for name, found in (("input", shown), ("label", label)) if found is None]
    flags = {"input": "--input-field (or --input-template, for several)", "label": "--label-field"}
    listed = _list_all(where, common)
    told = listed if HEADED.search(where) else f"the fields {listed}"
    sentence = (
        f"{where} has {told}, none of them a usual name for the "
        f"{' or the '.join(what)}; name it with {' and '.join(flags[name] for name in what)}."
    )
    more = FIRST_LINE if HEADED.search(where) else ""
    return NoUsualName(sentence + more, shown, label)


def _list_all(where: str, names: Sequence[str]) -> str:
    """Fields for an error: their names, or their number where the names may be a private row."""
    if HEADED.search(where):
        return f"{len(names)} field{'s' * (len(names) != 1)}"
    more = ", ..." if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES]) or '(none)'}{more}"


def _value(place: str, fields: Fields, name: str) -> str:
    if name not in fields:
        have = _list_all(place, [str(key) for key in fields])
        raise DataError(
            f"{place} has no field {name!r}; it has {have}. Name the field that holds it."
            + (FIRST_LINE if HEADED.search(place) else "")
        )
    value = fields[name]
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "\n".join(value)
    if value is not None and not isinstance(value, str | int | float):
        raise DataError(
            f"{place} has a {type(value).__name__} in the field {name!r}; it must be text. Name "
            "another field."
        )
    missing = value is None or value != value  # tables say NaN of what is missing
    text = "" if missing else str(value).replace("\r\n", "\n").strip()
    if not text:
        raise EmptyField(place, name)
    if not text.isascii() and SURROGATE.search(text):
        raise DataError(
            f"{place} has half a character (a lone surrogate) in the field {name!r}; write the "
            "text as UTF-8 again."
        )
    return text
