"""Run all recipes, one after the other, into one page and one record."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import Interrupted, LeakboundError
from leakbound_lab.reproduce.recipe import EVIDENCE, Recipe
from leakbound_lab.reproduce.report.page import RecipeSection, recipes_page
from leakbound_lab.reproduce.reproduction import Reproduction
from leakbound_lab.reproduce.sections import section_of_failure

CRASHED = 70
LEAD = (
    "What four papers claim in their tables and figures, tested on what was measured here. A claim "
    "is shown if each of its inequalities is significant at 5 %, and so is what it needs. It is "
    "reversed if the negation of one is significant at 5 % divided by their number. It cannot be "
    "shown here if a ceiling or another measured fact contradicts it."
)
SCHEMA_VERSION = 2  # 1 added outcomes of all kinds of evidence up


@dataclass(frozen=True, slots=True)
class FailedRecipe:
    """A recipe that did not run to its end. This says nothing about its claim."""

    recipe: Recipe
    why: str
    exit_code: int

    @property
    def section(self) -> RecipeSection:
        return section_of_failure(self.recipe, self.why)


def run_every(
    recipes: Iterable[Recipe],
    run: Callable[[Recipe], Reproduction],
    report: Callable[[str], None] = lambda line: None,
    after_each: Callable[[Sequence[Reproduction | FailedRecipe]], None] = lambda found: None,
) -> list[Reproduction | FailedRecipe]:
    """Run recipes. If one fails, the others still run."""
    found: list[Reproduction | FailedRecipe] = []
    for recipe in recipes:
        try:
            one: Reproduction | FailedRecipe = run(recipe)
        except Interrupted:
            raise
        except LeakboundError as error:
            one = FailedRecipe(recipe, str(error), error.exit_code)
        except Exception as error:
            one = FailedRecipe(recipe, _where(error), CRASHED)
        found.append(one)
        after_each(found)
        report(f"{recipe.name}: {_say(one)}")
    return found


def _where(error: Exception) -> str:
    """Type and place of a crash. The message is left out because it may hold private text."""
    if os.environ.get("LEAKBOUND_DEBUG"):
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    return (
        f"internal error: {type(error).__name__} in {where}. This is a fault of leakbound and no "
        "outcome of the claim."
    )


def _say(one: Reproduction | FailedRecipe) -> str:
    if isinstance(one, FailedRecipe):
        return one.why
    return "no claim" if one.outcome is None else one.outcome.words


def every_page(found: Sequence[Reproduction | FailedRecipe], of: int | None = None) -> str:
    lead = LEAD
    if of is not None and of != len(found):
        lead += f" So far {len(found)} of {of} recipes have run; the same command resumes with the "
        lead += "others."
    return recipes_page("The papers' tables and figures", [one.section for one in found], lead)


def every_json(found: Sequence[Reproduction | FailedRecipe], of: int | None = None) -> str:
    rows = [_row(one) for one in found]
    statuses = sorted({row["outcome"] for row in rows})
    kinds = [kind for kind in EVIDENCE if any(row["evidence"] == kind for row in rows)]
    counts = {
        kind: {status: number for status in statuses if (number := sum(
            (row["evidence"], row["outcome"]) == (kind, status) for row in rows
        ))}
        for kind in kinds
    }  # fmt: skip
    of = len(rows) if of is None else of
    failed = sum(row["outcome"] == "failed" for row in rows)
    whole = {"schema_version": SCHEMA_VERSION, "counts": counts, "failed": failed, "of": of,
             "recipes": rows}  # fmt: skip
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _row(one: Reproduction | FailedRecipe) -> dict[str, str]:
    claim, name = one.recipe.claim, one.recipe.name
    row = {"recipe": name, "says": one.recipe.finding if claim is None else claim.says}
    if isinstance(one, FailedRecipe):
        return row | {"made_with": "", "evidence": "", "outcome": "failed", "reason": one.why}
    row |= {"made_with": one.made_with, "evidence": one.evidence}
    if one.outcome is None:
        return row | {"outcome": "no_claim", "reason": ""}
    reason = f"{one.outcome.reason} {one.outcome.explained}".strip()
    return row | {"outcome": one.outcome.status, "reason": reason}


def exit_code(found: Sequence[Reproduction | FailedRecipe]) -> int:
    return max((one.exit_code for one in found if isinstance(one, FailedRecipe)), default=0)
