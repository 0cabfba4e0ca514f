"""Figures as inline SVG, in the text colour of the page, so that they read in light and dark."""

from __future__ import annotations

import html
import io
import math
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
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(CANVAS):
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.set(xlabel=wrap_lines(x), ylabel=wrap_lines(y, 30))
        axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def wrap_lines(text: str, longest: int = LONGEST) -> str:
    return "\n".join(textwrap.wrap(text, longest, break_long_words=False)) or text


def legend(axes: Axes, place: Literal["best", "lower right"] = "best") -> None:
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles, [wrap_lines(name, 28) for name in names], loc=place, **LEGEND)


def legend_below(
    figure: Figure,
    handles: Sequence[Artist],
    names: Sequence[str],
    columns: int = 1,
    marker_scale: float = 1.0,
) -> float:
    lines = [wrap_lines(name, LONGEST // columns) for name in names]
    figure.legend(
        handles, lines, loc="outside lower left", ncols=columns, markerscale=marker_scale, **LEGEND
    )
    return LINE * sum(line.count("\n") + 1 for line in lines) / columns


def svg(figure: Figure, title: str) -> str:
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


ROOM = 260.0  # points that an axis has
LETTER, SLANTED_LINE = 6.0, 15.0  # points of a letter, and of a slanted line
SLANT = 60  # degrees
LONGEST_NAME = 48  # characters of a name; the table has all of it


def name_places(axes: Axes, names: Sequence[str], at: Sequence[float] = ()) -> float:
    """Name places of the x axis: level where all names have room, else slanted."""
    if not names:
        return 0.0
    places, room = list(at or range(len(names))), ROOM / len(names)
    if max(map(len, names)) * LETTER <= room - LETTER:
        axes.set_xticks(places, list(names))
        return 0.0
    step = math.ceil(SLANTED_LINE / room)
    lines, shown = int(room * step // SLANTED_LINE), list[str]()
    for name in names[::step]:
        short = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
        shown.append(wrap_lines(short, max(12, math.ceil(len(short) / lines) + 2)))
    axes.set_xticks(places[::step], shown, rotation=SLANT, ha="right", rotation_mode="anchor")
    longest = max(len(line) for name in shown for line in name.split("\n"))
    return longest * LETTER * math.sin(math.radians(SLANT)) / 72


def number_places(axes: Axes, places: Sequence[float]) -> None:
    """Numbers at places of the x axis, as far as they have room."""
    written = [f"{place:g}" for place in places]
    spots = [math.log(place) for place in places] if (axes.get_xscale() == "log") else list(places)
    scale = ROOM / ((spots[-1] - spots[0]) or 1.0)
    shown: list[int] = []
    for here, spot in enumerate(spots):
        if shown:
            letters = (len(written[here]) + len(written[shown[-1]])) / 2 + 1
            if (spot - spots[shown[-1]]) * scale < letters * LETTER:
                continue
        shown.append(here)
    axes.set_xticks([places[one] for one in shown], [written[one] for one in shown])
    axes.minorticks_off()
