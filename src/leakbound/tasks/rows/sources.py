"""Where rows come from: JSON, CSV and Parquet files, folders of images, Hugging Face datasets.

Rows come out as plain fields with their places.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from logging import CRITICAL
from pathlib import Path
from types import ModuleType
from typing import Any

from leakbound.errors import DataError, LeakboundError, findable, why_no_file
from leakbound.models.address import hub_host, is_reachable
from leakbound.tasks.images import SUFFIXES
from leakbound.tasks.rows.row_files import (
    FORMS,
    HUB,
    Fields,
    SourceRow,
    SourceRows,
    all_rows,
    at_least_one,
    csv_rows,
    json_rows,
    jsonl_rows,
    number_rows,
    package_error,
    require_small,
)


def folder_rows(folder: Path) -> list[SourceRow]:
    """The files of a folder of images; hidden files are left out."""
    classes = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not classes:
        raise DataError(
            f"the data folder {str(folder)!r} holds no folders; it must hold one folder of images "
            "per class (for a folder of a Hugging Face dataset, write hf: before it)."
        )
    return [row for label in classes for row in _rows_of_images(folder, label)]


def _rows_of_images(folder: Path, label: Path) -> list[SourceRow]:
    files = sorted(p for p in label.iterdir() if not p.name.startswith("."))
    strange = next((p for p in files if p.suffix.lower() not in SUFFIXES), None)
    if strange is not None:
        raise DataError(
            f"the class folder {str(label)!r} holds {strange.name!r}, which is not an image by its "
            f"name; take it out (images end in {', '.join(SUFFIXES)})."
        )
    return [
        SourceRow(repr(str(p)), {"image": str(p.relative_to(folder)), "label": label.name})
        for p in files
    ]


MEDIA = ("Image", "Audio", "Video", "Pdf")  # never decoded
TYPED = ("arrow", "parquet", "text")  # kinds of files that declare the types of their columns


def hub_rows(where: str, config: str | None = None, split: str | None = None) -> list[SourceRow]:
    """The rows of a Hugging Face dataset, with dotted names and the names of classes."""
    try:
        import datasets
    except ImportError:
        raise package_error("Hugging Face datasets", "the package datasets") from None
    datasets.disable_progress_bars()
    datasets.utils.logging.set_verbosity(CRITICAL)  # its messages may hold rows
    known = Path(where).is_dir() or is_reachable()
    # in its own cache the library would keep a copy of private rows
    with tempfile.TemporaryDirectory() as scratch, _hub_access(datasets, known):
        try:
            return _rows(datasets, where, config, split, scratch)
        except LeakboundError:
            raise
        except Exception as error:  # the library raises its own kinds, of many libraries below it
            raise DataError(
                f"the Hugging Face dataset {where!r} {_why(error, known)}; give the id of a "
                "dataset on the hub, a folder saved with save_to_disk, or a folder of .parquet, "
                ".jsonl or .csv files."
            ) from None


def _why(error: Exception, known: bool) -> str:
    if known:
        return f"could not be loaded ({type(error).__name__})"
    return f"is neither a folder nor in the cache, and {hub_host()} cannot be reached from here"


@contextmanager
def _hub_access(datasets: ModuleType, hub: bool) -> Iterator[None]:
    """Within, the library asks the hub, or its cache alone: it would try for half a minute."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = not hub or any(before)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


def _rows(
    datasets: ModuleType, where: str, config: str | None, split: str | None, scratch: str
) -> list[SourceRow]:
    folder, shown = Path(where), f"{HUB}{where}"
    if where.startswith((".", "/", "~")) and not folder.is_dir():
        raise DataError(f"the dataset folder {where!r} does not exist; give {FORMS}.")
    if any((folder / name).is_file() for name in ("dataset_dict.json", "state.json")):
        return _table_rows(shown, datasets.load_from_disk(where), split)
    cache = {"cache_dir": scratch} if folder.is_dir() else {}
    builder = datasets.load_dataset_builder(where, config, **cache)
    if builder.name in TYPED:
        kept = {**cache, "keep_in_memory": True} if cache else {}
        return _table_rows(shown, datasets.load_dataset(where, config, **kept), split)
    if builder.name not in ("csv", "json"):
        raise DataError(
            f"{shown!r} holds {builder.name} files, whose columns have no declared types; it must "
            "hold .parquet, .jsonl or .csv files. Write the rows in one of these forms."
        )
    return _text_rows(datasets, shown, builder, split, cache)


def _split(shown: str, found: Any, split: str | None) -> Any:
    """One of several splits: the one that was named, else the only one, else "train"."""
    splits = {str(name): one for name, one in found.items()}
    wanted = split or (next(iter(splits)) if len(splits) == 1 else "train")
    if wanted not in splits:
        raise DataError(
            f"{shown!r} has no split {wanted!r}; it has {', '.join(splits)}: write {shown}:SPLIT."
        )
    return splits[wanted]


def _table_rows(shown: str, found: Any, split: str | None) -> list[SourceRow]:
    """Rows of tables whose columns have declared types."""
    splits = found if isinstance(found, dict) else {str(found.split): found}
    table = _split(shown, splits, split).flatten()
    wanted = [
        name for name, feature in table.features.items() if type(feature).__name__ not in MEDIA
    ]
    rows = [
        {name: _name_of(table.features[name], row[name]) for name in wanted}
        for row in table.select_columns(wanted)
    ]
    return [*at_least_one(shown, number_rows(shown, rows))]


