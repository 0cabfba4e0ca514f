"""For leakbound init: the fields of rows, by their usual names, else by what they hold; and the
commented configuration that it writes. Rows decide a guess, so no audit and no private answer uses
one: a person checks it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, median
from typing import Any

import click
import yaml

from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.spec.groups import Design
from leakbound.errors import DataError
from leakbound.tasks.rows.fields import (
    HEADED,
    INPUT_FIELDS,
    LABEL_FIELDS,
    NoUsualName,
    guess,
    with_chats,
)
from leakbound.tasks.rows.row_files import Fields
from leakbound.tasks.rows.sources import source_rows

SLOT = re.compile(r"\{([^{}]+)\}")
ROLES = {"input_field": "input", "label_field": "label"}
FLAGS = {
    "input_field": "--input-field (or --input-template, for several)",
    "label_field": "--label-field",
}
MOST_NAMES = 30  # of the fields that a message lists
# Of rows with both, an application answers the second from the first.
DOCUMENTS = ("context", "document", "passage", "article", "body", "content")
QUESTIONS = ("{question}", "{query}", "{prompt}", "{instruction}")
NONE = {
    "input_field": "no field holds texts of several words that differ from row to row (a field "
    "inside another is not looked at)",
    "label_field": "no other field repeats a few short values (a free text, such as a summary, may "
    "be the label too)",
}
MOST_LABELS = 20  # distinct values; with more, answers are taken for free texts
LONGEST_LABEL = 40  # characters on average
LONGEST_NAME = 40  # characters of a field's name
WORDS_OF_NAME = 3
FILLED = 0.9  # share of the rows
CLEAR = 0.7  # a second text that is as long as this share of the longest makes the choice unclear
LETTER = re.compile(r"[^\W\d_]")
TOKEN = re.compile(r"[\x21-\x7e]+")  # an id, an address, a date: no blank in it
MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE = re.compile(
    rf"\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}([T ].*)?|\d{{4}}-\d\d|(19|20)\d\d"
    rf"|(\d{{1,2}}\.?[ -])?{MONTH}[ -](\d{{1,2}},? )?\d{{2,4}}"
    r"|\d{1,2}:\d\d(:\d\d)?( ?[ap]\.?m\.?)?"  # a time of day
    r"|1\d{9}(\d{3})?",  # seconds or milliseconds since 1970
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of a name such as ticketCategory or TICKET_CATEGORY
ENDS = (".", "!", "?", ";")  # of a sentence, and of no name


@dataclass(frozen=True)
class _RowField:
    name: str
    values: tuple[str, ...]

    @cached_property
    def distinct(self) -> int:
        """Number of different values."""
        return len(set(self.values))

    @cached_property
    def length(self) -> float:
        """Characters of a value, on average."""
        return fmean(map(len, self.values))

    @property
    def is_text(self) -> bool:
        """Whether most values are different texts of several words."""
        words = [one for one in self.values if LETTER.search(one) and not TOKEN.fullmatch(one)]
        return 2 * self.distinct >= len(self.values) and 2 * len(words) >= len(self.values)

    @property
    def is_label(self) -> bool:
        """Whether it repeats a few short values, as labels do, no dates or times."""
        if all(map(DATE.fullmatch, self.values)):
            return False
        most = min(MOST_LABELS, max(2, len(self.values) // 2), len(self.values) - 1)
        return 2 <= self.distinct <= most and self.length <= LONGEST_LABEL


def columns_of(rows: Sequence[Fields]) -> list[_RowField]:
    """The fields that hold a text or a number in nearly every row."""
    found = ((name, [_text(row.get(name)) for row in rows]) for name in rows[0])
    whole = ((str(name), tuple(text for text in texts if text)) for name, texts in found)
    return [_RowField(name, texts) for name, texts in whole if len(texts) >= FILLED * len(rows)]


def _text(value: object) -> str | None:
    """What a field holds, as the reader of examples takes it; None for nothing."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "\n".join(value)
    plain = isinstance(value, str | int | float) and value == value  # NaN is what is missing
    return str(value).strip() or None if plain else None


def text_columns(columns: Iterable[_RowField]) -> list[_RowField]:
    """The columns that may be the input."""
    found = sorted((one for one in columns if one.is_text), key=lambda one: -one.length)
    return _name_of([one for one in found if one.length >= CLEAR * found[0].length], INPUT_FIELDS)


def is_identifier(column: _RowField) -> bool:
    """Whether it holds a different word or number in each row, and so is neither text nor label."""
    plain = not any(" " in value for value in column.values)
    return plain and column.distinct == len(column.values)


