"""Figures as inline SVG, in the text colour of the page, so that they read in light and dark."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

INK = "currentColor"  # the text colour of the page
COLORS = ("#d55e00", "#0072b2", "#8a6d00", "#a0459a", "#00735c")  # told apart by every eye
MEMBER, NONMEMBER, CLAIM = COLORS[:3]
LINES = ("-", "--", ":")
DASHES = {"--": "6 3", ":": "1.5 2.5", "-.": "6 3 1.5 3"}
# A phone shows a figure about 1.1 times as large: no text of it is smaller than 11 px there.
WIDTH, TEXT = 332, 10.5
LINE, LETTER = 13.5, 6.0  # height of a line of text, width of a letter
LONGEST = 48  # characters of a line of a legend, of a name, or of the label of an axis
SHORT = 22  # characters of a name that has another beside it
ROOM = 260.0  # width that an axis has
SLANT, SLANTED_LINE = 60, 15.0  # degrees; width of a slanted line
# Corners, degrees of the first, and the radius of those between them; lines that are no shapes.
SHAPES = {
    "s": (4, 45, 0.7), "^": (3, 270, 0.5), "D": (4, 0, 0.7), "v": (3, 90, 0.5), "P": (4, 0, 0.35),
    "X": (4, 45, 0.35), "<": (3, 180, 0.5), ">": (3, 0, 0.5), "*": (5, 270, 0.4), "h": (6, 0, 0.87),
    "p": (5, 270, 0.8), "d": (2, 90, 0.5), "8": (8, 22, 0.92), "H": (6, 30, 0.87),
    "o": (12, 0, 0.98), ".": (12, 0, 0.98),
}  # fmt: skip
Spot = tuple[float, float]
CROSS = ((-1, -1), (1, 1), (math.nan, math.nan), (1, -1), (-1, 1))
STROKES: dict[str, Sequence[Spot]] = {"|": ((0, -1), (0, 1)), "_": ((-1, 0), (1, 0)), "x": CROSS}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Ends = tuple[float | None, float | None]
Ticks = Sequence[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class Plot:
    """A line, markers, or the area from `low` up to y; without x a line across the figure."""

    x: Any  # numbers
    y: Any
    color: str = INK
    name: str = ""
    dashes: str = "-"
    width: float = 1.6
    marker: str = ""
    size: float = 5.0
    alpha: float = 1.0
    low: Any = ()
    labels: Sequence[str] = ()
    hollow: bool = False


@dataclass(slots=True)
class Chart:
    title: str
    x: str
    y: str
    marks: list[Plot] = field(default_factory=list)
    height: float = 190.0
    x_ends: Ends = (None, None)
    y_ends: Ends = (None, None)
    x_log: bool = False
    y_log: bool = False
    x_ticks: Ticks = ()
    y_ticks: Ticks = ()
    slanted: bool = False


def wrap_lines(text: str, longest: int = LONGEST) -> str:
    return "\n".join(textwrap.wrap(text, longest, break_long_words=False)) or text


def _axis(
    values: Iterable[float], ends: Ends, log: bool, ticks: Ticks
) -> tuple[Ticks, Callable[[float], float]]:
    """The ticks of an axis, and the share of it at which a value stands."""
    spot = math.log10 if log else float
    known = [float(value) for value in values if math.isfinite(value)] or [1.0]
    spots = [*map(spot, known)]
    room = 0.05 * (max(spots) - min(spots)) or 0.5
    low = min(spots) - room if ends[0] is None else spot(ends[0])
    high = max(spots) + room if ends[1] is None else spot(ends[1])
    step = 10.0 ** math.floor(math.log10((high - low) / 6))
    if log or all(map(float.is_integer, known)):
        step = max(step, 1.0)
    step *= next(by for by in (1, 2, 5, 10) if by == 10 or high - low <= 6 * step * by)
    counts = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    texts = [(one, f"{one:g}") for one in (round(at * step, 12) for at in counts)]
    if log:
        ticks = ticks or [(10**one, "10" + text.translate(SUPERSCRIPTS)) for one, text in texts]
    ticks = ticks or [(one, text.replace("-", "−")) for one, text in texts]
    return ticks, lambda value: (spot(value) - low) / (high - low)


class _Plane:
    """Where values of a chart stand."""

    def __init__(self, chart: Chart) -> None:
        xs = [x for mark in chart.marks for x in mark.x]
        ys = [y for mark in chart.marks for y in (*mark.y, *mark.low)]
        self.x_ticks, x_share = _axis(xs, chart.x_ends, chart.x_log, chart.x_ticks)
        self.y_ticks, y_share = _axis(ys, chart.y_ends, chart.y_log, chart.y_ticks)
        reach, turn = _longest(self.x_ticks), math.radians(SLANT)
        lines = wrap_lines(chart.y, 30).count("\n") + bool(chart.y)
        self.left = 12 + _longest(self.y_ticks) + LINE * lines
        self.right, self.top, self.bottom = WIDTH - 12.0, 8.0, 8.0 + chart.height
        self.below = self.bottom + 5
        if chart.slanted:
            more = LINE * max((text.count("\n") for _, text in self.x_ticks), default=0)
            self.left = max(self.left, reach * math.cos(turn) + more)
            self.below += reach * math.sin(turn) + more
        else:
            self.below += LINE * max(text.count("\n") + 1 for _, text in self.x_ticks)
        self.x: Callable[[float], float] = lambda x: (
            self.left + (self.right - self.left) * x_share(x)
        )
        self.y: Callable[[float], float] = lambda y: (
            self.bottom - (self.bottom - self.top) * y_share(y)
        )


def svg(chart: Chart) -> str:
    """Axes below and left, marks in their order, and below all a legend of those with a name."""
    plane, named = _Plane(chart), [mark for mark in chart.marks if mark.name]
    parts = _frame(chart, plane)
    for mark in (one for one in chart.marks if len(one.y)):
        x = [*map(plane.x, mark.x)] or [plane.left, plane.right]
        y = [*map(plane.y, mark.y)] * (1 if len(mark.x) else 2)
        spots = list(zip(x, y, strict=True))
        parts += [_stroke(mark, spots, [*map(plane.y, mark.low)]), _markers(mark, spots)]
        labels = zip(spots, mark.labels, strict=False)
        parts += [_text(label, x + 4, y - 4) for (x, y), label in labels]
    height = plane.below + 6 + LINE * (wrap_lines(chart.x).count("\n") + 1)
    columns = 2 if all(len(mark.name) <= SHORT for mark in named) else 1
    for at in range(0, len(named), columns):
        row = [replace(mark, size=min(mark.size, 7.0)) for mark in named[at : at + columns]]
        for left, mark in zip((8, WIDTH / 2), row, strict=False):
            middle, low = height + LINE / 2, [height + LINE / 2 + 4] * 2 * bool(len(mark.low))
            top = middle - 5 if low else middle
            parts.append(_stroke(mark, [(left, top), (left + 20, top)], low))
            parts.append(_markers(mark, [(left + 10, middle)]))
            parts.append(_text(wrap_lines(mark.name), left + 27, middle + 4))
        height += LINE * (1 + max(wrap_lines(mark.name).count("\n") for mark in row)) + 2
    said = "; ".join(mark.name for mark in named)
    about = html.escape(f"{chart.y} over {chart.x}: {said}" if chart.y else said)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'fill="{INK}" style="font: {TEXT}px system-ui, sans-serif">'
        f"<title>{html.escape(chart.title)}</title><desc>{about}</desc>{''.join(parts)}</svg>"
    )


def _frame(chart: Chart, plane: _Plane) -> list[str]:
    left, right, top, bottom = plane.left, plane.right, plane.top, plane.bottom
    parts = [_path(_line([(left, top), (left, bottom), (right, bottom)]))]
    for y, text in ((plane.y(at), text) for at, text in plane.y_ticks):
        parts.append(_path(_line([(left, y), (right, y)]), alpha=0.15))
        parts.append(_text(text, left - 6, y + 4 - LINE / 2 * text.count("\n"), "end"))
    for x, text in ((plane.x(at), text) for at, text in plane.x_ticks):
        parts.append(_path(_line([(x, bottom), (x, bottom + 4)])))
        if chart.slanted:
            back = LINE * text.count("\n")  # the last of its lines ends at the tick
            parts.append(_text(text, x + 4 - back, bottom + 11, "end", SLANT))
        else:
            parts.append(_text(text, x, bottom + 15, "middle"))
    parts.append(_text(wrap_lines(chart.x), (left + right) / 2, plane.below + 12, "middle"))
    parts.append(_text(wrap_lines(chart.y, 30), 12, (top + bottom) / 2, "middle", 90))
    return parts


def _stroke(mark: Plot, spots: Sequence[Spot], low: Sequence[float]) -> str:
    if low:
        edge = [(x, y) for (x, _), y in zip(spots, low, strict=True)]
        area = _line([*spots, *edge[::-1]])
        return _path(f"{area}Z", "none", fill=mark.color, alpha=mark.alpha)
    return _path(_line(spots), mark.color, mark.width, mark.dashes, mark.alpha) * bool(mark.dashes)


def _markers(mark: Plot, spots: Sequence[Spot]) -> str:
    corners, turn, inner = SHAPES.get(mark.marker, (0, 0, 1))
    angles = [math.radians(turn + 180 * at / corners) for at in range(2 * corners)]
    radii = [1, inner] * corners
    shape = [(r * math.cos(a), r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]
    stroke, half = (*shape, *shape[:1]) or STROKES.get(mark.marker, ()), mark.size / 2
    lines = "".join(_line([(x + half * a, y + half * b) for a, b in stroke]) for x, y in spots)
    fill = mark.color if shape and not mark.hollow else "none"
    width = 1.0 if shape else mark.width
    return _path(lines, mark.color, width, fill=fill) if lines else ""


def _line(spots: Iterable[Spot]) -> str:
    """A path through places, interrupted where a number is missing."""
    step, parts = "M", []
    for x, y in spots:
        known = math.isfinite(x + y)
        parts += [f"{step}{x:.1f} {y:.1f}"] if known else []
        step = "L" if known else "M"
    return "".join(parts)


def _path(
    line: str,
    color: str = INK,
    width: float = 0.8,
    dashes: str = "-",
    alpha: float = 1.0,
    fill: str = "none",
) -> str:
    dashed = "" if dashes not in DASHES else f' stroke-dasharray="{DASHES[dashes]}"'
    faint = "" if alpha == 1 else f' opacity="{alpha:g}"'
    look = f'fill="{fill}" stroke="{color}" stroke-width="{width:g}"'
    return f'<path d="{line}" {look}{dashed}{faint}/>'


def _text(text: str, x: float, y: float, anchor: str = "start", turn: int = 0) -> str:
    first, *others = map(html.escape, text.split("\n"))
    spans = "".join(f'<tspan x="0" dy="{LINE}">{one}</tspan>' for one in others)
    place = f"translate({x:.1f} {y:.1f})" + (f" rotate(-{turn})" if turn else "")
    return f'<text transform="{place}" text-anchor="{anchor}">{first}{spans}</text>'


def _longest(ticks: Ticks) -> float:
    return LETTER * max((len(line) for _, text in ticks for line in text.split("\n")), default=0)


def name_ticks(chart: Chart, names: Sequence[str], at: Sequence[float] = ()) -> None:
    """Name places of the x axis: level where all names have room, else slanted."""
    places, room = list(at or range(len(names))), ROOM / max(1, len(names))
    chart.slanted = max(map(len, names), default=0) * LETTER > room - LETTER
    step = math.ceil(SLANTED_LINE / room) if chart.slanted else 1
    lines = int(room * step // SLANTED_LINE) if chart.slanted else 1
    shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names[::step]]
    if chart.slanted:
        shown = [wrap_lines(one, max(12, math.ceil(len(one) / lines) + 2)) for one in shown]
    chart.x_ticks = list(zip(places[::step], shown, strict=True))


def number_ticks(chart: Chart, places: Sequence[float]) -> None:
    """Numbers at places of the x axis, as far as they have room."""
    spots = [math.log(place) if chart.x_log else place for place in places]
    scale = ROOM / ((spots[-1] - spots[0]) or 1.0)
    shown: list[tuple[float, str, float]] = []
    for place, spot in zip(places, spots, strict=True):
        text = f"{place:g}"
        if shown:
            letters = (len(text) + len(shown[-1][1])) / 2 + 1
            if (spot - shown[-1][2]) * scale < letters * LETTER:
                continue
        shown.append((place, text, spot))
    chart.x_ticks = [(place, text) for place, text, _ in shown]
