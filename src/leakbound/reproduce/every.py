"""Every recipe, one after the other: one page and one record of all."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from leakbound.errors import Interrupted, LeakboundError
from leakbound.report.recipes.page import RecipeSection, recipes_page
from leakbound.reproduce.recipe import Recipe
from leakbound.reproduce.reproduction import Reproduction
from leakbound.reproduce.sections import failed_section, section_of

__all__ = ["FailedRecipe", "every_json", "every_page", "exit_code", "run_every"]

CRASHED = 70
LEAD = (
    "What four papers claim in their tables and figures, tested on what was measured here. A claim "
    "is shown if each of its inequalities is significant at 5 %, and reversed if the negation of "
    "one is, at 5 % divided by their number. It cannot be shown here where a ceiling or another "
    "measured fact stands against it, whatever the number of trials."
)
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class FailedRecipe:
    """A recipe that did not run to its end. That is no outcome of its claim.

    Attributes:
        recipe: The recipe.
        why: What ended it, without private text.
        exit_code: 70 for a crash, else that of the refusal.
    """

    recipe: Recipe
    why: str
    exit_code: int


def run_every(
    recipes: Iterable[Recipe],
    run: Callable[[Recipe], Reproduction],
    report: Callable[[str], None] = lambda line: None,
) -> list[Reproduction | FailedRecipe]:
    """Run recipes; one that fails does not end the others.

    Args:
        recipes: The recipes.
        run: Runs one.
        report: Called with a line about each.

    Returns:
        What each gave, in their order.

    Raises:
        Interrupted: If a limit that the user has set stopped a recipe.
    """
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
        report(f"{recipe.name}: {_said(one)}")
    return found


def _where(error: Exception) -> str:
    """Kind and place of a crash; the message stays out, it may hold private text."""
    if os.environ.get("LEAKBOUND_DEBUG"):
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    return (
        f"internal error: {type(error).__name__} in {where}. This is a fault of leakbound and no "
        "outcome of the claim."
    )


def _said(one: Reproduction | FailedRecipe) -> str:
    if isinstance(one, FailedRecipe):
        return one.why
    return "no claim" if one.outcome is None else one.outcome.words


def every_page(found: Sequence[Reproduction | FailedRecipe]) -> str:
    """One page of all.

    Args:
        found: What the recipes gave.

    Returns:
        HTML that opens from disk and makes no request.
    """
    return recipes_page("The papers' tables and figures", [_section(one) for one in found], LEAD)


def _section(one: Reproduction | FailedRecipe) -> RecipeSection:
    if isinstance(one, FailedRecipe):
        return failed_section(one.recipe, one.why)
    return section_of(one.recipe, one.measured, one.made_with, one.outcome, one.lines())


def every_json(found: Sequence[Reproduction | FailedRecipe]) -> str:
    """Outcomes by recipe.

    Args:
        found: What the recipes gave.

    Returns:
        JSON: counts of outcomes, then each recipe with its claim, outcome and reason.
    """
    rows = [_row(one) for one in found]
    statuses = sorted({row["outcome"] for row in rows})
    counts = {status: sum(row["outcome"] == status for row in rows) for status in statuses}
    whole = {"schema_version": SCHEMA_VERSION, "counts": counts, "recipes": rows}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _row(one: Reproduction | FailedRecipe) -> dict[str, str]:
    claim, name = one.recipe.claim, one.recipe.name
    row = {"recipe": name, "says": one.recipe.finding if claim is None else claim.says}
    if isinstance(one, FailedRecipe):
        return row | {"outcome": "failed", "reason": one.why}
    if one.outcome is None:
        return row | {"outcome": "no_claim", "reason": ""}
    reason = f"{one.outcome.reason} {one.outcome.explained}".strip()
    return row | {"outcome": one.outcome.status, "reason": reason}


def exit_code(found: Sequence[Reproduction | FailedRecipe]) -> int:
    """What the command ends with.

    Args:
        found: What the recipes gave.

    Returns:
        0 if every recipe ran to its end, whatever its outcome; 70 if one crashed; else the largest
        code of a refusal.
    """
    return max((one.exit_code for one in found if isinstance(one, FailedRecipe)), default=0)
