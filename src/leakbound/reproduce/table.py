"""A recipe with its results as a table: for a terminal, as Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from leakbound.reproduce.recipe import Measured, Printed, Recipe

__all__ = ["FORMATS", "Reproduced", "print_table"]

HEAD = ("setting", "quantity", "the paper prints", "ours")


@dataclass(frozen=True, slots=True)
class Reproduced:
    """A recipe that was run. made: by which model, on what, how much."""

    recipe: Recipe
    measured: tuple[Measured, ...]
    made: str

    def lines(self) -> list[tuple[str, str, str, str]]:
        """A line for every setting and quantity, in the order of ours; "" where one of the two is
        missing.
        """
        every: Sequence[Printed | Measured] = (*self.measured, *self.recipe.printed)
        keys = dict.fromkeys((row.setting, row.what) for row in every)
        order = list(dict.fromkeys(setting for setting, _ in keys))
        sorted_keys = sorted(keys, key=lambda key: order.index(key[0]))
        return [(*key, self._printed(*key), self._ours(*key)) for key in sorted_keys]

    def _printed(self, setting: str, what: str) -> str:
        found = [row for row in self.recipe.printed if (row.setting, row.what) == (setting, what)]
        return "; ".join(f"{_plain(row.value)} ({row.where})" for row in found)

    def _ours(self, setting: str, what: str) -> str:
        return "; ".join(
            row.shown for row in self.measured if (row.setting, row.what) == (setting, what)
        )

    def markdown(self) -> str:
        """Title, table, and what differs."""
        rows = [
            f"| {' | '.join(HEAD)} |",
            "| --- " * len(HEAD) + "|",
            *(f"| {' | '.join(line)} |" for line in self.lines()),
        ]
        return "\n".join([f"## {self.recipe.name}: {self.recipe.title}", "", self.recipe.shows, "", *rows, "",
                          f"What differs: {self.recipe.differs}", "", f"Made with: {self.made}", ""])  # fmt: skip

    def csv(self) -> str:
        """One line for every number, the paper's and ours."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(("recipe", "source", "setting", "quantity", "value", "note"))
        writer.writerows(
            (self.recipe.name, "paper", p.setting, p.what, p.value, p.where)
            for p in self.recipe.printed
        )
        writer.writerows(
            (self.recipe.name, "ours", m.setting, m.what, m.value, m.shown) for m in self.measured
        )
        return buffer.getvalue()

    def json(self) -> str:
        """The same, with title and notes; infinities are written as text."""
        recipe = self.recipe
        found: dict[str, Any] = {
            "schema_version": 1, "recipe": recipe.name, "title": recipe.title, "shows": recipe.shows, "differs": recipe.differs,
            "made": self.made,
            "printed": [{"setting": p.setting, "quantity": p.what, "value": p.value, "where": p.where} for p in recipe.printed],
            "measured": [{"setting": m.setting, "quantity": m.what, "value": _finite(m.value), "shown": m.shown} for m in self.measured],
        }  # fmt: skip
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


FORMATS = {"md": Reproduced.markdown, "csv": Reproduced.csv, "json": Reproduced.json}


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _finite(value: float) -> float | str:
    return value if abs(value) < float("inf") and value == value else str(value)


def print_table(found: Reproduced) -> None:
    """On a terminal: the table as wide as it allows, then what differs and what made the numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 140
    table = Table(title=Text(f"{found.recipe.name}: {found.recipe.title}"), title_justify="left")
    for head in HEAD:
        table.add_column(head, overflow="fold")
    last = ""
    for setting, *cells in found.lines():
        table.add_row(Text("" if setting == last else setting), *map(Text, cells))
        last = setting
    console.print(table)
    for head, text in (
        ("Shows", found.recipe.shows),
        ("What differs", found.recipe.differs),
        ("Made with", found.made),
    ):
        console.print(Text(f"{head}: {text}"))
