"""Tables as the papers print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

__all__ = ["Cell", "PaperTable"]

TableNumber = int | float


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its row, its column, and its numbers by field."""

    row: str
    column: str
    values: Mapping[str, TableNumber]


class PaperTable(BaseModel):
    """A table of a paper.

    Attributes:
        fields: What each number of a cell is.
        columns: Headings.
        rows: For each row its cells in the order of `columns`: numbers in the order of `fields`,
            one number alone where there is one field, None where the paper prints nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    rows: dict[str, tuple[tuple[TableNumber, ...] | TableNumber | None, ...]]

    def cells(self, rows: Sequence[str] = ()) -> Iterator[Cell]:
        """Cells with numbers, row by row.

        Args:
            rows: Which rows, in this order; empty for all.

        Yields:
            Each cell.
        """
        for row in rows or self.rows:
            for column, numbers in zip(self.columns, self.rows[row], strict=True):
                if numbers is not None:
                    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
                    yield Cell(row, column, dict(zip(self.fields, numbers, strict=True)))
