"""A table of a paper as a figure: measured values, printed values, and what is possible at most."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal

from leakbound.report.figures import (
    CLAIM,
    COLORS,
    LINES,
    Chart,
    Plot,
    name_ticks,
    number_ticks,
    svg,
)

HOLLOW = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
# x, y, and the ends of an interval, which are equal to y where there is none
RecipePoint = tuple[float, float, float, float]
WIDE = 8  # times the least value from which an axis is logarithmic


@dataclass(frozen=True, slots=True)
class RecipeLine:
    name: str
    kind: Literal["measured", "printed", "ceiling"]
    points: tuple[RecipePoint, ...]
    across: bool = False


@dataclass(frozen=True, slots=True)
class RecipeFigure:
    title: str
    x: str
    y: str
    ticks: tuple[str, ...]
    lines: tuple[RecipeLine, ...]
    caption: str


@functools.lru_cache(maxsize=512)  # a page of one recipe and a page of all show the same
def recipe_svg(data: RecipeFigure) -> str:
    chart, looks, hollow = Chart(data.title, data.x, data.y), cycle(range(9)), cycle(HOLLOW)
    for line in data.lines:
        x, y, low, high = zip(*line.points, strict=True)
        if line.across or (line.kind == "ceiling" and len({*y}) == 1):
            x, y = (), y[:1]
        if line.kind == "ceiling":
            chart.marks.append(Plot(x, y, CLAIM, line.name, "--", 1.2, "_" if x else "", 9))
            continue
        if line.kind == "printed":
            look: dict[str, Any] = {"dashes": "", "width": 1, "size": 7, "hollow": True}
            chart.marks.append(Plot(x, y, name=line.name, marker=next(hollow), **look))
            continue
        at = next(looks)
        color, dashes = COLORS[at % len(COLORS)], LINES[at % len(LINES)]
        joined = not x or (len(x) > 1 and not (data.ticks and len(x) > 6))
        marker = HOLLOW[at] if x else ""
        chart.marks.append(Plot(x, y, color, line.name, dashes * joined, 1.6, marker))
        for place, *ends in zip(x, low, high, strict=False):
            if ends[0] < ends[1]:
                chart.marks.append(Plot((place, place), ends, color, width=1, alpha=0.7))
    places = sorted({x for line in data.lines for x, *_ in line.points if not line.across})
    if data.ticks:
        name_ticks(chart, data.ticks)
    elif places:
        chart.x_log = places[0] > 0 and places[-1] / places[0] >= WIDE
        if chart.x_log or len(places) <= 10:
            number_ticks(chart, places)
    return svg(chart)
