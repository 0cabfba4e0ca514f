"""Recipes as one HTML page: outcomes first, then each recipe with its figures and its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakbound.report.pages import render
from leakbound.report.words import TableCell, facts
from leakbound_lab.reproduce.recipe import EVIDENCE
from leakbound_lab.reproduce.report.figures import RecipeFigure, recipe_svg

CLASSES: Mapping[str, str] = {  # of the common stylesheet
    "shown": "no_violation", "reversed": "violation", "too_few_trials": "inconclusive",
    "cannot_show": "inconclusive", "failed": "failed", "": "quiet",
}  # fmt: skip
OVERVIEW = ("recipe", "the claim, as it is tested", "outcome", "rests on")
MADE_WITH = "Made with"  # the note that names model and rows
ORDER = ("shown", "too_few_trials", "cannot_show", "reversed", "failed", "")


@dataclass(frozen=True, slots=True)
class RecipeSection:
    name: str
    title: str
    says: str
    status: str
    outcome: str
    reason: str
    tests: Sequence[str] = ()
    inequalities: Sequence[Sequence[str]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figures: Sequence[RecipeFigure] = ()
    notes: Mapping[str, str] | None = None
    evidence: str = ""

    @property
    def anchor(self) -> str:
        return self.name.replace("/", "-")

    @property
    def style(self) -> str:
        return CLASSES[self.status]


def recipes_page(title: str, sections: Sequence[RecipeSection], lead: str = "") -> str:
    rows = [
        (TableCell(one.name, link=f"#{one.anchor}", kind="nowrap"), one.says,
         TableCell(one.outcome, kind=one.style), one.evidence or "–")
        for one in sections
    ]  # fmt: skip
    return render(
        "page.html.j2",
        package="leakbound_lab.reproduce.report",
        title=title,
        lead=lead, facts=facts(model=_origin(sections)),
        tone=sections[0].style if len(sections) == 1 else "",
        overview=len(sections) > 1, overview_head=OVERVIEW, overview_rows=rows,
        tally=_tally(sections),
        sections=[(one, [(recipe_svg(each), each.caption) for each in one.figures])
                  for one in sections],
    )  # fmt: skip


def _origin(sections: Sequence[RecipeSection]) -> str:
    """Model, rows and scale, where all recipes have the same."""
    found = dict.fromkeys((one.notes or {}).get(MADE_WITH, "") for one in sections)
    known = [text for text in found if text]
    return known[0] if len(known) == 1 else "see each recipe" if known else ""


def _tally(sections: Sequence[RecipeSection]) -> list[tuple[str, list[tuple[int, str, str]]]]:
    """Of each kind of evidence, how many recipes have each outcome, in words, with its class."""
    kinds = [words for words in EVIDENCE.values() if any(one.evidence == words for one in sections)]
    return [
        (kind, _counts([one for one in sections if one.evidence == kind]))
        for kind in (*kinds, *([""] if any(not one.evidence for one in sections) else []))
    ]


def _counts(sections: Sequence[RecipeSection]) -> list[tuple[int, str, str]]:
    found = []
    for status in ORDER:
        those = [one for one in sections if one.status == status]
        if those:
            found.append((len(those), those[0].outcome, CLASSES[status]))
    return found
