"""What all records are: values that never change, stable text, a card in notebooks, tables."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel, ConfigDict

from leakbound._install import install_hint
from leakbound.errors import UsageError


class Card:
    """What a notebook shows: what a package makes that registers for it as `leakbound.cards`."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        entries = entry_points(group="leakbound.cards", name=type(self).__name__)
        return next((entry.load()(self) for entry in entries), None)


class Frozen(BaseModel):
    """A part of a record, which never changes."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class JsonRecord(Frozen, Card):
    """What a file holds as JSON."""

    def to_json(self) -> str:
        """Stable text: equal values give equal bytes."""
        return self.model_dump_json(indent=2) + "\n"


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """A pandas DataFrame."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise UsageError(
            f"to_pandas needs pandas; install it with: {install_hint('notebook')}."
        ) from None
    return pandas.DataFrame(list(rows))
