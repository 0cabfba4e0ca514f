"""Tables as the papers print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

__all__ = ["Cell", "PaperTable"]

TableNumber = int | float


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: row, column, and numbers by field."""

    row: str
    column: str
    values: Mapping[str, TableNumber]


class PaperTable(BaseModel):
    """A table of a paper.

    Attributes:
        fields: The meaning of each number in a cell.
        columns: Headings.
        rows: For each row, its cells in the order of `columns`: numbers in the order of `fields`,
            a single number if there is one field, or None if the paper prints nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    rows: dict[str, tuple[tuple[TableNumber, ...] | TableNumber | None, ...]]

    def cells(self, rows: Sequence[str] = ()) -> Iterator[Cell]:
        """The cells with numbers, row by row.

        Args:
            rows: The rows to return, in this order; empty for all.

        Yields:
            Each cell.
        """
        for row in rows or self.rows:
            for column, numbers in zip(self.columns, self.rows[row], strict=True):
                if numbers is not None:
                    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
                    yield Cell(row, column, dict(zip(self.fields, numbers, strict=True)))
