"""Shards of a sweep joined into the record that the sweep would have had in one process."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from pydantic import JsonValue

from leakbound._files import make_folder, write_private
from leakbound.auditing.store.folder import Settings, load_manifest
from leakbound.errors import StoreError
from leakbound.sweeping.grid import describe, settings_of
from leakbound.sweeping.record import ELSEWHERE, FILE, SweepRecord, key_of, load_sweep, runs_of

NAME = re.compile(r"shard-(\d+)-of-(\d+)\.json")
PLACES = ("data", "data_dir")  # may differ from machine to machine


def shard_file(number: int, total: int) -> str:
    """Name of the file of a shard's record.

    Args:
        number: Of the shard, from 1 on.
        total: Number of shards.

    Examples:
        >>> shard_file(1, 4)
        'shard-1-of-4.json'
    """
    return f"shard-{number}-of-{total}.json"


def has_shards(folder: Path) -> bool:
    """Whether a folder holds a shard of a sweep.

    Returns:
        False for a run folder.
    """
    return bool(_names(folder))


def _names(folder: Path) -> list[re.Match[str]]:
    """The names of its shards; a device has none."""
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return [match for file in files if (match := NAME.fullmatch(file.name))]


def merge_sweeps(folders: Sequence[Path], out: Path) -> SweepRecord:
    """Join the folders of shards. No model is asked.

    Args:
        folders: Folders that `leakbound sweep --shard` wrote; several shards may be in one.
        out: Folder of the joined sweep; gets the runs of all shards.

    Returns:
        The record of the whole sweep, which is in `out`, too.

    Raises:
        StoreError: If the folders hold shards of different sweeps, data or models, or a shard is
            missing or not finished.
    """
    shards = [shard for folder in folders for shard in _shards_in(folder)]
    _require_alike(shards)
    _require_whole(shards)
    # the points of all records, in the order of the grid
    records = [shard.record for shard in shards]
    first = records[0]
    done = {key_of(point): point for record in records for point in record.points}
    failed = {
        key_of(point): point
        for record in records
        for point in record.missing
        if point.cause == "failed"
    }
    order = list(_keys(first))
    refused = [point for point in first.missing if point.cause == "refused"]
    missing = [failed[key] for key in order if key in failed]
    points = tuple(done[key] for key in order if key in done)
    record = first.model_copy(update={"points": points, "missing": (*refused, *missing)})
    make_folder(out)
    for shard in shards:
        for run in runs_of(shard.file.parent, shard.record.points):
            if not (out / run.name).exists():
                shutil.copytree(run, out / run.name)
    write_private(out / FILE, record.to_json())
    return record


@dataclass(frozen=True, slots=True)
class _Shard:
    file: Path
    number: int
    total: int
    record: SweepRecord


def _shards_in(folder: Path) -> Iterator[_Shard]:
    names = _names(folder)
    if not names:
        raise StoreError(
            f"{str(folder)!r} holds no shard of a sweep; give the folders that `sweep --shard` "
            "wrote."
        )
    for match in names:
        file = folder / match[0]
        yield _Shard(file, int(match[1]), int(match[2]), load_sweep(file))


def _require_alike(shards: Sequence[_Shard]) -> None:
    """All shards are of one sweep, over the same data and models."""
    first = shards[0]
    for shard in shards[1:]:
        one, other = _identity(first), _identity(shard)
        if differing := [key for key in one | other if one.get(key) != other.get(key)]:
            raise StoreError(
                f"{str(shard.file)!r} is not of the same sweep as {str(first.file)!r}: "
                f"{', '.join(differing)} differs. Merge shards of one command only."
            )
    known: dict[str, tuple[str, Path]] = {}
    for name, value, file in chain.from_iterable(map(_sources, shards)):
        before, where = known.setdefault(name, (value, file))
        if before != value:
            raise StoreError(
                f"{str(file)!r} and {str(where)!r} have other data or another model or system; "
                "every shard needs the same files. Run one of them again."
            )


def _identity(shard: _Shard) -> dict[str, JsonValue]:
    record = shard.record
    base = {key: value for key, value in record.base.items() if key not in PLACES}
    grid: dict[str, JsonValue] = {f"grid {key}": list(row) for key, row in record.grid.items()}
    return {
        **base, **grid, **record.provenance, "repeats": record.repeats, "shards": shard.total,
    }  # fmt: skip


def _sources(shard: _Shard) -> Iterator[tuple[str, str, Path]]:
    """What was read and asked, under names that are the same in all shards."""
    for folder in runs_of(shard.file.parent, shard.record.points):
        manifest = load_manifest(folder)
        own = any(manifest.get("beside", {}).get(key) for key in PLACES)
        places = ("model", "embedder", "judge_model", "address")
        yield _name_of("model", manifest, places), manifest["model"], folder
        if manifest["spec"].get("address") is not None:
            asked = ("address", "system_options")
            yield _name_of("system", manifest, asked), manifest["system"], folder
        fields = ("task", "input_field", "input_template", "label_field", "delimiter", "drop_empty")
        keys = (*fields, "canary", *(() if own else ("seed",)))
        yield _name_of("data", manifest, keys), manifest["data"], folder


def _name_of(what: str, manifest: Settings, keys: Sequence[str]) -> str:
    spec = manifest["spec"]
    return json.dumps([what, *(spec.get(key) for key in keys)], sort_keys=True)


def _require_whole(shards: Sequence[_Shard]) -> None:
    total = shards[0].total
    cut = {
        shard.number
        for shard in shards
        if not all(
            point.cause != "not_reached" or point.reason == ELSEWHERE
            for point in shard.record.missing
        )
    }
    if missing := sorted({*range(1, total + 1)} - {shard.number for shard in shards} | cut):
        names = " and ".join(f"{number}/{total}" for number in missing)
        raise StoreError(
            f"shard {names} of the sweep is missing or not finished; run sweep --shard "
            f"{missing[0]}/{total} to its end, then merge again with its folder."
        )


def _keys(record: SweepRecord) -> Iterator[tuple[str, int]]:
    usual = int(str(record.base["seed"]))
    for changes in settings_of(record.grid):
        for repeat in range(record.repeats):
            seed = changes.get("seed", usual + repeat)
            if not isinstance(seed, int):
                raise StoreError(f"the seed of {describe(changes)} is not a whole number.")
            yield json.dumps(changes, sort_keys=True), seed
