"""Cells of tables on pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell."""

    text: str
    key: float | None = None
    kind: str = ""
    link: str = ""
