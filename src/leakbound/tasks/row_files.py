"""Rows of JSON and CSV files, each read by itself.

No row decides how another one is read: there are no columns with a type here.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from leakbound._install import install_hint
from leakbound.errors import DataError

__all__ = [
    "FORMS", "HUB", "Fields", "SourceRow", "all_rows", "at_least_one", "csv_rows", "json_rows",
    "jsonl_rows", "missing_package", "numbered",
]  # fmt: skip

Fields = dict[str, object]
HUB = "hf:"
FORMS = (
    "a .jsonl, .csv or .parquet file with one example a row, a folder with one folder of images a "
    f"class, or {HUB}<id or folder of a Hugging Face dataset>"
)


class SourceRow(NamedTuple):
    """One row of a source.

    Attributes:
        place: Where it stands, for errors.
        fields: What it holds, by name (PRIVATE).
    """

    place: str
    fields: Fields


def all_rows(
    address: str, reader: Callable[[Path], Iterator[SourceRow]], file: Path
) -> list[SourceRow]:
    """All rows of a file.

    Args:
        address: The file, as the user named it.
        reader: Reads it.
        file: The file.

    Returns:
        At least one row (PRIVATE).

    Raises:
        DataError: If it is no UTF-8 text, cannot be read, or is empty.
    """
    try:
        rows = list(reader(file))
    except UnicodeDecodeError:
        raise DataError(f"the data file {address!r} is not UTF-8 text; save it as UTF-8.") from None
    except csv.Error as error:
        raise DataError(
            f"the data file {address!r} cannot be read as CSV ({error}); check its quotes."
        ) from None
    return at_least_one(address, rows)


def at_least_one(address: str, rows: list[SourceRow]) -> list[SourceRow]:
    """Refuse a source without rows.

    Args:
        address: The source.
        rows: Its rows (PRIVATE).

    Returns:
        The rows.

    Raises:
        DataError: If there is none.
    """
    if not rows:
        raise DataError(f"{address!r} holds no rows; it needs at least a few examples.")
    return rows


def missing_package(what: str, package: str) -> DataError:
    """The error where an optional package is not installed.

    Args:
        what: What needs it.
        package: Its name.

    Returns:
        An error that says how to install it.
    """
    return DataError(f"{what} need {package}; install it with: {install_hint('data')}.")


def jsonl_rows(file: Path) -> Iterator[SourceRow]:
    """Rows of a file with one JSON object a line.

    Args:
        file: The file.

    Yields:
        Rows (PRIVATE), values as JSON has them.

    Raises:
        DataError: If a line is no JSON object.
    """
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                place = f"line {number} of {str(file)!r}"
                yield SourceRow(place, _object(place, _decoded(place, line)))


def json_rows(file: Path, field: str | None = None) -> Iterator[SourceRow]:
    """Rows of a file that holds one list of JSON objects, or one object a line.

    Args:
        file: The file.
        field: Name of the field that holds the list; None where the file is the list.

    Yields:
        Rows (PRIVATE), values as JSON has them.

    Raises:
        DataError: If it holds anything else.
    """
    text = file.read_text(encoding="utf-8-sig").strip()
    if field is None and not text.startswith("["):
        yield from jsonl_rows(file)
        return
    found = _decoded(repr(str(file)), text)
    rows = found.get(field) if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise DataError(f"{str(file)!r} holds no list of rows; write one JSON object a line.")
    for number, row in enumerate(rows, 1):
        place = f"row {number} of {str(file)!r}"
        yield SourceRow(place, _object(place, row))


def _decoded(place: str, text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{place} is not JSON ({error.msg}); write one JSON object a line."
        ) from None
    except (ValueError, RecursionError):
        raise DataError(
            f"{place} holds a number of thousands of digits, or lists within lists beyond all "
            "bounds; write it as text."
        ) from None


def _object(place: str, row: object) -> Fields:
    if not isinstance(row, dict):
        raise DataError(
            f"{place} is a JSON {type(row).__name__}; it must be an object with named fields."
        )
    return row


def csv_rows(file: Path, separator: str = ",") -> Iterator[SourceRow]:
    """Rows of a CSV file whose first line names the fields.

    Args:
        file: The file.
        separator: What stands between two fields.

    Yields:
        Rows (PRIVATE); every value is the text that stands in the file.

    Raises:
        DataError: If a row has more fields than there are names.
        csv.Error: If a quote is not closed: the field would swallow the rows below.
    """
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, delimiter=separator, strict=True)
        for row in reader:
            place = f"line {reader.line_num} of {str(file)!r}"
            if None in row:
                raise DataError(
                    f"{place} has more fields than the first line names; put fields with commas "
                    "into quotes."
                )
            yield SourceRow(place, dict(row))


def numbered(where: str, rows: Sequence[Fields]) -> Iterator[SourceRow]:
    """Rows of a table, with their numbers as places.

    Args:
        where: The table.
        rows: What each row holds (PRIVATE).

    Yields:
        Rows (PRIVATE).
    """
    for number, row in enumerate(rows, 1):
        yield SourceRow(f"row {number} of {where!r}", row)
