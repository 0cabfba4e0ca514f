"""Rows of JSON files: an object per line, a list of objects, or an object that holds a list."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

from leakbound.errors import DataError
from leakbound.tasks.rows.row_files import Fields, SourceRow, text_of

LISTS = ("data", "rows", "examples", "records", "items")  # usual names of the list of an object
KINDS = {str: "a text", list: "a list", type(None): "null", bool: "true or false"}  # of JSON
IN_JSON = "A list of objects belongs in a .json file."


class _Twice(Exception):
    """An object has two fields of one name."""


def jsonl_rows(file: Path, encoding: str | None = None) -> Iterator[SourceRow]:
    """Rows of a file with one JSON object per line."""
    yield from _lines(file, text_of(file, encoding))


def _lines(file: Path, text: str) -> Iterator[SourceRow]:
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if line.strip():
            place = f"line {number} of {str(file)!r}"
            yield SourceRow(place, _object(place, _decode(place, line)))


def json_rows(
    file: Path, encoding: str | None = None, field: str | None = None
) -> Iterator[SourceRow]:
    """Rows of a file that holds one list of JSON objects, or one object per line."""
    whole = text_of(file, encoding)
    text = whole.strip()
    if field is None and not text.startswith("[") and not _one_object(text):
        yield from _lines(file, whole)
        return
    found = _decode(repr(str(file)), text)
    rows = _list_all(file, found, field) if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise DataError(f"{str(file)!r} holds no list of rows; write one JSON object per line.")
    for number, row in enumerate(rows, 1):
        place = f"row {number} of {str(file)!r}"
        yield SourceRow(place, _object(place, row))


def _one_object(text: str) -> bool:
    """Is the text one object, not several behind each other?"""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False  # the line that is broken has a sentence
    return text.startswith("{") and not text[end:].strip()


def _list_all(file: Path, found: Fields, field: str | None) -> object:
    """The list of rows that an object holds."""
    lists = [name for name in LISTS if isinstance(found.get(name), list)]
    if field is not None:
        return found.get(field)
    if len(lists) > 1:
        raise DataError(
            f"{str(file)!r} holds the lists {' and '.join(lists)}; write the one that is meant as "
            "a file of its own."
        )
    if found and all(isinstance(column, dict) for column in found.values()):
        raise DataError(
            f"{str(file)!r} holds columns, not rows; write a list of objects (with pandas: "
            "to_json(orient='records'))."
        )
    return found[lists[0]] if lists else [found]


def _decode(place: str, text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except _Twice:
        raise DataError(f"{place} has two fields of one name; rename one of them.") from None
    except json.JSONDecodeError as error:
        whole = " of " not in place  # the whole file, not one line of it
        hint = (
            "check how it ends, and write it again"
            if whole
            else IN_JSON[0].lower() + IN_JSON[1:-1]
            if text.lstrip().startswith("[")
            else "write one JSON object per line"
        )
        raise DataError(
            f"{place} is not JSON ({error.msg.removesuffix(' starting at')}); {hint}."
        ) from None
    except (ValueError, RecursionError):
        raise DataError(
            f"{place} holds a number of thousands of digits, or lists within lists beyond all "
            "bounds; write it as text."
        ) from None


def _once(pairs: list[tuple[str, object]]) -> Fields:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Twice
    return fields


def _object(place: str, row: object) -> Fields:
    if not isinstance(row, dict):
        raise DataError(
            f"{place} is {KINDS.get(type(row), 'a number')}; it must be an object with named "
            f"fields.{' ' + IN_JSON if isinstance(row, list) else ''}"
        )
    return row
