"""Where rows come from: JSONL, CSV and Parquet files, folders of images, Hugging Face datasets.

Rows come out as plain fields with their places.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from logging import CRITICAL
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from leakbound._install import install_hint
from leakbound.errors import DataError
from leakbound.tasks.image_folders import folder_rows

__all__ = ["Fields", "SourceRow", "hub_rows", "source_rows"]

Fields = dict[str, object]
HUB = "hf:"
MEDIA = ("Image", "Audio", "Video", "Pdf")  # never decoded
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
    readers = {".jsonl": _jsonl, ".csv": _csv, ".parquet": _parquet}
    if file.is_dir():
        return _some(address, [SourceRow(*row) for row in folder_rows(file)])
    if not file.is_file():
        raise DataError(f"the data file {address!r} does not exist; give {FORMS}.")
    if file.suffix.lower() not in readers:
        raise DataError(f"the data file {address!r} ends in {file.suffix!r}; it must be {FORMS}.")
    return _all(address, readers[file.suffix.lower()], file)


def _all(
    address: str, reader: Callable[[Path], Iterator[SourceRow]], file: Path
) -> list[SourceRow]:
    try:
        rows = list(reader(file))
    except UnicodeDecodeError:
        raise DataError(f"the data file {address!r} is not UTF-8 text; save it as UTF-8.") from None
    except csv.Error as error:
        raise DataError(
            f"the data file {address!r} cannot be read as CSV ({error}); check its quotes."
        ) from None
    return _some(address, rows)


def _some(address: str, rows: list[SourceRow]) -> list[SourceRow]:
    if not rows:
        raise DataError(f"{address!r} holds no rows; it needs at least a few examples.")
    return rows


def _jsonl(file: Path) -> Iterator[SourceRow]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                place = f"line {number} of {str(file)!r}"
                yield SourceRow(place, _object(place, line))


def _object(place: str, line: str) -> Fields:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(
            f"{place} is not JSON ({error.msg}); write one JSON object a line."
        ) from None
    except (ValueError, RecursionError):
        raise DataError(
            f"{place} holds a number of thousands of digits, or lists within lists beyond all "
            "bounds; write it as text."
        ) from None
    if not isinstance(row, dict):
        raise DataError(
            f"{place} is a JSON {type(row).__name__}; it must be an object with named fields."
        )
    return row


def _csv(file: Path) -> Iterator[SourceRow]:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            place = f"line {reader.line_num} of {str(file)!r}"
            if None in row:
                raise DataError(
                    f"{place} has more fields than the first line names; put fields with commas "
                    "into quotes."
                )
            yield SourceRow(place, dict(row))


def _parquet(file: Path) -> Iterator[SourceRow]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise _missing("Parquet files", "pyarrow") from None
    try:
        rows = parquet.read_table(file).to_pylist()
    except (ArrowException, OSError) as error:
        reason = type(error).__name__
        raise DataError(
            f"the data file {str(file)!r} cannot be read as Parquet ({reason}); write it again."
        ) from None
    yield from _numbered(str(file), rows)


def _numbered(where: str, rows: Sequence[Fields]) -> Iterator[SourceRow]:
    for number, row in enumerate(rows, 1):
        yield SourceRow(f"row {number} of {where!r}", row)


def _missing(what: str, package: str) -> DataError:
    return DataError(f"{what} need {package}; install it with: {install_hint('data')}.")


def _parts(address: str) -> tuple[str, str | None]:
    """Folder or id, and the split behind the last colon. A folder's own name may hold colons."""
    rest = address.removeprefix(HUB)
    where, colon, split = rest.rpartition(":")
    if not rest:
        raise DataError(f"{address!r} names no dataset; it must be {HUB}<id or folder>[:split].")
    return (where, split) if colon and where and not Path(rest).exists() else (rest, None)


def hub_rows(where: str, config: str | None = None, split: str | None = None) -> list[SourceRow]:
    """The rows of a Hugging Face dataset.

    Nested fields stand under dotted names, and class numbers become class names.

    Args:
        where: A folder of `save_to_disk`, a folder of data files (neither touches the network), or
            the id of a dataset on the hub.
        config: Configuration of the dataset; None for its only one.
        split: None for the only one there is, else "train".

    Returns:
        At least one row (PRIVATE).

    Raises:
        DataError: If the package is not installed, or the dataset cannot be loaded.
    """
    try:
        import datasets
    except ImportError:
        raise _missing("Hugging Face datasets", "the package datasets") from None
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(CRITICAL)  # its messages may hold rows
    shown = f"{HUB}{where}"
    # in its own cache the library would keep a copy of private rows
    with tempfile.TemporaryDirectory() as scratch:
        table = _split(shown, _loaded(datasets, where, config, scratch), split).flatten()
        wanted = [
            name for name, feature in table.features.items() if type(feature).__name__ not in MEDIA
        ]
        rows = [
            {name: _named(table.features[name], row[name]) for name in wanted}
            for row in table.select_columns(wanted)
        ]
    return _some(shown, list(_numbered(shown, rows)))


def _loaded(datasets: ModuleType, where: str, config: str | None, scratch: str) -> Any:
    folder = Path(where)
    if where.startswith((".", "/", "~")) and not folder.is_dir():
        raise DataError(f"the dataset folder {where!r} does not exist; give {FORMS}.")
    try:
        if any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
            return datasets.load_from_disk(where)
        kept = {"cache_dir": scratch, "keep_in_memory": True} if folder.is_dir() else {}
        return datasets.load_dataset(where, config, **kept)
    except Exception as error:  # the library raises its own kinds, of many libraries below it
        raise DataError(
            f"the Hugging Face dataset {where!r} could not be loaded ({type(error).__name__}); "
            "give the id of a dataset on the hub, a folder saved with save_to_disk, or a folder of "
            ".parquet, .jsonl or .csv files."
        ) from None


def _split(shown: str, found: Any, split: str | None) -> Any:
    """One table: the split that was named, else the only one, else "train"."""
    splits = found if isinstance(found, dict) else {str(found.split): found}
    wanted = split or (next(iter(splits)) if len(splits) == 1 else "train")
    if wanted not in splits:
        raise DataError(
            f"{shown!r} has no split {wanted!r}; it has {', '.join(map(str, splits))}: write "
            f"{shown}:SPLIT."
        )
    return splits[wanted]


def _named(feature: Any, value: Any) -> Any:
    """A class number as its name (-1 says "no label" on the hub); anything else as it is."""
    if not hasattr(feature, "int2str"):
        return value
    return feature.int2str(value) if value is not None and value >= 0 else None
