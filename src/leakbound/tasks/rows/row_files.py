"""Rows of JSON and CSV files, with their places, whatever the text of a file is saved as.

No row decides how another one is read: there are no columns with a type here, and how a file is
read rests on its name and its first bytes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from leakbound._install import install_hint
from leakbound.errors import DataError, UsageError

Fields = dict[str, object]
HUB = "hf:"
FORMS = (
    "a .jsonl, .json, .csv, .tsv or .parquet file with one example per row (all but .parquet also "
    f"as .gz), a folder with one folder of images per class, or {HUB}<id or folder of a Hugging "
    "Face dataset>"
)
ENCODINGS = {  # the longer marks first: that of UTF-32 begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
MARKS = re.compile("(?:^|(?<=[\r\n]))\ufeff+")  # files that were joined have one in the middle
MOST_UNPACKED = 1 << 29  # bytes of a packed file; a few MB may unpack to all memory
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"


class SourceRow(NamedTuple):
    place: str
    fields: Fields


# Rows that may be read anew each time: a million of them need not be in memory together.
SourceRows: TypeAlias = Iterable[SourceRow]


def all_rows(
    address: str,
    reader: Callable[[Path], Iterator[SourceRow]],
    file: Path,
    encoding: str | None = None,
) -> Iterator[SourceRow]:
    try:
        yield from at_least_one(address, reader(file))
    except UnicodeDecodeError:
        what = "UTF-8 text, nor UTF-16 with a byte order mark; if it was saved on Windows, read it "
        what += "with --encoding cp1252"
        named = f"{encoding} text; name its own encoding with --encoding"
        raise DataError(
            f"the data file {address!r} is not {named if encoding else what}, or save it as UTF-8 "
            "(in Excel: 'CSV UTF-8')."
        ) from None
    except csv.Error as error:
        raise DataError(
            f"the data file {address!r} cannot be read as CSV ({error}); check its quotes."
        ) from None
    except OSError as error:
        raise DataError(f"the data file {address!r} cannot be read ({error.strerror}).") from None


def at_least_one(address: str, rows: Iterable[SourceRow]) -> Iterator[SourceRow]:
    row = None
    for row in rows:
        yield row
    if row is None:
        raise DataError(f"{address!r} holds no rows; it needs at least a few examples.")


def package_error(what: str, package: str) -> DataError:
    return DataError(f"{what} need {package}; install it with: {install_hint('data')}.")


def _text_of(file: Path, encoding: str | None = None) -> str:
    """The text of a file, unpacked and without byte order marks."""
    with _open(file, encoding) as (content, named):
        return MARKS.sub("", content.read().decode(named))


@contextmanager
def _open(file: Path, encoding: str | None) -> Iterator[tuple[BinaryIO, str]]:
    packed = file.suffix.lower() == ".gz"
    with io.BytesIO(_unpack(file, file.read_bytes())) if packed else file.open("rb") as content:
        first = content.readline()
        if not packed and first.startswith(GZIP):
            raise DataError(
                f"the data file {str(file)!r} is packed with gzip; let its name end in .gz."
            )
        if not packed and first.startswith(ZIP):
            raise DataError(
                f"the data file {str(file)!r} is a ZIP archive or an Excel workbook; unpack it, or "
                "save the sheet as CSV (UTF-8)."
            )
        marked = next((name for mark, name in ENCODINGS.items() if first.startswith(mark)), None)
        if encoding is None and marked is None and b"\0" in first:
            raise DataError(
                f"the data file {str(file)!r} looks like UTF-16 without a byte order mark; save it "
                "as UTF-8."
            )
        content.seek(0)
        yield content, known_encoding(encoding or marked or "utf-8")


def known_encoding(name: str) -> str:
    try:
        "a".encode(name)
    except (LookupError, ValueError):
        raise UsageError(f"encoding is {name!r}; it must be one such as cp1252.") from None
    return name


def _unpack(file: Path, content: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            unpacked = packed.read(MOST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        why = "it ends too early" if isinstance(error, EOFError) else "it is damaged, or not gzip"
        raise DataError(
            f"the data file {str(file)!r} cannot be unpacked: {why}. Pack it again with gzip."
        ) from None
    require_small(file, len(unpacked))
    return unpacked


def require_small(file: Path, size: int) -> None:
    if size > MOST_UNPACKED:
        raise DataError(
            f"the data file {str(file)!r} unpacks to more than {MOST_UNPACKED >> 20} MB; unpack it "
            "yourself, or keep fewer rows."
        )


def number_rows(where: str, rows: Sequence[Fields]) -> Iterator[SourceRow]:
    for number, row in enumerate(rows, 1):
        yield SourceRow(f"row {number} of {where!r}", row)


LISTS = ("data", "rows", "examples", "records", "items")  # usual names of the list of an object
KINDS = {str: "a text", list: "a list", type(None): "null", bool: "true or false"}  # of JSON
IN_JSON = "A list of objects belongs in a .json file."


class _Twice(Exception):
    """An object has two fields of one name."""


def jsonl_rows(file: Path, encoding: str | None = None) -> Iterator[SourceRow]:
    with _open(file, encoding) as (content, named), io.TextIOWrapper(content, named) as lines:
        yield from _lines(file, lines)


def _lines(file: Path, text: Iterable[str]) -> Iterator[SourceRow]:
    where = repr(str(file))
    for number, line in enumerate(text, 1):
        if line := line.lstrip("\ufeff").strip():
            place = f"line {number} of {where}"
            yield SourceRow(place, _object(place, _decode(place, line)))


def json_rows(
    file: Path, encoding: str | None = None, field: str | None = None
) -> Iterator[SourceRow]:
    """Rows of a file that holds one list of JSON objects, or one object per line."""
    whole = _text_of(file, encoding)
    text = whole.strip()
    if field is None and not text.startswith("[") and not _one_object(text):
        yield from _lines(file, io.StringIO(whole, newline=None))
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
        return _JSON.decode(text)
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


_JSON = json.JSONDecoder(object_pairs_hook=_once)


def _object(place: str, row: object) -> Fields:
    if not isinstance(row, dict):
        raise DataError(
            f"{place} is {KINDS.get(type(row), 'a number')}; it must be an object with named "
            f"fields.{' ' + IN_JSON if isinstance(row, list) else ''}"
        )
    return row


# The first line of a CSV file alone, which names the fields, decides how the file is read.
DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
LONGEST_FIELD = 1 << 30  # characters; the file is in memory, so a limit protects nothing
LONGEST_NAME = 60  # characters; what is longer is a text, not the name of a field


def csv_rows(
    file: Path, encoding: str | None = None, delimiter: str | None = None
) -> Iterator[SourceRow]:
    """Rows of a CSV file whose first line names the fields."""
    lines = io.StringIO(_text_of(file, encoding), newline="")
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
    """The first line with text, how many lines are read, and the delimiter of a `sep=` line."""
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
        places = f"column {' and '.join(map(str, twice[:2]))}{' and more' * (len(twice) > 2)}"
        raise DataError(
            f"the first line of {file!r} gives several columns one name ({places}); rename "
            "or remove all but one. If the line is a row, put one above it that names the fields, "
            "such as text,label."
        )
    return names


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
