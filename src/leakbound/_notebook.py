"""What a notebook shows of a record.

Records stand in a layer below the reports, which register how a record of each class is shown.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from leakbound._install import install_hint
from leakbound.errors import UsageError

T = TypeVar("T")
_CARDS: dict[type[object], Callable[[Any], str]] = {}


def register_card(kind: type[T], make: Callable[[T], str]) -> None:
    """Say how notebooks show the records of a class."""
    _CARDS[kind] = make


def card(record: object) -> str | None:
    """What a notebook cell shows of a record."""
    make = _CARDS.get(type(record))
    return None if make is None else make(record)


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """A pandas DataFrame."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise UsageError(
            f"to_pandas needs pandas; install it with: {install_hint('notebook')}."
        ) from None
    return pandas.DataFrame(list(rows))