def _name_of(columns: list[_RowField], usual: Sequence[str]) -> list[_RowField]:
    """The columns with a usual word in their names, if there are any."""
    found = [one for one in columns if {word.lower() for word in WORD.findall(one.name)} & {*usual}]
    return found or columns


def _is_value(column: _RowField) -> bool:
    name, words = column.name.strip(), column.name.split()
    if not LETTER.search(name) or name.endswith(ENDS) or name in column.values:
        return True
    if len(name) > LONGEST_NAME or len(words) > WORDS_OF_NAME:
        return True
    return len(words) > 1 and column.is_text and len(name) >= median(map(len, column.values)) / 2


@dataclass(frozen=True, slots=True)
class FoundFields:
    """Fields that have no usual name."""

    chosen: Mapping[str, str] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """What was guessed, and how to change it; empty if nothing was."""
        if not self.why:
            return ""
        found = (
            f"the {ROLES[key]} is {self.chosen[key]!r} ({why})" for key, why in self.why.items()
        )
        flags = " and ".join(FLAGS[key] for key in self.why)
        unused = f"Not used: {', '.join(self.unused)}. " if self.unused else ""
        return (
            f"Fields: GUESSED from what they hold: {', '.join(found)}. {unused}If this is wrong, "
            f"use {flags}, or change the file."
        )


def found_fields(data: str, given: Mapping[str, Any], application: bool) -> FoundFields:
    """Fields with unusual names: a person at a terminal is asked, or no choice may be left."""
    rows = [with_chats(row) for row in source_rows(data, encoding=given.get("encoding"))]
    named = [given.get(key) for key in ("input_field", "label_field", "input_template")]
    try:
        usual = guess(([str(key) for key in row.fields] for row in rows), repr(data), *named)
    except NoUsualName as unknown:
        columns = columns_of([row.fields for row in rows])
        if HEADED.search(data) and any(map(_is_value, columns)):  # a first row is private
            raise  # it shows no name: what looks like names may be a row
        documents = given.get("model") is None and given.get("labels") is None
        return _choose(data, list(map(str, rows[0].fields)), columns, unknown, documents)
    held = {name: [row.fields.get(name) for row in rows] for name in DOCUMENTS}
    texts = (
        name for name, values in held.items()
        if all(isinstance(one, str) for one in values)
        and sum(_text(one) is not None for one in values) >= FILLED * len(rows)
    )  # fmt: skip
    document, stated = next(texts, None), named[0] or named[2]
    if not application or stated or usual.template not in QUESTIONS or document is None:
        return FoundFields()
    why = {"input_field": "what the questions are about"}
    return FoundFields({"input_field": document}, why, (usual.template[1:-1],))


def _choose(
    data: str, names: Sequence[str], columns: Sequence[_RowField], unknown: NoUsualName,
    documents: bool,
) -> FoundFields:  # fmt: skip
    """Which fields to read; of an application, rows may be documents that have no label."""
    known = _known(unknown)
    taken = [*SLOT.findall(unknown.template or ""), unknown.label]
    free = [column for column in columns if column.name not in taken]
    texts = text_columns(free)
    labels = _name_of([one for one in free if one.is_label], LABEL_FIELDS)
    may_be = {"input_field": texts} if unknown.template is None else {}
    may_be |= {"label_field": labels} if unknown.label is None else {}
    one_text = len(texts) == (1 if unknown.template is None else 0)
    others = [column for column in free if column not in texts]
    if documents and unknown.label is None and one_text and all(map(is_identifier, others)):
        may_be = {key: found for key, found in may_be.items() if key != "label_field"}
    if sys.stdin.isatty() and len(free) >= len(may_be):
        return FoundFields(known | _ask(data, free, may_be))
    if any(len(found) != 1 for found in may_be.values()):
        raise DataError(_unclear(data, names, may_be))
    only = {key: found[0] for key, found in may_be.items()}
    chosen = {key: column.name for key, column in only.items()}
    unused = tuple(name for name in names if name not in (*taken, *chosen.values()))
    return FoundFields(known | chosen, {key: _why(key, one) for key, one in only.items()}, unused)


def _known(unknown: NoUsualName) -> dict[str, str]:
    """The field that has a usual name, or that was given: a file names both or none."""
    known = {} if unknown.label is None else {"label_field": unknown.label}
    if unknown.template is not None:
        one = SLOT.fullmatch(unknown.template)
        known |= {"input_field": one[1]} if one else {"input_template": unknown.template}
    return known


def _why(key: str, column: _RowField) -> str:
    if key == "input_field":
        return f"the longest texts, {column.length:.0f} characters on average"
    return f"{column.distinct} short values that recur"


