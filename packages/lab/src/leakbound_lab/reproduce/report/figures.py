"""A table of a paper as a figure: measured values, printed values, and what is possible at most."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

from leakbound.report.figures import (
    CLAIM,
    COLORS,
    INK,
    LINES,
    WIDTH,
    canvas,
    legend_below,
    name_places,
    number_places,
    svg,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
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
    figure, axes = canvas(data.x, data.y)
    looks, hollow = cycle(range(len(MARKERS))), cycle(HOLLOW)
    for line in data.lines:
        if line.kind == "ceiling":
            _draw_ceiling(axes, line)
        elif line.kind == "printed":
            x, y = [p.x for p in line.points], [p.y for p in line.points]
            look: dict[str, Any] = {"ls": "", "ms": 7, "mfc": "none", "mec": INK, "mew": 1}
            axes.plot(x, y, marker=next(hollow), label=line.name, **look)
        else:
            _draw_measured(axes, line, next(looks), bool(data.ticks))
    _legend(figure, axes, data.lines, _scale(axes, data))
    return svg(figure, data.title)


def _draw_measured(axes: Axes, line: RecipeLine, at: int, named: bool) -> None:
    color, dash = COLORS[at % len(COLORS)], LINES[at % len(LINES)]
    if line.across:
        axes.axhline(line.points[0].y, color=color, ls=dash, lw=1.2, label=line.name)
        return
    x, y = [p.x for p in line.points], [p.y for p in line.points]
    joined = dash if len(x) > 1 and not (named and len(x) > 6) else ""
    axes.plot(x, y, color=color, ls=joined, marker=MARKERS[at], ms=5, lw=1.6, label=line.name)
    spread = [p for p in line.points if p.high > p.low]
    axes.vlines([p.x for p in spread], [p.low for p in spread], [p.high for p in spread],
                color=color, lw=1, alpha=0.7)  # fmt: skip


def _draw_ceiling(axes: Axes, line: RecipeLine) -> None:
    x, y = [p.x for p in line.points], [p.y for p in line.points]
    if line.across or len(set(y)) == 1:
        axes.axhline(y[0], color=CLAIM, ls="--", lw=1.2, label=line.name)
    else:
        axes.plot(x, y, color=CLAIM, ls="--", lw=1.2, marker="_", ms=9, label=line.name)


def _scale(axes: Axes, data: RecipeFigure) -> float:
    """Scale the x axis; the height that names of places take."""
    if data.ticks:
        return name_places(axes, data.ticks)
    places = sorted({p.x for line in data.lines for p in line.points if not line.across})
    if len(places) > 1 and places[0] > 0 and places[-1] / places[0] >= WIDE:
        axes.set_xscale("log")
    if len(places) <= 10 or axes.get_xscale() == "log":
        number_places(axes, places)
    return 0.0


def _legend(figure: Figure, axes: Axes, lines: Sequence[RecipeLine], below: float) -> None:
    """Below the axes, with room for each line."""
    handles, names = axes.get_legend_handles_labels()
    if len(lines) > 1 or (names and names[0]):
        below += legend_below(figure, handles, names)
    figure.set_size_inches(WIDTH, 3.0 + below)
