"""Figures as inline SVG, in the text colour of the page, so that they read in light and dark."""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CLAIM", "COLORS", "INK", "LINES", "MEMBER", "NONMEMBER", "canvas", "legend", "svg"]

INK = "#010203"  # stands for the page's text colour until the SVG is written
COLORS = ("#d55e00", "#0072b2", "#8a6d00", "#a0459a", "#00735c")  # told apart by every eye
LINES = ("-", "--", ":")
MEMBER, NONMEMBER, CLAIM = COLORS[:3]
TEXT_COLORS = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
Style = dict[Any, Any]  # of matplotlib
SVG: Style = {  # text as text; equal data, equal bytes
    "svg.fonttype": "none", "svg.hashsalt": "leakbound",
}  # fmt: skip
CANVAS: Style = {**dict.fromkeys(TEXT_COLORS, INK), **SVG, "font.size": 9}


def canvas(x: str, y: str) -> tuple[Figure, Axes]:
    """An empty figure.

    Args:
        x: Label of the x axis.
        y: Label of the y axis.

    Returns:
        The figure and its axes.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(CANVAS):
        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel=x, ylabel=y)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def legend(axes: Axes, place: Literal["best", "lower right"] = "best") -> None:
    """A legend without a frame.

    Args:
        axes: Of a canvas, with named lines.
        place: As in matplotlib.
    """
    axes.legend(fontsize=8, frameon=False, labelcolor=INK, loc=place)


def svg(figure: Figure, title: str) -> str:
    """The figure as inline SVG.

    Args:
        figure: Of a canvas.
        title: What it shows, for screen readers.

    Returns:
        An svg element without metadata.
    """
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
