"""A section of a page for one recipe: the words of its claim, its figures and its table."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import scipy

from leakbound_lab.reproduce.claim_tests import EXACT
from leakbound_lab.reproduce.outcomes import OUTCOMES, ClaimOutcome, TestedInequality
from leakbound_lab.reproduce.recipe import EVIDENCE, Recipe, RestsOn
from leakbound_lab.reproduce.report.figures import RecipeFigure, RecipeLine, RecipePoint
from leakbound_lab.reproduce.report.page import RecipeSection
from leakbound_lab.reproduce.values import MeasuredValue, PrintedValue, Quantity, Sample

NUMBER = re.compile(r"^(\D*?)(\d+(?:\.\d+)?(?:e-?\d+)?|∞)(\D*)$")
PARTS = re.compile(r", (?![^\[]*\])")  # not within [votes, of, labels]
MOST_PANELS, MOST_PRINTED = 4, 5
ALWAYS = (Quantity.AUDITING_ACCURACY, Quantity.RESAMPLED, Quantity.AUROC)
ENDS = " Bars are 95 % t intervals over what was drawn."
PRINTED = " Hollow marks are what the paper prints."
CEILING = " The dashed line is the largest value that is possible."


@dataclass(frozen=True, slots=True)
class _Spot:
    """The parts of a setting: numbers by name, and the other words."""

    numbers: Mapping[str, float]
    parts: tuple[tuple[str, str], ...]  # (name of the number or "", text)

    def rest(self, without: str) -> str:
        return ", ".join(text for name, text in self.parts if name != without)


def figures_of_recipe(recipe: Recipe, measured: Sequence[MeasuredValue]) -> list[RecipeFigure]:
    """The figures of a recipe: one for each quantity in the paper's values or its claim."""
    spoken = {str(row.quantity) for row in recipe.printed} | set(map(str, ALWAYS))
    if recipe.claim is not None:
        spoken |= {str(side.quantity) for one in recipe.claim.holds
                   for side in (one.larger, one.smaller)}  # fmt: skip
    quantities = dict.fromkeys(str(m.quantity) for m in measured if str(m.quantity) in spoken)
    found = [
        figure
        for quantity in quantities
        for figure in _figures(
            recipe,
            quantity,
            [m for m in measured if m.quantity == quantity],
            [p for p in recipe.printed if p.quantity == quantity and not isinstance(p.value, str)],
        )
    ]
    return found[:MOST_PANELS]


def _figures(
    recipe: Recipe, quantity: str, measured: list[MeasuredValue], printed: list[PrintedValue]
) -> Iterable[RecipeFigure]:
    """Group settings that share a varying number into figures; draw the others by name."""
    finite = [m for m in measured if math.isfinite(m.value)]
    lost, groups = len(measured) - len(finite), list[tuple[str, list[MeasuredValue]]]()
    left = finite
    while name := _variable([m.setting for m in left]):
        groups.append((name, [m for m in left if name in _spot(m.setting).numbers]))
        left = [m for m in left if name not in _spot(m.setting).numbers]
    if len(groups) == 1 and left:
        yield _by_number(recipe, quantity, *groups[0], left, printed, lost)
        return
    for name, group in groups:
        yield _by_number(recipe, quantity, name, group, [], printed, lost)
    if left and (len(left) > 1 or not groups):
        yield _by_name(recipe, quantity, left, printed, lost)


def _spot(setting: str) -> _Spot:
    numbers, parts = dict[str, float](), []
    for text in PARTS.split(setting):
        match = NUMBER.match(text)
        name = ""
        if match:
            name = f"{match[1].strip(' =')} {match[3].strip()}".strip() or "number"
            numbers[name] = math.inf if match[2] == "∞" else float(match[2])
        parts.append((name, text))
    return _Spot(numbers, tuple(parts))


def _variable(settings: Sequence[str]) -> str:
    """The number with the most values, or the first of several; "" if none has two values."""
    values: dict[str, set[float]] = {}
    for setting in settings:
        for name, number in _spot(setting).numbers.items():
            values.setdefault(name, set()).add(number)
    best = max(values, key=lambda name: len(values[name]), default="")
    return best if best and len(values[best]) > 1 else ""


def _by_number(
    recipe: Recipe,
    quantity: str,
    name: str,
    group: list[MeasuredValue],
    across: list[MeasuredValue],
    printed: list[PrintedValue],
    lost: int,
) -> RecipeFigure:
    numbers = sorted({_spot(m.setting).numbers[name] for m in group})
    endless = math.isinf(numbers[-1])
    place = {number: float(at) if endless else number for at, number in enumerate(numbers)}
    series: dict[str, list[RecipePoint]] = {}
    tops: dict[float, float] = {}
    for m in group:
        spot = _spot(m.setting)
        x = place[spot.numbers[name]]
        series.setdefault(spot.rest(name), []).append(_point(x, m))
        if m.ceiling is not None:
            tops[x] = max(tops.get(x, m.ceiling), m.ceiling)
    lines = [
        RecipeLine(text or "this run", "measured", _in_order(points))
        for text, points in series.items()
    ]
    lines += [RecipeLine(m.setting, "measured", (_point(0, m),), True) for m in across]
    numbered = [(p, _spot(p.setting).numbers.get(name, math.nan)) for p in printed]
    marks = [(p, place[number]) for p, number in numbered if number in place]
    lines += _lines_of_paper(marks)
    lines += _upper_line(tops)
    ticks = tuple("∞" if math.isinf(n) else f"{n:g}" for n in numbers) if endless else ()
    return _figure(recipe, quantity, name, ticks, lines, lost)


