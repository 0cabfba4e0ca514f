"""A table with notes as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leakbound.report.pages import render

__all__ = ["table_page"]


def table_page(
    title: str,
    lead: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Mapping[str, str],
) -> str:
    """A page with one table.

    Args:
        title: Heading of the page.
        lead: A sentence above the table.
        head: Headings of the columns.
        rows: Cells of each row.
        notes: Texts below the table, by their headings.

    Returns:
        HTML that opens from disk and makes no request; all text is escaped.
    """
    return render("table.html.j2", title=title, lead=lead, head=head, rows=rows, notes=notes)
