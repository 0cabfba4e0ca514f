"""A table of a paper as a figure: measured values, printed values, and what is possible at most."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from leakbound.report.figures import (
    CLAIM,
    COLORS,
    INK,
    LINES,
    Chart,
    Mark,
    name_ticks,
    number_ticks,
    svg,
)

HOLLOW = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
WIDE = 8  # times the least value from which an axis is logarithmic


@dataclass(frozen=True, slots=True)
class RecipePoint:
    """A point with the ends of its interval, which are equal to y where there is none."""

    x: float
    y: float
    low: float
    high: float


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
        x = () if line.across else [p.x for p in line.points]
        y = [p.y for p in line.points[: 1 if line.across else None]]
        if line.kind == "ceiling":
            x, y, dash = ((), y[:1], "") if len(set(y)) == 1 else (x, y, "_")
            chart.marks.append(Mark(x, y, CLAIM, line.name, "--", 1.2, dash, 9))
        elif line.kind == "printed":
            marker = next(hollow)
            chart.marks.append(Mark(x, y, INK, line.name, "", 1, marker, 7, hollow=True))
        else:
            at = next(looks)
            color, dash = COLORS[at % len(COLORS)], LINES[at % len(LINES)]
            joined = line.across or (len(x) > 1 and not (data.ticks and len(x) > 6))
            marker, dash = "" if line.across else HOLLOW[at], dash if joined else ""
            chart.marks.append(Mark(x, y, color, line.name, dash, 1.6, marker))
            chart.marks += [
                Mark((p.x, p.x), (p.low, p.high), color, width=1, alpha=0.7)
                for p in line.points if p.high > p.low and not line.across
            ]  # fmt: skip
    _scale(chart, data)
    return svg(chart)


def _scale(chart: Chart, data: RecipeFigure) -> None:
    if data.ticks:
        name_ticks(chart, data.ticks)
        return
    places = sorted({p.x for line in data.lines for p in line.points if not line.across})
    chart.x_log = len(places) > 1 and places[0] > 0 and places[-1] / places[0] >= WIDE
    if chart.x_log or 0 < len(places) <= 10:
        number_ticks(chart, places)