def _by_name(
    recipe: Recipe,
    quantity: str,
    group: list[MeasuredValue],
    printed: list[PrintedValue],
    lost: int,
) -> RecipeFigure:
    place = {m.setting: float(at) for at, m in enumerate(group)}
    points = [_point(place[m.setting], m) for m in group]
    tops = {place[m.setting]: m.ceiling for m in group if m.ceiling is not None}
    marks = [(p, place[p.setting]) for p in printed if p.setting in place]
    lines = [
        RecipeLine("this run", "measured", _in_order(points)), *_lines_of_paper(marks),
        *_upper_line(tops),
    ]  # fmt: skip
    return _figure(recipe, quantity, "", tuple(place), lines, lost)


def _figure(
    recipe: Recipe,
    quantity: str,
    x: str,
    ticks: tuple[str, ...],
    lines: list[RecipeLine],
    lost: int,
) -> RecipeFigure:
    kinds = {line.kind for line in lines}
    bars = any(high > low for line in lines for *_, low, high in line.points)
    first = quantity[0].upper() if quantity[0].isascii() else quantity[0]
    caption = f"{first}{quantity[1:]}." + (ENDS if bars else "")
    caption += (PRINTED if "printed" in kinds else "") + (CEILING if "ceiling" in kinds else "")
    if lost:
        caption += f" {lost} {'value is' if lost == 1 else 'values are'} not finite, and left out."
    title = f"{recipe.name}: {quantity}" + (f" over {x}" if x else "")
    return RecipeFigure(title, x, quantity, ticks, tuple(lines), caption)


def _lines_of_paper(marks: Sequence[tuple[PrintedValue, float]]) -> list[RecipeLine]:
    """A line for each place in the paper, or one line for all if there are many places."""
    by_place: dict[str, list[RecipePoint]] = {}
    for p, x in marks:
        y = float(p.value)
        by_place.setdefault(p.where, []).append((x, y, y, y))
    if len(by_place) > MOST_PRINTED:
        every = [point for points in by_place.values() for point in points]
        by_place = {"": every}
    return [
        RecipeLine(f"the paper, {where}" if where else "the paper", "printed", _in_order(points))
        for where, points in by_place.items()
    ]


def _upper_line(tops: Mapping[float, float]) -> list[RecipeLine]:
    points = [(x, y, y, y) for x, y in sorted(tops.items()) if math.isfinite(y)]
    return [RecipeLine("ceiling", "ceiling", tuple(points))] if points else []


def _in_order(points: list[RecipePoint]) -> tuple[RecipePoint, ...]:
    return tuple(sorted(points, key=lambda point: point[0]))


def _point(x: float, m: MeasuredValue) -> RecipePoint:
    same = m.sample is not None and (not m.sample.what or m.quantity in ALWAYS[:1])
    half = _half(m.sample) if m.sample is not None and same else 0.0
    low, high = m.value - half, m.value + half
    if "%" in m.quantity:
        low, high = max(low, min(0.0, m.value)), min(high, max(100.0, m.value))
    return x, m.value, low, high


def _half(sample: Sample) -> float:
    """Half the width of the 95 % t interval of a mean; 0 for a single unit."""
    if sample.deviation is None:
        return 0.0
    return (
        float(scipy.special.stdtrit(sample.n - 1, 0.975)) * sample.deviation / math.sqrt(sample.n)
    )


HEAD = ("setting", "quantity", "the paper prints", "this run")
MOST_ROWS = 12  # of a table of tests
TESTS = ("it holds that", "of", "values", "p", "p of the opposite", "test", "outcome")


def section_of(
    recipe: Recipe,
    measured: Sequence[MeasuredValue],
    made_with: str,
    outcome: ClaimOutcome | None,
    rows: Sequence[Sequence[str]],
    evidence: RestsOn,
) -> RecipeSection:
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
        evidence=EVIDENCE[evidence],
    )


def section_of_failure(recipe: Recipe, why: str) -> RecipeSection:
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
        _p_value(one, one.opposite), test, OUTCOMES[one.status],
    )  # fmt: skip


def _p_value(one: TestedInequality, value: float | None) -> str:
    return "–" if one.test == EXACT or value is None else f"{value:.2g}"
