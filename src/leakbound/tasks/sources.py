"""Where rows come from: JSONL, CSV and Parquet files, folders of images, Hugging Face datasets.

Rows come out as plain fields with their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leakbound.errors import DataError
from leakbound.tasks.hub import hub_rows
from leakbound.tasks.image_folders import folder_rows
from leakbound.tasks.row_files import (
    FORMS,
    HUB,
    Fields,
    SourceRow,
    all_rows,
    at_least_one,
    csv_rows,
    jsonl_rows,
    missing_package,
    numbered,
)

__all__ = ["Fields", "SourceRow", "hub_rows", "source_rows"]


def source_rows(address: str) -> list[SourceRow]:
    """All rows of a source.

    Args:
        address: Path of a file or a folder of images, or `hf:<id or folder>[:split]`.

    Returns:
        At least one row (PRIVATE).

    Raises:
        DataError: With a sentence for whatever is wrong.
    """
    if address.startswith(HUB):
        where, split = _parts(address)
        return hub_rows(where, split=split)
    file = Path(address)
    readers = {".jsonl": jsonl_rows, ".csv": csv_rows, ".parquet": _parquet}
    if file.is_dir():
        return at_least_one(address, [SourceRow(*row) for row in folder_rows(file)])
    if not file.is_file():
        raise DataError(f"the data file {address!r} does not exist; give {FORMS}.")
    if file.suffix.lower() not in readers:
        raise DataError(f"the data file {address!r} ends in {file.suffix!r}; it must be {FORMS}.")
    return all_rows(address, readers[file.suffix.lower()], file)


def _parquet(file: Path) -> Iterator[SourceRow]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise missing_package("Parquet files", "pyarrow") from None
    try:
        rows = parquet.read_table(file).to_pylist()
    except (ArrowException, OSError) as error:
        reason = type(error).__name__
        raise DataError(
            f"the data file {str(file)!r} cannot be read as Parquet ({reason}); write it again."
        ) from None
    yield from numbered(str(file), rows)


def _parts(address: str) -> tuple[str, str | None]:
    """Folder or id, and the split behind the last colon. A folder's own name may hold colons."""
    rest = address.removeprefix(HUB)
    where, colon, split = rest.rpartition(":")
    if not rest:
        raise DataError(f"{address!r} names no dataset; it must be {HUB}<id or folder>[:split].")
    return (where, split) if colon and where and not Path(rest).exists() else (rest, None)
