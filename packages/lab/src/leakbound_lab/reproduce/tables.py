"""Tables as the papers print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

TableNumber = int | float


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: row, column, and numbers by field."""

    row: str
    column: str
    values: Mapping[str, TableNumber]


class PaperTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    fields: tuple[str, ...]
    columns: tuple[str, ...]
    rows: dict[str, tuple[tuple[TableNumber, ...] | TableNumber | None, ...]]

    def cells(self, rows: Sequence[str] = ()) -> Iterator[Cell]:
        """The cells with numbers, row by row."""
        for row in rows or self.rows:
            for column, numbers in zip(self.columns, self.rows[row], strict=True):
                if numbers is not None:
                    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
                    yield Cell(row, column, dict(zip(self.fields, numbers, strict=True)))
