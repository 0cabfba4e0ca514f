"""Columns of plain text."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(*rows: Sequence[str]) -> str:
    """Rows of cells as lines of columns.

    Examples:
        >>> print(aligned(("a", "bb"), ("ccc", "d")))
        a    bb
        ccc  d
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
