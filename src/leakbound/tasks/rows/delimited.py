"""Rows of CSV files. Their first line alone, which names the fields, decides how they are read."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from leakbound.errors import DataError
from leakbound.tasks.rows.row_files import SourceRow, text_of

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
LONGEST_FIELD = 1 << 30  # characters; the file is in memory, so a limit protects nothing
LONGEST_NAME = 60  # characters; what is longer is a text, not the name of a field


def csv_rows(
    file: Path, encoding: str | None = None, delimiter: str | None = None
) -> Iterator[SourceRow]:
    """Rows of a CSV file whose first line names the fields."""
    lines = io.StringIO(text_of(file, encoding), newline="")
    head, above, named = _head(lines)
    if not head:
        return
    mark = delimiter or named or _delimiter(str(file), head)
    names = _names(str(file), head, mark)
    reader = csv.reader(lines, delimiter=mark, strict=True, skipinitialspace=f"{mark} " in head)
    with _long_fields():
        for cells in filter(None, reader):
            place = f"line {above + reader.line_num} of {str(file)!r}"
            _require_fit(place, names, cells, mark)
            pairs = zip_longest(names, cells[: len(names)])
            yield SourceRow(place, {name: cell for name, cell in pairs if name})


@contextmanager
def _long_fields() -> Iterator[None]:
    """Documents are longer than the fields that the csv module takes by itself (128 kB)."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _head(lines: io.StringIO) -> tuple[str, int, str | None]:
    """The first line with text, how many lines are read, and the delimiter that a line `sep=;`
    above it names, as Excel writes and reads it.
    """
    named = None
    for number, line in enumerate(iter(lines.readline, ""), 1):
        text = line.rstrip("\r\n")
        if text.lower().startswith("sep=") and len(text) == len("sep=") + 1:
            named = text[-1]
        elif text.strip():
            return text, number, named
    return "", 0, None


def _cells(head: str, mark: str) -> list[str]:
    return next(csv.reader([head], delimiter=mark, strict=True, skipinitialspace=True))


def _width(head: str, mark: str) -> int:
    try:
        return len(_cells(head, mark))
    except csv.Error:
        return 0


def _delimiter(file: str, head: str) -> str:
    """A tab where there is one, else what makes most fields of the first line."""
    widths = {mark: _width(head, mark) for mark in DELIMITERS.values()}
    most = max(widths.values())
    if widths["\t"] > 1:
        return "\t"
    found = [name for name, mark in DELIMITERS.items() if widths[mark] == most]
    if most > 1 and len(found) > 1:
        raise DataError(
            f"the first line of {file!r} reads as {most} fields with each of {', '.join(found)}; "
            f"say what stands between two fields with --delimiter {found[0]}. It must name the "
            "fields, such as text,label."
        )
    return DELIMITERS[found[0]] if most > 1 else ","


def _names(file: str, head: str, mark: str) -> Sequence[str]:
    try:
        names = [name.strip() for name in _cells(head, mark)]
    except csv.Error:
        raise DataError(
            f"the first line of {file!r} has a quote that is not closed; it must name the fields, "
            "all in one line. Check its quotes."
        ) from None
    counts = Counter(filter(None, names))
    twice = [at for at, name in enumerate(names, 1) if counts[name] > 1]
    if any(len(name) > LONGEST_NAME for name in names):
        raise DataError(
            f"the first line of {file!r} is not a list of names: one is longer than {LONGEST_NAME} "
            "characters. It must name the fields, such as text,label; put such a line on top."
        )
    if twice:
        raise DataError(
            f"the first line of {file!r} gives several columns one name ({_places(twice)}); rename "
            "or remove all but one. If the line is a row, put one above it that names the fields, "
            "such as text,label."
        )
    return names


def _places(columns: Sequence[int]) -> str:
    return f"column {' and '.join(map(str, columns[:2]))}{' and more' * (len(columns) > 2)}"


def _require_fit(place: str, names: Sequence[str], cells: Sequence[str], mark: str) -> None:
    if any(cell.strip() for cell in cells[len(names) :]):
        what = next((f"{name}s" for name, one in DELIMITERS.items() if one == mark), repr(mark))
        raise DataError(
            f"{place} has more fields than the first line names; put fields with {what} into "
            "quotes."
        )
    if [cell.strip() for cell in cells] == names:
        raise DataError(
            f"{place} names the fields once more, as the first line does; leave it out."
        )
