"""Where rows come from: JSON, CSV and Parquet files, folders of images, Hugging Face datasets.

Rows come out as plain fields with their places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from leakbound.errors import DataError, findable, why_no_file
from leakbound.tasks.delimited import csv_rows
from leakbound.tasks.hub import hub_rows
from leakbound.tasks.image_folders import folder_rows
from leakbound.tasks.json_files import json_rows, jsonl_rows
from leakbound.tasks.row_files import (
    FORMS,
    HUB,
    Fields,
    SourceRow,
    all_rows,
    at_least_one,
    missing_package,
    numbered,
)

__all__ = ["Fields", "SourceRow", "hub_rows", "source_rows"]

Reader = Callable[[Path], Iterator[SourceRow]]
JSON = {".jsonl": jsonl_rows, ".ndjson": jsonl_rows, ".json": json_rows}
TABLES = (".csv", ".tsv")
WORKBOOKS = (".xlsx", ".xls", ".ods")


def source_rows(
    address: str, delimiter: str | None = None, encoding: str | None = None
) -> list[SourceRow]:
    if address.startswith(HUB):
        where, split = _parts(address)
        return hub_rows(where, split=split)
    file = findable(address)
    if file.is_dir():
        return at_least_one(address, [SourceRow(*row) for row in folder_rows(file)])
    if "://" in address:
        raise DataError(f"the data {address!r} is on another machine; fetch it, and give {FORMS}.")
    if not file.is_file():
        raise DataError(f"the data file {address!r} {why_no_file(file)}; give {FORMS}.")
    return all_rows(address, _reader(address, file, delimiter, encoding), file, encoding)


def _reader(address: str, file: Path, delimiter: str | None, encoding: str | None) -> Reader:
    """What reads files of this name."""
    packed = file.suffix.lower() == ".gz"
    ending = (Path(file.stem) if packed else file).suffix.lower()
    if ending in TABLES:
        return partial(csv_rows, encoding=encoding, delimiter=delimiter)
    if delimiter is not None:
        raise DataError(
            f"the data file {address!r} is no CSV file, so no delimiter separates its fields; "
            "leave --delimiter out."
        )
    if ending in JSON:
        return partial(JSON[ending], encoding=encoding)
    if ending == ".parquet" and not packed:
        return _parquet
    hint = " Save the sheet as CSV (UTF-8)." if ending in WORKBOOKS else ""
    shown = "".join(file.suffixes[-2:]) if packed else file.suffix
    raise DataError(f"the data file {address!r} ends in {shown!r}; it must be {FORMS}.{hint}")


def _parquet(file: Path) -> Iterator[SourceRow]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise missing_package("Parquet files", "pyarrow") from None
    try:
        rows = parquet.read_table(file).to_pylist()
    except (ArrowException, OSError):  # its text may hold values of rows
        raise DataError(
            f"the data file {str(file)!r} cannot be read as Parquet; it is damaged or of another "
            "form. Write it again."
        ) from None
    yield from numbered(str(file), rows)


def _parts(address: str) -> tuple[str, str | None]:
    """Folder or id, and the split behind the last colon. A folder's own name may hold colons."""
    rest = address.removeprefix(HUB)
    where, colon, split = rest.rpartition(":")
    if not rest:
        raise DataError(f"{address!r} names no dataset; it must be {HUB}<id or folder>[:split].")
    return (where, split) if colon and where and not Path(rest).exists() else (rest, None)
