"""A recipe with its results as a table: for a terminal, as Markdown, CSV, JSON or HTML."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leakbound.report.table import table_page
from leakbound.reproduce.recipe import Recipe
from leakbound.reproduce.values import MeasuredValue, PrintedValue

__all__ = ["FORMATS", "Reproduction", "print_table"]

HEAD = ("setting", "quantity", "the paper prints", "this run")
SCHEMA_VERSION = 2  # 1: with the keys shows, differs and made


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A recipe that was run.

    Attributes:
        recipe: What was reproduced.
        measured: The values of this run.
        made_with: The model, the rows and the scale; no private text.
    """

    recipe: Recipe
    measured: tuple[MeasuredValue, ...]
    made_with: str

    def lines(self) -> list[tuple[str, str, str, str]]:
        """The table: setting, quantity, printed, measured.

        Returns:
            A line for every setting and quantity, in the order of measured values; "" where one of
            the two is missing.
        """
        every: Sequence[PrintedValue | MeasuredValue] = (*self.measured, *self.recipe.printed)
        keys = dict.fromkeys((row.setting, str(row.quantity)) for row in every)
        order = list(dict.fromkeys(setting for setting, _ in keys))
        sorted_keys = sorted(keys, key=lambda key: order.index(key[0]))
        return [(*key, self._printed(*key), self._measured(*key)) for key in sorted_keys]

    def _printed(self, setting: str, quantity: str) -> str:
        found = [p for p in self.recipe.printed if (p.setting, p.quantity) == (setting, quantity)]
        return "; ".join(f"{_plain(row.value)} ({row.where})" for row in found)

    def _measured(self, setting: str, quantity: str) -> str:
        found = [m for m in self.measured if (m.setting, m.quantity) == (setting, quantity)]
        return "; ".join(row.shown for row in found)

    def markdown(self) -> str:
        """Title, table, and what differs.

        Returns:
            A section of Markdown.
        """
        rows = [HEAD, ("---",) * len(HEAD), *self.lines()]
        table = [f"| {' | '.join(line)} |" for line in rows]
        recipe = self.recipe
        return "\n".join([
            f"## {recipe.name}: {recipe.title}", "", recipe.finding, "", *table, "",
            f"What differs: {recipe.differences}", "", f"Made with: {self.made_with}", "",
        ])  # fmt: skip

    def html(self) -> str:
        """The same as a page.

        Returns:
            HTML that opens from disk and makes no request.
        """
        recipe = self.recipe
        notes = {"What differs": recipe.differences, "Made with": self.made_with}
        title = f"{recipe.name}: {recipe.title}"
        return table_page(title, recipe.finding, HEAD, self.lines(), notes)

    def csv(self) -> str:
        """One line for every number, the paper's and ours.

        Returns:
            CSV with a head.
        """
        name, buffer = self.recipe.name, io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(("recipe", "source", "setting", "quantity", "value", "note"))
        for p in self.recipe.printed:
            writer.writerow((name, "paper", p.setting, str(p.quantity), p.value, p.where))
        for m in self.measured:
            writer.writerow((name, "this run", m.setting, str(m.quantity), m.value, m.shown))
        return buffer.getvalue()

    def json(self) -> str:
        """The same with title and notes.

        Returns:
            JSON; infinities are written as text.
        """
        recipe = self.recipe
        printed = [
            {"setting": p.setting, "quantity": p.quantity, "value": p.value, "where": p.where}
            for p in recipe.printed
        ]
        measured = [
            {
                "setting": m.setting,
                "quantity": m.quantity,
                "value": _finite(m.value),
                "shown": m.shown,
            }
            for m in self.measured
        ]
        found = {
            "schema_version": SCHEMA_VERSION, "recipe": recipe.name, "title": recipe.title,
            "finding": recipe.finding, "differences": recipe.differences,
            "made_with": self.made_with, "printed": printed, "measured": measured,
        }  # fmt: skip
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[Reproduction], str]] = {
    "md": Reproduction.markdown, "csv": Reproduction.csv, "json": Reproduction.json,
    "html": Reproduction.html,
}  # fmt: skip


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def print_table(found: Reproduction) -> None:
    """Print the table as wide as the terminal allows, then what differs and what made the numbers.

    Args:
        found: A recipe that was run.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    recipe, console = found.recipe, Console(highlight=False)
    if not console.is_terminal:
        console.width = 140
    table = Table(title=Text(f"{recipe.name}: {recipe.title}"), title_justify="left")
    for head in HEAD:
        table.add_column(head, overflow="fold")
    last = ""
    for setting, *cells in found.lines():
        table.add_row(Text("" if setting == last else setting), *map(Text, cells))
        last = setting
    console.print(table)
    notes = {"Finding": recipe.finding, "What differs": recipe.differences}
    for head, text in {**notes, "Made with": found.made_with}.items():
        console.print(Text(f"{head}: {text}"))
