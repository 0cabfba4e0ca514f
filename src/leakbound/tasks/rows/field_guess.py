"""Which field holds the input and which one the label, guessed from what the fields hold.

Only for a person who checks the guess: rows decide it, so no audit and no private answer uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from leakbound.tasks.rows.fields import INPUT_FIELDS, LABEL_FIELDS
from leakbound.tasks.rows.row_files import Fields

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
class RowField:
    """What one field holds in all rows."""

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


def columns_of(rows: Sequence[Fields]) -> list[RowField]:
    """The fields that hold a text or a number in nearly every row."""
    found = ((name, [_text(row.get(name)) for row in rows]) for name in rows[0])
    whole = ((str(name), tuple(text for text in texts if text)) for name, texts in found)
    return [RowField(name, texts) for name, texts in whole if len(texts) >= FILLED * len(rows)]


def _text(value: object) -> str | None:
    """What a field holds, as the reader of examples takes it; None for nothing."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = "\n".join(value)
    plain = isinstance(value, str | int | float) and value == value  # NaN is what is missing
    return str(value).strip() or None if plain else None


def text_columns(columns: Iterable[RowField]) -> list[RowField]:
    """The columns that may be the input."""
    found = sorted((one for one in columns if one.is_text), key=lambda one: -one.length)
    return _name_of([one for one in found if one.length >= CLEAR * found[0].length], INPUT_FIELDS)


def label_columns(columns: Iterable[RowField]) -> list[RowField]:
    """The columns that may be the label."""
    return _name_of([one for one in columns if one.is_label], LABEL_FIELDS)


def is_identifier(column: RowField) -> bool:
    """Whether it holds a different word or number in each row, and so is neither text nor label."""
    plain = not any(" " in value for value in column.values)
    return plain and column.distinct == len(column.values)


def _name_of(columns: list[RowField], usual: Sequence[str]) -> list[RowField]:
    """The columns with a usual word in their names, if there are any."""
    found = [one for one in columns if {word.lower() for word in WORD.findall(one.name)} & {*usual}]
    return found or columns


def looks_like_row(columns: Iterable[RowField]) -> bool:
    """Whether what should be names of fields may be a first row, which is private."""
    return any(map(_is_value, columns))


def _is_value(column: RowField) -> bool:
    name, words = column.name.strip(), column.name.split()
    if not LETTER.search(name) or name.endswith(ENDS) or name in column.values:
        return True
    if len(name) > LONGEST_NAME or len(words) > WORDS_OF_NAME:
        return True
    return len(words) > 1 and column.is_text and len(name) >= median(map(len, column.values)) / 2
