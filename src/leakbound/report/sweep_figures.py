"""The figures of a sweep: for its page, and as files for a paper."""

from __future__ import annotations

import io
from itertools import chain
from typing import TYPE_CHECKING, Any

from leakbound.report.figures import CLAIM, INK, _canvas, _svg
from leakbound.report.sweep_views import Curve, View, view_csv, views_of

if TYPE_CHECKING:
    from leakbound.sweeping import SweepRecord

__all__ = ["FORMATS", "figure_files", "view_svg"]

FORMATS = ("svg", "pdf", "png", "csv")
LOOKS = tuple(zip(
    ("#d55e00", "#0072b2", "#8a6d00", "#a0459a", "#00735c") * 3, ("-", "--", ":") * 5,
    ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p", "d", "8", "H"), strict=True,
))  # colours that differ for every eye, and line and marker that differ without colour  # fmt: skip
REFERENCES: dict[str, dict[str, Any]] = {
    "exact": {"color": INK, "ls": ":", "marker": "x"}, "claim": {"color": CLAIM, "ls": "--", "lw": 1.2},
    "floor": {"color": INK, "ls": ":", "lw": 1.2}, "ceiling": {"color": INK, "ls": "-.", "lw": 1.2},
}  # fmt: skip
WIDE = 8  # times the least value from which an axis is logarithmic
PNG_DPI = 200


def view_svg(view: View) -> str:
    """Inline SVG in the page's own text colour."""
    return _svg(_figure(view), f"{view.title}: {view.y} over {view.x}")


def figure_files(record: SweepRecord, formats: tuple[str, ...]) -> dict[str, str | bytes]:
    """Every figure in every format by file name; csv: its numbers."""
    return {
        f"{view.name}.{name}": _file(view, name) for view in views_of(record) for name in formats
    }


def _file(view: View, name: str) -> str | bytes:
    if name == "csv":
        return view_csv(view)
    import matplotlib

    made = io.BytesIO()
    dates = {
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "png": {"Software": None},
    }
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "leakbound", "pdf.fonttype": 42}
    with matplotlib.rc_context(style):
        _figure(view).savefig(
            made, format=name, metadata=dates[name], dpi=PNG_DPI, facecolor="white"
        )
    return made.getvalue()


def _figure(view: View) -> Any:
    figure, axes = _canvas(view.x, view.y)
    looks = iter(range(1 << 20))
    for line in view.lines:
        if line.kind in REFERENCES:
            _reference(axes, view, line)
        else:
            _measured(axes, view, line, *LOOKS[next(looks) % len(LOOKS)])
    _scale(axes, view)
    _legend(figure, axes, view)
    return figure


def _reference(axes: Any, view: View, line: Curve) -> None:
    """A curve over x; floor and ceiling of a frontier lie across it."""
    style = {"lw": 1.4, "marker": "", **REFERENCES[line.kind]}
    if not view.connected and line.kind in ("floor", "ceiling"):
        for at, value in enumerate(sorted({spot.y.middle for spot in line.spots})):
            axes.axhline(value, label="_" if at else line.name, **style)
        return
    x = [spot.x.middle for spot in line.spots]
    if len(x) == 1 or view.ticks:
        style = {**style, "ls": "", "marker": "_", "ms": 14, "mew": 1.6}
    axes.plot(x, [spot.y.middle for spot in line.spots], label=line.name, **style)


def _measured(axes: Any, view: View, line: Curve, color: str, dashes: str, marker: str) -> None:
    x, y = [spot.x.middle for spot in line.spots], [spot.y.middle for spot in line.spots]
    dashes = dashes if view.connected and len(x) > 1 else ""
    axes.plot(x, y, color=color, ls=dashes, marker=marker, ms=5, lw=1.8, label=line.name)
    if view.repeats > 1:
        _spread(axes, view, line, color, dashes)
    if view.name == "frontier":
        for spot in line.spots:
            axes.annotate(spot.label, (spot.x.middle, spot.y.middle), xytext=(4, 4), textcoords="offset points", fontsize=7, color=INK)  # fmt: skip


def _spread(axes: Any, view: View, line: Curve, color: str, dashes: str) -> None:
    """From the least to the largest of the repeats:

    a band along a line, bars at single settings.
    """
    x = [spot.x.middle for spot in line.spots]
    low, high = [spot.y.low for spot in line.spots], [spot.y.high for spot in line.spots]
    if dashes:
        axes.fill_between(x, low, high, color=color, alpha=0.18, lw=0)
        return
    axes.vlines(x, low, high, color=color, lw=1, alpha=0.7)
    axes.hlines([spot.y.middle for spot in line.spots], [s.x.low for s in line.spots], [s.x.high for s in line.spots], color=color, lw=1, alpha=0.7)  # fmt: skip


def _scale(axes: Any, view: View) -> None:
    """Logarithmic where values span much; places without numbers get their names."""
    places = sorted({spot.x.middle for line in view.lines for spot in line.spots})
    if view.ticks:
        axes.set_xticks(range(len(view.ticks)), view.ticks, rotation=30, ha="right", fontsize=7)
    elif view.connected and len(places) > 1:
        if places[0] > 0 and places[-1] / places[0] >= WIDE:
            axes.set_xscale("log")
        axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.minorticks_off()
    values = list(
        chain.from_iterable((spot.y.low, spot.y.high) for line in view.lines for spot in line.spots)
    )
    if view.name != "bound":
        axes.set_ylim(-0.03, 1.03)
    elif values:
        top = max(*values, 1e-3)
        axes.set_ylim(-0.03 * top, 1.05 * top)


def _legend(figure: Any, axes: Any, view: View) -> None:
    """Below the axes. What a band is stands in it, since it looks like a confidence band and is
    none.
    """
    from matplotlib.patches import Patch

    handles, names = axes.get_legend_handles_labels()
    if view.repeats > 1:
        handles.append(Patch(color=INK, alpha=0.18, lw=0))
        names.append(
            f"marker: median of {view.repeats} repeats; band or bar: least to largest (spread, no "
            "confidence bound)"
        )
    figure.set_size_inches(5.2, 3.4 + 0.17 * len(names))
    figure.legend(
        handles, names, fontsize=7.5, frameon=False, labelcolor=INK, loc="outside lower left"
    )
