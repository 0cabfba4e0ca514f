"""What all row files share: a row with its place, and the text of a file, whatever it is saved as.

No row decides how another one is read: there are no columns with a type here, and how a file is
read rests on its name and its first bytes.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from leakbound._install import install_hint
from leakbound.errors import DataError

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
GZIP, ZIP = b"\x1f\x8b", b"PK\x03\x04"


class SourceRow(NamedTuple):
    """One row of a source."""

    place: str
    fields: Fields


def all_rows(
    address: str,
    reader: Callable[[Path], Iterator[SourceRow]],
    file: Path,
    encoding: str | None = None,
) -> list[SourceRow]:
    """All rows of a file."""
    try:
        rows = list(reader(file))
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
    return at_least_one(address, rows)


def at_least_one(address: str, rows: list[SourceRow]) -> list[SourceRow]:
    """Refuse a source without rows."""
    if not rows:
        raise DataError(f"{address!r} holds no rows; it needs at least a few examples.")
    return rows


def missing_package(what: str, package: str) -> DataError:
    """The error where an optional package is not installed."""
    return DataError(f"{what} need {package}; install it with: {install_hint('data')}.")


def text_of(file: Path, encoding: str | None = None) -> str:
    """The text of a file, unpacked and without byte order marks."""
    content = file.read_bytes()
    if file.suffix.lower() == ".gz":
        content = _unpack(file, content)
    elif content.startswith((GZIP, ZIP)):
        raise DataError(_pack(file, content))
    marked = next((name for mark, name in ENCODINGS.items() if content.startswith(mark)), None)
    encoding = encoding or marked
    if encoding is None and b"\0" in content.partition(b"\n")[0]:
        raise DataError(
            f"the data file {str(file)!r} looks like UTF-16 without a byte order mark; save it as "
            "UTF-8."
        )
    return MARKS.sub("", content.decode(encoding or "utf-8"))


def _unpack(file: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        why = "it ends too early" if isinstance(error, EOFError) else "it is damaged, or not gzip"
        raise DataError(
            f"the data file {str(file)!r} cannot be unpacked: {why}. Pack it again with gzip."
        ) from None


def _pack(file: Path, content: bytes) -> str:
    if content.startswith(GZIP):
        return f"the data file {str(file)!r} is packed with gzip; let its name end in .gz."
    return (
        f"the data file {str(file)!r} is a ZIP archive or an Excel workbook; unpack it, or save "
        "the sheet as CSV (UTF-8)."
    )


def numbered(where: str, rows: Sequence[Fields]) -> Iterator[SourceRow]:
    """Rows of a table, with their numbers as places."""
    for number, row in enumerate(rows, 1):
        yield SourceRow(f"row {number} of {where!r}", row)
