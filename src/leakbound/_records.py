"""What all records are: values that never change, stable text, a card in notebooks, tables."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from leakbound._install import install_hint
from leakbound.errors import StoreError, UsageError, reason_of

F = TypeVar("F", bound="Frozen")


class Card:
    """What a notebook shows: what a package makes that registers for it as `leakbound.cards`."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        entries = entry_points(group="leakbound.cards", name=type(self).__name__)
        return next((entry.load()(self) for entry in entries), None)


class Frozen(BaseModel):
    """A part of a record, which never changes."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    def __dir__(self) -> list[str]:
        """Its own names, without those of the library that checks it."""
        inherited = {*dir(BaseModel)}
        return sorted(name for name in super().__dir__() if name not in inherited)


class JsonRecord(Frozen, Card):
    """What a file holds as JSON."""

    def to_json(self) -> str:
        """Stable text: equal values give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"


def load_json(file: Path, kind: type[F], what: str, again: str) -> F:
    """A record of a kind. Raises StoreError where the file is not `what`, with what to do."""
    try:
        return kind.model_validate_json(json.dumps(json.loads(file.read_text(encoding="utf-8"))))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{str(file)!r} is not {what}: {reason_of(error)}. {again}") from None


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """A pandas DataFrame."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise UsageError(
            f"to_pandas needs pandas; install it with: {install_hint('notebook')}."
        ) from None
    return pandas.DataFrame(list(rows))
