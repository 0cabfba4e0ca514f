"""The contexts of an attribution, from a text, JSONL or CSV file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import DataError
from leakbound.utility.regurgitation import CONTEXTS, REFERENCES

__all__ = ["Case", "read_cases"]

QUERIES = ("query", "question")
NAMES = {"context": CONTEXTS, "query": QUERIES, "response": ("response",), "reference": REFERENCES}
LONGEST_FIELD = 1 << 27  # characters of a CSV field: longer than any context, and fits any memory


@dataclass(frozen=True, slots=True, repr=False)
class Case:
    """A context with what is asked about it.

    Attributes:
        context: The text that the model is shown (PRIVATE).
        query: The query about it.
        response: The response to attribute; None: one is sampled.
        reference: A reference response; "" if there is none.
    """

    context: str
    query: str
    response: str | None = None
    reference: str = ""


def read_cases(file: Path, query: str = "", response: str | None = None) -> list[Case]:
    """Cases of a file: one from a text file, one a row from a .jsonl or .csv file.

    Columns are `context`, `query`, `response`, `reference`, or their usual other names, such as
    `document`, `question`, `summary`.

    Args:
        file: Path of a UTF-8 file.
        query: Serves rows without their own.
        response: Serves rows without their own; None to sample one.

    Returns:
        At least one case.

    Raises:
        DataError: If the file cannot be read, or a row is no context.
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


def _objects(text: str) -> Iterable[tuple[int, object]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError:
                yield number, None


def _records(text: str) -> Iterable[tuple[int, object]]:
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for row in reader:
        yield reader.line_num, {key: value for key, value in row.items() if value}


def _case(file: Path, number: int, row: object, query: str, response: str | None) -> Case:
    found = {name: _first(row, usual) for name, usual in NAMES.items()}
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    if "context" not in texts or any(
        found[name] is not None for name in found if name not in texts
    ):
        raise DataError(
            f"line {number} of {str(file)!r} is not a context; it must have a text `context`, and "
            "if you like `query`, `response` and `reference`, such as "
            '{"context": "...", "query": "..."}.'
        )
    return Case(
        texts["context"],
        texts.get("query", query),
        texts.get("response", response),
        texts.get("reference", ""),
    )


def _first(row: object, usual: Sequence[str]) -> object:
    """The first field with a usual name; None if there is none."""
    if not isinstance(row, Mapping):
        return None
    return next((row[name] for name in usual if name in row), None)
