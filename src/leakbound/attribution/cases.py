"""The contexts of an attribution, from a text, JSONL or CSV file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound.errors import DataError
from leakbound.utility.regurgitation import CONTEXTS, REFERENCES

__all__ = ["Case", "read_cases"]

QUERIES = ("query", "question")
NAMES = {"context": CONTEXTS, "query": QUERIES, "response": ("response",), "reference": REFERENCES}


@dataclass(frozen=True, slots=True, repr=False)
class Case:
    """A context (PRIVATE), a query about it, a response, or None to sample one, and a reference
    response, "" if there is none.
    """

    context: str
    query: str
    response: str | None = None
    reference: str = ""


def read_cases(file: Path, query: str = "", response: str | None = None) -> list[Case]:
    """One context from a text file, or one a row of a .jsonl or .csv file; `query` and `response`
    serve rows without their own.

    Columns are `context`, `query`, `response`, `reference`, or their usual other names, such as
    `document`, `question`, `summary`.
    Raises DataError with a sentence.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"the context {str(file)!r} cannot be read as UTF-8 text: {error}."
        ) from None
    if file.suffix not in (".jsonl", ".csv"):
        return [Case(text.strip("\n"), query, response)]
    rows = _objects(text) if file.suffix == ".jsonl" else _records(text)
    cases = [_case(file, number, row, query, response) for number, row in rows]
    if not cases:
        raise DataError(f"{str(file)!r} holds no row; it must hold at least one context.")
    return cases


def _objects(text: str) -> Iterable[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                yield number, None


def _records(text: str) -> Iterable[tuple[int, Any]]:
    csv.field_size_limit(1 << 27)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for row in reader:
        yield reader.line_num, {key: value for key, value in row.items() if value}


def _case(file: Path, number: int, row: Any, query: str, response: str | None) -> Case:
    found = (
        {name: _first(row, usual) for name, usual in NAMES.items()} if isinstance(row, dict) else {}
    )
    if found.get("context") is None or not all(
        isinstance(value, str | None) for value in found.values()
    ):
        raise DataError(
            f"line {number} of {str(file)!r} is not a context; it must have a text `context`, and "
            "if you like `query`, `response` "
            'and `reference`, such as {"context": "...", "query": "..."}.'
        )
    own = found["query"] if found["query"] is not None else query
    said = found["response"] if found["response"] is not None else response
    return Case(found["context"], own, said, found["reference"] or "")


def _first(row: dict[str, Any], usual: Sequence[str]) -> Any:
    return next((row[name] for name in usual if name in row), None)
