"""A section of a page for one recipe: the words of its claim, its figures and its table."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.report.recipes.page import RecipeSection
from leakbound.reproduce.claim_tests import EXACT
from leakbound.reproduce.figure_data import figures_of_recipe
from leakbound.reproduce.outcomes import OUTCOMES, ClaimOutcome, TestedInequality
from leakbound.reproduce.recipe import Recipe
from leakbound.reproduce.values import MeasuredValue

HEAD = ("setting", "quantity", "the paper prints", "this run")
MOST_ROWS = 12  # of a table of tests
TESTS = ("it holds that", "of", "values", "p", "p of the opposite", "test", "outcome")


def section_of(
    recipe: Recipe,
    measured: Sequence[MeasuredValue],
    made_with: str,
    outcome: ClaimOutcome | None,
    rows: Sequence[Sequence[str]],
) -> RecipeSection:
    """The section of a recipe."""
    tested = () if outcome is None else outcome.tested
    return RecipeSection(
        name=recipe.name,
        title=recipe.title,
        says=recipe.finding if recipe.claim is None else recipe.claim.says,
        status="" if outcome is None else outcome.status,
        outcome="no claim that can be tested" if outcome is None else outcome.words,
        reason="" if outcome is None else f"{outcome.reason} {outcome.explained}".strip(),
        tests=TESTS,
        inequalities=_rows(tested),
        head=HEAD,
        rows=rows,
        figures=figures_of_recipe(recipe, measured),
        notes={"What differs": recipe.differences, "Made with": made_with},
    )


def failed_section(recipe: Recipe, why: str) -> RecipeSection:
    """The section of a recipe that did not run to its end. This says nothing about its claim."""
    says = recipe.finding if recipe.claim is None else recipe.claim.says
    return RecipeSection(recipe.name, recipe.title, says, "failed", "did not run to its end", why)


def _rows(tested: Sequence[TestedInequality]) -> list[tuple[str, ...]]:
    """All inequalities, or, if there are many, those not shown and the number of the others."""
    if len(tested) <= MOST_ROWS:
        return [_row(one) for one in tested]
    rows = [_row(one) for one in tested if one.status != "shown"][:MOST_ROWS]
    rest = len(tested) - len(rows)
    return [*rows, (f"{rest} more, in the JSON file", *("" for _ in TESTS[1:]))]


def _row(one: TestedInequality) -> tuple[str, ...]:
    test = f"{one.test}, {one.units}" if one.units else one.test
    return (
        one.text, one.quantity, one.values or "–", _p_value(one, one.claimed),
        _p_value(one, one.opposite), test,
        OUTCOMES[one.status],
    )  # fmt: skip


def _p_value(one: TestedInequality, value: float | None) -> str:
    return "–" if one.test == EXACT else _p(value)


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
