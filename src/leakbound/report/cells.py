"""Cells of tables on pages."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TableCell"]


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell.

    Attributes:
        text: What it says.
        key: What it is sorted by where that is not its text.
        kind: Its class, such as a verdict.
        link: Where it leads, on the same page.
    """

    text: str
    key: float | None = None
    kind: str = ""
    link: str = ""
