"""What a notebook shows of a record."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from leakbound._install import install_hint
from leakbound.errors import UsageError


def card(record: object) -> str | None:
    """What a package shows of a record, for whose class it registers as `leakbound.cards`."""
    entries = entry_points(group="leakbound.cards", name=type(record).__name__)
    return next((entry.load()(record) for entry in entries), None)


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """A pandas DataFrame."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise UsageError(
            f"to_pandas needs pandas; install it with: {install_hint('notebook')}."
        ) from None
    return pandas.DataFrame(list(rows))