def _text_rows(
    datasets: ModuleType, shown: str, builder: Any, split: str | None, cache: dict[str, str]
) -> list[SourceRow]:
    """Rows of CSV and JSON files, each as it stands there."""
    files = [str(file) for file in _split(shown, builder.config.data_files, split)]
    loader = datasets.DownloadManager(download_config=datasets.DownloadConfig(**cache))
    copies = [  # what is packed here is unpacked in memory, up to a ceiling
        one if one.endswith(".gz") and Path(one).is_file() else loader.download_and_extract(one)
        for one in files
    ]
    options, named = builder.config, builder.info.features or {}

    def reader(file: Path) -> Iterator[SourceRow]:
        if builder.name == "csv":
            return csv_rows(file, delimiter=None if options.sep == "," else options.sep)
        return json_rows(file, field=options.field)

    return [
        SourceRow(row.place.replace(copy, file), _flat(row.fields, named))
        for file, copy in zip(files, copies, strict=True)
        for row in all_rows(shown, reader, Path(copy))
    ]


def _flat(fields: Fields, features: Any, above: str = "") -> Fields:
    """Fields of fields under dotted names, and class numbers by their names."""
    found: Fields = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            found |= _flat(value, {}, f"{above}{name}.")
        else:
            found[above + name] = _name_of(features.get(name), value)
    return found


def _name_of(feature: Any, value: Any) -> Any:
    """A class number as its name (-1 says "no label" on the hub); anything else as it is."""
    if not hasattr(feature, "int2str") or value is None:
        return value
    if not str(value).removeprefix("-").isdecimal():
        return value  # a name
    return feature.int2str(int(value)) if int(value) >= 0 else None


__all__ = ["Fields", "SourceRow", "SourceRows", "hub_rows", "source_rows"]

Reader = Callable[[Path], Iterator[SourceRow]]
ROWS_AT_ONCE = 64  # of a table, so that few of them are in memory beside those that are counted
JSON = {".jsonl": jsonl_rows, ".ndjson": jsonl_rows, ".json": json_rows}
TABLES = (".csv", ".tsv")
WORKBOOKS = (".xlsx", ".xls", ".ods")


@dataclass(frozen=True, slots=True)
class _OfFile:
    address: str
    reader: Reader
    file: Path
    encoding: str | None

    def __iter__(self) -> Iterator[SourceRow]:
        return all_rows(self.address, self.reader, self.file, self.encoding)


def source_rows(
    address: str, delimiter: str | None = None, encoding: str | None = None
) -> SourceRows:
    if address.startswith(HUB):
        where, split = _parts(address)
        return hub_rows(where, split=split)
    file = findable(address)
    if file.is_dir():
        return [*at_least_one(address, folder_rows(file))]
    if "://" in address:
        raise DataError(f"the data {address!r} is on another machine; fetch it, and give {FORMS}.")
    if not file.is_file():
        raise DataError(f"the data file {address!r} {why_no_file(file)}; give {FORMS}.")
    return _OfFile(address, _reader(address, file, delimiter, encoding), file, encoding)


def _reader(address: str, file: Path, delimiter: str | None, encoding: str | None) -> Reader:
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
    hint = " A configuration is read with --config." if ending in (".yaml", ".yml") else hint
    shown = "".join(file.suffixes[-2:]) if packed else file.suffix
    raise DataError(f"the data file {address!r} ends in {shown!r}; it must be {FORMS}.{hint}")


def _parquet(file: Path) -> Iterator[SourceRow]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise package_error("Parquet files", "pyarrow") from None
    size, number = 0, 0
    try:
        with parquet.ParquetFile(file) as packed:
            groups = range(packed.metadata.num_row_groups)
            stated = sum(packed.metadata.row_group(at).total_byte_size for at in groups)
            require_small(file, stated)
            for batch in packed.iter_batches(ROWS_AT_ONCE):
                for number, row in enumerate(batch.to_pylist(), number + 1):  # noqa: B020
                    size += _length(row)
                    require_small(file, size)
                    yield SourceRow(f"row {number} of {str(file)!r}", row)
    except (ArrowException, OSError):  # its text may hold values of rows
        raise DataError(
            f"the data file {str(file)!r} cannot be read as Parquet; it is damaged or of another "
            "form. Write it again."
        ) from None


def _length(value: object) -> int:
    # bytes, roughly: a dictionary in the file may hold a value once for all rows
    if isinstance(value, dict):
        return sum(map(_length, value.values()))
    if isinstance(value, list):
        return sum(map(_length, value))
    return len(value) if isinstance(value, str | bytes) else 8


def _parts(address: str) -> tuple[str, str | None]:
    """Folder or id, and the split behind the last colon. A folder's own name may hold colons."""
    rest = address.removeprefix(HUB)
    where, colon, split = rest.rpartition(":")
    if not rest:
        raise DataError(f"{address!r} names no dataset; it must be {HUB}<id or folder>[:split].")
    return (where, split) if colon and where and not Path(rest).exists() else (rest, None)
