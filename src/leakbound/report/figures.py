"""Figures as inline SVG, in the text colour of the page, so that they read in light and dark."""

from __future__ import annotations

import html
import io
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#010203"  # stands for the page's text colour until the SVG is written
COLORS = ("#d55e00", "#0072b2", "#8a6d00", "#a0459a", "#00735c")  # told apart by every eye
LINES = ("-", "--", ":")
MEMBER, NONMEMBER, CLAIM = COLORS[:3]
TEXT_COLORS = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
Style = dict[Any, Any]  # of matplotlib
SVG: Style = {  # text as text; equal data, equal bytes
    "svg.fonttype": "none", "svg.hashsalt": "leakbound",
}  # fmt: skip
# A phone shows a figure about 1.1 times as large: no text of it is smaller than 11 px there.
WIDTH, TEXT = 4.6, 10.5  # inches; points
LONGEST = 48  # characters of a line of a legend, or of the label of an axis
LINE = 0.19  # inches of a line of a legend
SIZES = ("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize")
CANVAS: Style = {**dict.fromkeys(TEXT_COLORS, INK), **SVG, **dict.fromkeys(SIZES, TEXT)}

LEGEND: dict[str, Any] = {
    "fontsize": TEXT, "frameon": False, "labelcolor": INK, "labelspacing": 0.3,
    "handlelength": 1.5,
}  # fmt: skip


def canvas(x: str, y: str) -> tuple[Figure, Axes]:
    """An empty figure."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(CANVAS):
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel=wrapped(x), ylabel=wrapped(y, 30))
        axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def wrapped(text: str, longest: int = LONGEST) -> str:
    """The text in lines that fit."""
    return "\n".join(textwrap.wrap(text, longest, break_long_words=False)) or text


def legend(axes: Axes, place: Literal["best", "lower right"] = "best") -> None:
    """A legend without a frame."""
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles, [wrapped(name, 28) for name in names], loc=place, **LEGEND)


def legend_below(
    figure: Figure,
    handles: Sequence[Artist],
    names: Sequence[str],
    columns: int = 1,
    marker_scale: float = 1.0,
) -> float:
    """A legend below the axes."""
    lines = [wrapped(name, LONGEST // columns) for name in names]
    figure.legend(
        handles, lines, loc="outside lower left", ncols=columns, markerscale=marker_scale, **LEGEND
    )
    return LINE * sum(line.count("\n") + 1 for line in lines) / columns


def svg(figure: Figure, title: str) -> str:
    """The figure as inline SVG."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(SVG):
        figure.savefig(
            buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(title)}"', 1)
