"""The figures of a sweep: for its page, and as files for a paper."""

from __future__ import annotations

import csv
import io
from itertools import cycle
from typing import TYPE_CHECKING, Any

from leakbound.report.figures import (
    CLAIM,
    COLORS,
    INK,
    LINES,
    SLANT,
    Chart,
    Plot,
    name_ticks,
    number_ticks,
    wrap_lines,
)
from leakbound.report.sweep.figure_data import REFERENCES, FigureData, Series, figures_of

if TYPE_CHECKING:
    from leakbound.sweeping import SweepRecord

FORMATS = ("svg", "pdf", "png", "csv")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p", "d", "8", "H")
WIDE = 8  # times the least value from which an axis is logarithmic
PNG_DPI = 200
LOOK: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "leakbound",
    "pdf.fonttype": 42,
    "font.size": 10.5,
}
LOOKS = [
    (COLORS[at % len(COLORS)], LINES[at % len(LINES)], marker) for at, marker in enumerate(MARKERS)
]
METADATA: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}  # nothing that differs between equal figures
SPREAD = (
    "marker: median of {repeats} repeats; band or bar: least to largest (spread, no confidence "
    "bound)"
)


REFERENCE_LOOKS = {  # colour, dashes, width, marker
    "exact": (INK, ":", 1.4, "x"), "claim": (CLAIM, "--", 1.2, ""),
    "zero_shot": (INK, ":", 1.2, ""), "non_private": (INK, "-.", 1.2, ""),
}  # fmt: skip


def figure_files(record: SweepRecord, formats: tuple[str, ...]) -> dict[str, str | bytes]:
    return {
        f"{figure.name}.{name}": _file(figure, name)
        for figure in figures_of(record)
        for name in formats
    }


def _file(data: FigureData, name: str) -> str | bytes:
    """A figure in a format for papers; matplotlib draws all but the table."""
    if name == "csv":
        return figure_csv(data)
    import matplotlib
    from matplotlib.figure import Figure

    made, chart = io.BytesIO(), chart_of(data)
    with matplotlib.rc_context(LOOK):
        figure = Figure(figsize=(4.6, 4.6), layout="constrained")
        axes = figure.add_subplot(xlabel=wrap_lines(chart.x), ylabel=wrap_lines(chart.y, 30))
        axes.spines[["top", "right"]].set_visible(False)
        for mark in chart.marks:
            color, known = ("black" if mark.color == INK else mark.color), bool(len(mark.x))
            look: dict[str, Any] = {"color": color, "alpha": mark.alpha, "lw": mark.width}
            look["label"] = wrap_lines(mark.name) or "_"
            if len(mark.low):
                axes.fill_between(mark.x, mark.low, mark.y, **look | {"lw": 0})
                continue
            look |= {"ls": mark.dashes, "marker": mark.marker, "ms": mark.size}
            if not known:
                look["transform"] = axes.get_yaxis_transform()
            axes.plot(mark.x if known else (0, 1), [*mark.y] * (1 if known else 2), **look)
            for x, y, label in zip(mark.x, mark.y, mark.labels, strict=False):
                axes.annotate(label, (x, y), xytext=(4, 4), textcoords="offset points")
        axes.set(xscale="log" if chart.x_log else "linear", ylim=chart.y_ends)
        if chart.x_ticks:
            turned: dict[str, Any] = {"rotation": SLANT, "ha": "right", "rotation_mode": "anchor"}
            axes.set_xticks(*zip(*chart.x_ticks, strict=True), **turned if chart.slanted else {})
            axes.minorticks_off()
        figure.legend(loc="outside lower left", frameon=False)
        figure.savefig(made, format=name, metadata=METADATA[name], dpi=PNG_DPI, facecolor="white")
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


def chart_of(data: FigureData) -> Chart:
    chart, looks = Chart(f"{data.title}: {data.y} over {data.x}", data.x, data.y), cycle(LOOKS)
    for series in data.series:
        if series.kind in REFERENCE_LOOKS:
            chart.marks += _reference(data, series)
            continue
        color, dashes, marker = next(looks)
        x, y = _middles(series)
        joined = data.connected and len(x) > 1
        if data.repeats > 1:
            chart.marks += _spread(series, color, joined)
        labels = [one.label for one in series.points] if data.name == "frontier" else ()
        chart.marks.append(
            Plot(x, y, color, series.name, dashes * joined, 1.8, marker, labels=labels)
        )
    places = sorted({point.x.middle for series in data.series for point in series.points})
    if data.ticks:
        name_ticks(chart, data.ticks)
    elif data.connected and len(places) > 1:
        chart.x_log = places[0] > 0 and places[-1] / places[0] >= WIDE
        number_ticks(chart, places)
    values = [point.y.high for series in data.series for point in series.points]
    top = 1.0 if data.name != "bound" else max((*values, 1e-3))
    chart.y_ends = (-0.03 * top, (1.03 if data.name != "bound" else 1.05) * top)
    if data.repeats > 1:  # say what a band is: it looks like a confidence band
        said = SPREAD.format(repeats=data.repeats)
        chart.marks.append(Plot((), (), INK, said, alpha=0.18, low=(0.0,)))
    return chart


def _reference(data: FigureData, series: Series) -> list[Plot]:
    """A line over x; references of a frontier lie across it."""
    color, dashes, width, marker = REFERENCE_LOOKS[series.kind]
    if not data.connected and series.kind in REFERENCES:
        levels = sorted({point.y.middle for point in series.points})
        names = [series.name] + [""] * len(levels)
        return [
            Plot((), (level,), color, name, dashes, width)
            for level, name in zip(levels, names, strict=False)
        ]
    if len(series.points) == 1 or data.ticks:
        return [Plot(*_middles(series), color, series.name, "", 1.6, "_", 14)]
    return [Plot(*_middles(series), color, series.name, dashes, width, marker)]


def _middles(series: Series) -> tuple[list[float], list[float]]:
    points = series.points
    return [point.x.middle for point in points], [point.y.middle for point in points]


def _spread(series: Series, color: str, connected: bool) -> list[Plot]:
    """From the least to the largest of the repeats: a band along a line, bars elsewhere."""
    points = series.points
    if connected:
        low, high = [one.y.low for one in points], [one.y.high for one in points]
        return [Plot(_middles(series)[0], high, color, alpha=0.18, low=low)]
    bars = [((x.middle,) * 2, (y.low, y.high)) for x, y in ((one.x, one.y) for one in points)]
    bars += [((x.low, x.high), (y.middle,) * 2) for x, y in ((one.x, one.y) for one in points)]
    return [Plot(*bar, color, width=1, alpha=0.7) for bar in bars]
