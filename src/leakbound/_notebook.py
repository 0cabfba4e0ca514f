"""What a notebook shows of a record.

Records stand in a layer below the reports, so a card is imported when a notebook first asks for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from leakbound._install import install_hint
from leakbound.errors import UsageError

__all__ = ["card", "data_frame"]


def card(kind: str, record: object) -> str:
    """The HTML of a record (`audit`, `influence`) in a notebook cell, made by
    leakbound.report.notebook.
    """
    made: str = getattr(importlib.import_module("leakbound.report.notebook"), f"{kind}_card")(
        record
    )
    return made


def data_frame(rows: Iterable[Mapping[str, object]]) -> Any:
    """A pandas DataFrame of rows. Raises UsageError where pandas is not installed."""
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        raise UsageError(
            f"to_pandas needs pandas; install it with: {install_hint('notebook')}."
        ) from None
    return pandas.DataFrame(list(rows))
