"""The results of a recipe as a table: for a terminal, as Markdown, CSV, JSON or HTML."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

from leakbound_lab.reproduce.claims import fill
from leakbound_lab.reproduce.outcomes import ClaimOutcome, TestedInequality, judge
from leakbound_lab.reproduce.recipe import EVIDENCE, Recipe, RestsOn
from leakbound_lab.reproduce.report.page import RecipeSection, recipes_page
from leakbound_lab.reproduce.sections import HEAD, section_of
from leakbound_lab.reproduce.values import MeasuredValue, PrintedValue

SCHEMA_VERSION = 4  # 3 did not say what kind of evidence it is


@dataclass(frozen=True)
class Reproduction:
    recipe: Recipe
    measured: tuple[MeasuredValue, ...]
    made_with: str
    names: Mapping[str, str] = field(default_factory=dict)
    models: tuple[str, ...] = ()

    @property
    def evidence(self) -> RestsOn:
        """What kind of evidence this is."""
        return self.recipe.evidence(self.models or self.recipe.models)

    @cached_property
    def outcome(self) -> ClaimOutcome | None:
        """The outcome of the paper's claim; None if the recipe has no claim."""
        recipe = self.recipe
        if recipe.claim is None:
            return None
        exact = recipe.needs == "nothing"
        return judge(recipe.claim, self.measured, self.printed, self.names, exact)

    @cached_property
    def printed(self) -> tuple[PrintedValue, ...]:
        """The paper's values, under the settings of this run."""
        return tuple(
            replace(one, setting=fill(one.setting, self.names).replace(", {model 2}", ""))
            for one in self.recipe.printed
        )

    @property
    def claim_sentence(self) -> str:
        """The claim, its outcome and the reason, in a line; "" if the recipe has no claim."""
        found, claim = self.outcome, self.recipe.claim
        if found is None or claim is None:
            return ""
        why = " ".join(text for text in (found.reason, found.explained) if text)
        rests = f" It rests on {EVIDENCE[self.evidence]}."
        return f"{claim.says} Outcome: {found.words}." + (f" {why}" if why else "") + rests

    def lines(self) -> list[tuple[str, str, str, str]]:
        """The table: setting, quantity, printed, measured."""
        every: Sequence[PrintedValue | MeasuredValue] = (*self.measured, *self.printed)
        keys = dict.fromkeys((row.setting, str(row.quantity)) for row in every)
        order = list(dict.fromkeys(setting for setting, _ in keys))
        sorted_keys = sorted(keys, key=lambda key: order.index(key[0]))
        return [(*key, self._printed(*key), self._measured(*key)) for key in sorted_keys]

    def _printed(self, setting: str, quantity: str) -> str:
        found = [
            (row.value if isinstance(row.value, str) else f"{row.value:g}", row.where)
            for row in self.printed if (row.setting, row.quantity) == (setting, quantity)
        ]  # fmt: skip
        return "; ".join(f"{value} ({where})" for value, where in found)

    def _measured(self, setting: str, quantity: str) -> str:
        found = [m for m in self.measured if (m.setting, m.quantity) == (setting, quantity)]
        return "; ".join(row.shown for row in found)

    def markdown(self) -> str:
        """Title, table, and differences from the paper."""
        rows = [HEAD, ("---",) * len(HEAD), *self.lines()]
        table = [f"| {' | '.join(line)} |" for line in rows]
        recipe = self.recipe
        return "\n".join([
            f"## {recipe.name}: {recipe.title}", "", recipe.finding, "",
            *([f"Claim: {self.claim_sentence}", ""] if self.claim_sentence else []), *table, "",
            f"What differs: {recipe.differences}", "", f"Made with: {self.made_with}", "",
        ])  # fmt: skip

    @property
    def section(self) -> RecipeSection:
        return section_of(
            self.recipe, self.measured, self.made_with, self.outcome, self.lines(), self.evidence
        )

    def html(self) -> str:
        return recipes_page(f"{self.recipe.name}: {self.recipe.title}", (self.section,))

    def csv(self) -> str:
        """One line for each number, both the paper's and ours."""
        name, buffer = self.recipe.name, io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(("recipe", "source", "setting", "quantity", "value", "note"))
        for p in self.printed:
            writer.writerow((name, "paper", p.setting, str(p.quantity), p.value, p.where))
        for m in self.measured:
            writer.writerow((name, "this run", m.setting, str(m.quantity), m.value, m.shown))
        return buffer.getvalue()

    def json(self) -> str:
        recipe = self.recipe
        found = {
            "schema_version": SCHEMA_VERSION, "recipe": recipe.name, "title": recipe.title,
            "finding": recipe.finding, "differences": recipe.differences,
            "made_with": self.made_with, "evidence": self.evidence, "claim": self._claim(),
            "printed": [asdict(one) for one in self.printed],
            "measured": [_cell(one) for one in self.measured],
        }  # fmt: skip
        return json.dumps(found, indent=2, ensure_ascii=False) + "\n"

    def _claim(self) -> dict[str, object] | None:
        found, claim = self.outcome, self.recipe.claim
        if found is None or claim is None:
            return None
        return {
            "says": claim.says, "outcome": found.status, "reason": found.reason,
            "explained": found.explained, "level": found.level,
            "inequalities": [_inequality(one) for one in found.tested],
        }  # fmt: skip


def _inequality(one: TestedInequality) -> dict[str, object]:
    return {
        "claims": one.text, "quantity": one.quantity, "values": one.values,
        "difference": one.difference, "p_value": one.claimed,
        "p_value_of_opposite": one.opposite, "test": one.test, "units": one.units,
        "obstacle": one.obstacle, "outcome": one.status,
    }  # fmt: skip


def _cell(one: MeasuredValue) -> dict[str, object]:
    sample = one.sample
    found: dict[str, object] = {
        "setting": one.setting, "quantity": one.quantity, "value": _finite(one.value),
        "shown": one.shown, "ceiling": None if one.ceiling is None else _finite(one.ceiling),
        "n": None, "unit": "exact" if one.exact else None,
    }  # fmt: skip
    if sample is not None:
        found |= {
            "n": sample.n, "unit": sample.unit, "of": sample.what or one.quantity,
            "mean": sample.mean, "deviation": sample.deviation,
        }  # fmt: skip
    return found


FORMATS: Mapping[str, Callable[[Reproduction], str]] = {
    "md": Reproduction.markdown, "csv": Reproduction.csv, "json": Reproduction.json,
    "html": Reproduction.html,
}  # fmt: skip


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def print_table(found: Reproduction) -> None:
    """Print the table in the width of the terminal, then the differences and what it was made
    with.
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
    notes = {"Finding": recipe.finding}
    if found.claim_sentence:
        notes["Claim"] = found.claim_sentence
    notes["What differs"] = recipe.differences
    for head, text in {**notes, "Made with": found.made_with}.items():
        console.print(Text(f"{head}: {text}"))
