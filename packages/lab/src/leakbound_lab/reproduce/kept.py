"""Measured values of recipes on disk, for a later run of all recipes to reuse."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

from pydantic import ValidationError

from leakbound._files import write_private
from leakbound._version import __version__
from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.recipe import Recipe
from leakbound_lab.reproduce.values import FileEntry, MeasuredValue

FOLDER = "measured"  # under the folder of the tables
SCHEMA_VERSION = 2  # of the file, and of what samples hold: raise it when a measure draws others


class _Kept(FileEntry):
    schema_version: int
    key: str
    measured: tuple[MeasuredValue, ...]


def values_file(out: Path, recipe: Recipe, seed: int = 0) -> Path:
    return out / FOLDER / (f"seed-{seed}" if seed else "") / f"{recipe.name}.json"


def what_decides(recipe: Recipe, context: RecipeContext) -> str:
    """A key that changes whenever a recipe could measure something else.

    Models are opened for their fingerprints, but not called.
    """
    asks, read = recipe.needs != "nothing", (context.by_probability, context.membership)
    told = {
        "version": __version__, "measure": recipe.measure,
        "options": json.dumps(dict(recipe.options), default=str, sort_keys=True),
        "scale": dataclasses.asdict(context.scale) if asks else {},
        "models": _fingerprints(context) if asks else {},
        "rows": {
            name: f"{value} {_state(Path(value))}"  # another one when its files change
            for name, value in context.source.items() if asks
        },
        **({"seed": context.seed} if asks and context.seed else {}),
        **({"read": read} if asks and any(read) else {}),
    }  # fmt: skip
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def _fingerprints(context: RecipeContext) -> dict[str, str]:
    judge = [] if context.judge_model is None else [context.judge_model]
    found = {name: context.model(name).fingerprint for name in (*context.models, *judge)}
    order = {"order": ", ".join(context.models), "judge": context.judge_model or ""}
    return {**found, **order, "embedder": context.embedder or ""}


def _state(place: Path) -> str:
    """Hash of a file, or of sizes and times of the files in a folder; empty for other names."""
    if place.is_file():
        return hashlib.sha256(place.read_bytes()).hexdigest()
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else []
    facts = [(str(file), (was := file.stat()).st_size, was.st_mtime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest() if facts else ""


def save_measured(file: Path, key: str, measured: tuple[MeasuredValue, ...]) -> None:
    """Store what a recipe measured: numbers, and no text of the data."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    values = [dataclasses.asdict(one) for one in measured]
    write_private(
        file, json.dumps({"schema_version": SCHEMA_VERSION, "key": key, "measured": values})
    )


def load_measured(file: Path, key: str) -> tuple[MeasuredValue, ...] | None:
    try:
        found = _Kept.model_validate_json(file.read_bytes())
    except (OSError, ValidationError):
        return None
    return found.measured if (found.schema_version, found.key) == (SCHEMA_VERSION, key) else None


def load_values(file: Path) -> tuple[MeasuredValue, ...]:
    """Load the values of a file, whatever its key."""
    return _Kept.model_validate_json(file.read_bytes()).measured
