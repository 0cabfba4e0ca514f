"""The figures of a sweep: for its page, and as files for a paper."""

from __future__ import annotations

import csv
import io
from itertools import cycle
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from leakbound.report.figures import (
    CLAIM,
    COLORS,
    INK,
    LINES,
    SVG,
    TEXT,
    WIDTH,
    canvas,
    legend_below,
    name_places,
    number_places,
    svg,
)
from leakbound.report.sweep.figure_data import REFERENCES, FigureData, Series, figures_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from leakbound.sweeping import SweepRecord

FORMATS = ("svg", "pdf", "png", "csv")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p", "d", "8", "H")
WIDE = 8  # times the least value from which an axis is logarithmic
PNG_DPI = 200
METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}  # nothing that differs between equal figures
SPREAD = (
    "marker: median of {repeats} repeats; band or bar: least to largest (spread, no confidence "
    "bound)"
)


class _Look(NamedTuple):
    """Colour, dashes and marker: series differ without colour too."""

    color: str
    dashes: str
    marker: str


class _LineStyle(TypedDict):
    color: str
    linestyle: str
    linewidth: float
    marker: str


LOOKS = tuple(
    _Look(COLORS[at % len(COLORS)], LINES[at % len(LINES)], marker)
    for at, marker in enumerate(MARKERS)
)
REFERENCE_LOOKS: dict[str, _LineStyle] = {
    "exact": {"color": INK, "linestyle": ":", "linewidth": 1.4, "marker": "x"},
    "claim": {"color": CLAIM, "linestyle": "--", "linewidth": 1.2, "marker": ""},
    "zero_shot": {"color": INK, "linestyle": ":", "linewidth": 1.2, "marker": ""},
    "non_private": {"color": INK, "linestyle": "-.", "linewidth": 1.2, "marker": ""},
}


def figure_svg(data: FigureData) -> str:
    return svg(_draw(data), f"{data.title}: {data.y} over {data.x}")


def figure_files(record: SweepRecord, formats: tuple[str, ...]) -> dict[str, str | bytes]:
    return {
        f"{figure.name}.{name}": _file(figure, name)
        for figure in figures_of(record)
        for name in formats
    }


def _file(data: FigureData, name: str) -> str | bytes:
    if name == "csv":
        return figure_csv(data)
    import matplotlib

    made = io.BytesIO()
    with matplotlib.rc_context({**SVG, "pdf.fonttype": 42}):
        _draw(data).savefig(
            made, format=name, metadata=METADATA[name], dpi=PNG_DPI, facecolor="white"
        )
    return made.getvalue()


def figure_csv(figure: FigureData) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow((
        "series", "kind", "setting", "repeats", "x", "x_low", "x_high", "y", "y_low", "y_high",
    ))  # fmt: skip
    for series in figure.series:
        for point in series.points:
            x, y = point.x, point.y
            writer.writerow((
                series.name, series.kind, point.setting, point.repeats, x.middle, x.low, x.high,
                y.middle, y.low, y.high,
            ))  # fmt: skip
    return file.getvalue()


def _draw(data: FigureData) -> Figure:
    from matplotlib.patches import Patch

    figure, axes = canvas(data.x, data.y)
    looks = cycle(LOOKS)
    for series in data.series:
        if series.kind in REFERENCE_LOOKS:
            _draw_reference(axes, data, series)
        else:
            look = next(looks)
            x, y = _middles(series)
            dashes = look.dashes if data.connected and len(x) > 1 else ""
            style = {"color": look.color, "ls": dashes, "marker": look.marker}
            axes.plot(x, y, ms=5, lw=1.8, label=series.name, **style)  # type: ignore[arg-type]
            if data.repeats > 1:
                _draw_spread(axes, series, look.color, bool(dashes))
            if data.name == "frontier":
                for point in series.points:
                    axes.annotate(
                        point.label, (point.x.middle, point.y.middle), xytext=(4, 4),
                        textcoords="offset points", fontsize=TEXT, color=INK,
                    )  # fmt: skip
    below = _scale_x(axes, data)
    values = [point.y.high for series in data.series for point in series.points]
    if data.name != "bound":
        axes.set_ylim(-0.03, 1.03)
    elif values:
        top = max(*values, 1e-3)
        axes.set_ylim(-0.03 * top, 1.05 * top)
    handles, names = axes.get_legend_handles_labels()
    if data.repeats > 1:  # say what a band is: it looks like a confidence band
        handles.append(Patch(color=INK, alpha=0.18, lw=0))
        names.append(SPREAD.format(repeats=data.repeats))
    figure.set_size_inches(WIDTH, 3.0 + below + legend_below(figure, handles, names))
    return figure


def _draw_reference(axes: Axes, data: FigureData, series: Series) -> None:
    """A line over x; references of a frontier lie across it."""
    look = REFERENCE_LOOKS[series.kind]
    if not data.connected and series.kind in REFERENCES:
        for at, value in enumerate(sorted({point.y.middle for point in series.points})):
            axes.axhline(value, label="_" if at else series.name, **look)
        return
    x, y = _middles(series)
    if len(x) == 1 or data.ticks:
        dash: Literal["_"] = "_"
        axes.plot(x, y, ls="", marker=dash, ms=14, mew=1.6, color=look["color"], label=series.name)
        return
    axes.plot(x, y, label=series.name, **look)


def _middles(series: Series) -> tuple[list[float], list[float]]:
    points = series.points
    return [point.x.middle for point in points], [point.y.middle for point in points]


def _draw_spread(axes: Axes, series: Series, color: str, connected: bool) -> None:
    """From the least to the largest of the repeats: a band along a line, bars elsewhere."""
    x, y = _middles(series)
    low, high = [p.y.low for p in series.points], [p.y.high for p in series.points]
    if connected:
        axes.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
        return
    left, right = [p.x.low for p in series.points], [p.x.high for p in series.points]
    axes.vlines(x, low, high, color=color, lw=1, alpha=0.7)
    axes.hlines(y, left, right, color=color, lw=1, alpha=0.7)


def _scale_x(axes: Axes, data: FigureData) -> float:
    """Logarithmic where values span much; or names, whose height it gives."""
    places = sorted({point.x.middle for series in data.series for point in series.points})
    if data.ticks:
        return name_places(axes, data.ticks)
    if data.connected and len(places) > 1:
        if places[0] > 0 and places[-1] / places[0] >= WIDE:
            axes.set_xscale("log")
        number_places(axes, places)
    return 0.0