def _ask(
    data: str, free: Sequence[_RowField], may_be: Mapping[str, list[_RowField]]
) -> dict[str, str]:
    """What a person at a terminal answers; a guess is the default."""
    names = [column.name for column in free]
    click.echo(f"The fields of {data} have no usual names: {', '.join(names)}")
    chosen: dict[str, str] = {}
    for key, found in may_be.items():
        left = [name for name in names if name not in chosen.values()]
        default = found[0].name if len(found) == 1 else None
        chosen[key] = click.prompt(
            f"Field that holds the {ROLES[key]}",
            type=click.Choice(left),
            default=default,
            show_choices=False,
        )
    return chosen


def _unclear(data: str, names: Sequence[str], may_be: Mapping[str, list[_RowField]]) -> str:
    """Which fields there are, what speaks for which, and how to name them."""
    unclear = {key: found for key, found in may_be.items() if len(found) != 1}
    told = [
        f"the {ROLES[key]} may be {' or '.join(repr(one.name) for one in found)}"
        if found
        else NONE[key]
        for key, found in unclear.items()
    ]
    listed = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    return (
        f"{data!r} has the fields {listed}, and neither their names nor what they hold say which "
        f"is the {' and which the '.join(ROLES[key] for key in unclear)}: {', and '.join(told)}. "
        f"Name {'it' if len(unclear) == 1 else 'them'} with "
        f"{' and '.join(FLAGS[key] for key in unclear)}."
    )


COMMENTS = {
    "mechanism": "how answers are made from the context (leakbound list mechanisms)",
    "address": "the application that is audited",
    "model": "the model that is asked (leakbound list models)",
    "query": "what the attacker asks (leakbound list queries)",
    "channels": "parts of a reply, tested separately and together (docs/systems.md)",
    "data": "private rows",
    "labels": "public labels, taken from the rows: check that they are public",
    "pairs": "paired trials; more of them certify more",
    "shots": "examples in a context",
    "detect_change": "it must not pass: nothing shows that it answers usual questions. Name a "
    "question that it answers from its rows (query), and take this line out, or if it reads none",
    "epsilon": "YOUR CLAIM: what you say that one answer leaks at most",
    "delta": "of the claim",
    "base_url": "the server of the model; it gets prompts with private rows",
    "key_env": "environment variable that holds its key",
    "insecure": "prompts and key may go over plain http to another machine",
}
DESIGN = [
    "data", "encoding", "input_field", "input_template", "label_field", "drop_empty", "task",
    "labels", "pairs", "shots", "detect_change",
]  # fmt: skip
TODO = "YOUR SYSTEM: python:app.py:answer, http:FILE.yaml, or `model: openai/NAME` in its place"
GUESSED = "GUESSED ({}): change it if it is wrong"


def config_text(
    prepared: Prepared, kind: str | None, guessed: Mapping[str, str], endpoint: Mapping[str, Any]
) -> str:
    """The configuration, with a comment behind each key that a reader may want to change."""
    todo = {"address": TODO} if kind == "todo" else {}
    comments = COMMENTS | todo | {key: GUESSED.format(why) for key, why in guessed.items()}
    lines = [
        "# Written by `leakbound init`. Run it with: leakbound audit --config THIS_FILE",
        "# All keys: leakbound audit --help-all, docs/audit.md",
    ]
    for group, keys in kept_settings(prepared, kind, endpoint).items():
        lines.append(f"{group}:")
        for key, value in keys.items():
            text = yaml.safe_dump({key: value}, default_flow_style=True).strip()[1:-1]
            comment = f"  # {comments[key]}" if key in comments else ""
            unstated = key == "epsilon" and prepared.spec.claim_source == "default"
            lines.append(f"  {'# ' * unstated}{text}{comment}")
    return "\n".join(lines) + "\n"


def kept_settings(
    prepared: Prepared, kind: str | None, endpoint: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """The keys that a first audit is about."""
    nested = prepared.spec.nested()
    if kind == "todo":
        nested["system"]["address"] = "TODO"
    asks = ["mechanism", "model"] if kind is None else ["address"]
    wanted = {
        "system": asks,
        "attack": [
            "query",
            *(["canary"] if kind in ("labels", "text", "words", "same") else []),
            "channels",
        ],
        "design": DESIGN,
        "decision": ["epsilon", "delta"],
    }
    if nested["design"]["shots"] == Design.model_fields["shots"].default:
        del nested["design"]["shots"]
    if prepared.task.labels and not nested["design"].get("labels"):
        nested["design"]["labels"] = list(prepared.task.labels)
    groups = {
        group: {
            key: nested[group][key]
            for key in keys
            if nested[group].get(key) is not None and nested[group][key] is not False
        }
        for group, keys in wanted.items()
    }
    return groups | ({"endpoint": dict(endpoint)} if endpoint else {})
