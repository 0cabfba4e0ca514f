"""The texts of records and outputs, as they stand in files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from leakbound.errors import DataError
from leakbound.tasks.sources import SourceRow, source_rows

USUAL = ("output", "answer", "response", "completion", "reply", "text")


def read_records(file: Path, fields: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """The texts of each row."""
    rows = source_rows(str(file))
    return [tuple(_texts_of(row, fields or tuple(row.fields))) for row in rows]


def read_outputs(file: Path, field: str | None = None) -> list[str]:
    """The outputs of an application."""
    rows = source_rows(str(file))
    name = field or _output_field(str(file), rows[0])
    return ["\n".join(map(_unescaped, _texts_of(row, (name,)))) for row in rows]


def _unescaped(text: str) -> str:
    """The texts in an output that is JSON, such as the arguments of a tool, without its escapes."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return text
    try:
        return "\n".join(_strings(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _output_field(file: str, first: SourceRow) -> str:
    known = [name for name in USUAL if name in first.fields] or list(first.fields)
    if len(known) == 1:
        return known[0]
    raise DataError(
        f"the rows of {file!r} have the fields {', '.join(map(repr, first.fields))}, and more than "
        "one may hold the outputs; name it with --output-field. It must not be the prompts: they "
        "hold the records that were used."
    )


def _texts_of(row: SourceRow, fields: Sequence[str]) -> Iterator[str]:
    for name in fields:
        if name not in row.fields:
            raise DataError(
                f"{row.place} has no field {name!r}; it has {', '.join(map(repr, row.fields))}."
            )
        yield from _strings(row.fields[name])


def _strings(value: object) -> Iterator[str]:
    """Texts and numbers, wherever they stand in a value."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, list | tuple | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
