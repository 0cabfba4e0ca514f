"""Figures of influence by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leakbound.report.figures import COLORS, LINES, canvas, legend, svg
from leakbound.report.influence.spans import finest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakbound.attribution import Reading
    from leakbound.report.influence.spans import NamedReading

Floats = npt.NDArray[np.float64]
MANY = 60  # spans from which a line has no markers


def position_figures(readings: Sequence[NamedReading]) -> list[str]:
    """Influence by span, and influence of the whole context by response token."""
    from matplotlib.ticker import MaxNLocator

    shown = finest(readings[0].reading)
    what = shown.unit or f"n = {shown.n}"
    by_span, span_axes = canvas("position of the span (context token)", "influence on the response")
    by_token, token_axes = canvas("response token", "influence of the whole context")
    for at, one in enumerate(readings):
        grid, whole = finest(one.reading), one.reading.grids[-1]
        middle = np.array([(a + b + 1) / 2 for a, b in grid.spans])
        _line(span_axes, at, one.name, middle, grid.totals, "." if len(middle) < MANY else "")
        tokens = np.arange(1, len(one.reading.tokens) + 1)
        _line(token_axes, at, one.name, tokens, whole.absolute[0], ".")
    token_axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    for axes in (span_axes, token_axes):
        axes.set_ylim(bottom=0)
        legend(axes)
    return [
        svg(by_span, f"influence by position of the span, {what}"),
        svg(by_token, "influence by response token"),
    ]


def _line(axes: Axes, at: int, name: str, x: npt.ArrayLike, y: npt.ArrayLike, marker: str) -> None:
    """A line that differs from the others in colour, and in dashes once colours repeat."""
    color, dashes = COLORS[at % len(COLORS)], LINES[at // len(COLORS) % len(LINES)]
    axes.plot(x, y, color=color, ls=dashes, lw=1.4, marker=marker, label=name)


def relative_position_figure(contexts: Sequence[Sequence[NamedReading]]) -> str:
    """Mean influence of spans by their place in the context, in tenths, over all contexts."""
    if len(contexts) < 2:
        return ""
    figure, axes = canvas("place of the span in its context", "mean influence")
    readings = [one for context in contexts for one in context]
    for at, name in enumerate(dict.fromkeys(one.name for one in readings)):
        found = [_places(one.reading) for one in readings if one.name == name]
        place, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
        tenth = np.minimum((place * 10).astype(int), 9)
        present = np.unique(tenth)
        means = [value[tenth == one].mean() for one in present]
        _line(axes, at, name, (present + 0.5) / 10, means, "o")
    axes.set(xlim=(0, 1))
    axes.set_ylim(bottom=0)
    legend(axes)
    return svg(figure, "mean influence by place of the span in its context")


def _places(reading: Reading) -> tuple[Floats, Floats]:
    """Place, from 0 to 1, and influence of each of the smallest spans."""
    grid, length = finest(reading), reading.grids[-1].spans[0][1]
    return np.array([(a + b) / 2 / length for a, b in grid.spans]), grid.totals
