"""An influence record as one HTML file:

heat maps of the context, positions, top spans; opens from disk, asks nothing of the network.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from leakbound.errors import UsageError
from leakbound.report.figures import _canvas, _svg

if TYPE_CHECKING:
    from leakbound.attribution import Attribution, Grid, InfluenceRecord, Reading

__all__ = ["hottest", "influence_page", "law_name", "segments"]

SHOWN = 20  # contexts whose heat map is on the page; the numbers of all are in the exports
STYLES = ("-", "--", ":")
COLORS = ("#d55e00", "#0072b2", "#8a6d00", "#a0459a", "#00735c")


@dataclass(frozen=True, slots=True, repr=False)
class _Side:
    """One reading of a context, and what tells it from the others beside it."""

    name: str
    one: Attribution
    reading: Reading


def influence_page(*records: InfluenceRecord, title: str | None = None, shown: int = SHOWN) -> str:
    """The page of one context or of many, with the readings of several models side by side if there
    are several records.

    All text is escaped; the one script is named by its hash. Raises UsageError if the records are
    not of the same contexts.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("leakbound.report", "."), autoescape=True, undefined=StrictUndefined
    )
    script = (
        importlib.resources.files("leakbound.report")
        .joinpath("influence.js")
        .read_text(encoding="utf-8")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    columns = _columns(records)
    return environment.get_template("influence.html.j2").render(
        records=records, title=title or "Influence of a context on a response", script=script, digest=digest, count=len(columns),
        contexts=[_context(column) for column in columns[:shown]], depth=_depth(columns), describe=_described,
        promise=dict.fromkeys(line for record in records for line in record.promise),
    )  # fmt: skip


def _columns(records: Sequence[InfluenceRecord]) -> list[list[_Side]]:
    """For every context the readings of all records."""
    same = {tuple((one.context, one.query) for one in record.attributions) for record in records}
    if len(same) != 1:
        raise UsageError(
            f"{len(records)} records were given; they must be one or more, all of the same "
            "contexts and queries."
        )
    return [
        [_Side(_side_name(reading, record, len(records)), one, reading) for record, one in column for reading in one.readings]
        for column in zip(*([(record, one) for one in record.attributions] for record in records), strict=True)
    ]  # fmt: skip


def _side_name(reading: Reading, record: InfluenceRecord, records: int) -> str:
    return f"{record.model}, {law_name(reading)}" if records > 1 else law_name(reading)


def law_name(reading: Reading) -> str:
    """How a response was drawn, or would be."""
    if reading.epsilon is None:
        return f"λ = {reading.lam:g}, T = {reading.temperature:g}"
    return f"bounded CID, ε = {reading.epsilon:g}, λ ≤ {reading.lam:g}, T = {reading.temperature:g}"


def hottest(one: Attribution, grid: Grid, count: int = 5) -> list[dict[str, Any]]:
    """The spans with the largest influence on the response:

    text, tokens, influence, loss of the whole response.
    """
    order = np.argsort(-grid.totals, kind="stable")[:count]
    return [
        {"text": one.words(grid.spans[i]), "span": int(i), "first": grid.spans[i][0], "end": grid.spans[i][1],
         "total": float(grid.totals[i]), "loss": float(grid.losses[i])}
        for i in order
    ]  # fmt: skip


def segments(one: Attribution, grid: Grid) -> list[dict[str, Any]]:
    """The context cut wherever a span begins or ends, with the spans over each piece and the
    largest of their influences.
    """
    cuts = sorted({edge for span in grid.spans for edge in span})
    starts, ends = zip(*grid.spans, strict=True)
    totals, out = grid.totals, []
    for first, end in pairwise(cuts):
        over = list(range(bisect_left(ends, end), bisect_right(starts, first)))
        top = max(over, key=lambda i: totals[i])
        out.append(
            {"text": one.words((first, end)), "over": over, "top": top, "value": float(totals[top])}
        )
    return out


def _context(sides: Sequence[_Side]) -> dict[str, Any]:
    kept = [
        (side, grid) for side in sides for grid in side.reading.grids[:-1] or side.reading.grids
    ]
    sizes = sorted({grid.n for _, grid in kept})
    maps = [_side_by_side([(side, grid) for side, grid in kept if grid.n == n]) for n in sizes]
    whole = [(side, side.reading, side.reading.grids[-1]) for side in sides]
    return {"one": sides[0].one, "maps": maps, "whole": whole, "figures": _figures(sides)}


def _side_by_side(pairs: Sequence[tuple[_Side, Grid]]) -> dict[str, Any]:
    """The heat maps of all readings for one n, on one scale."""
    top = max(float(grid.totals.max()) for _, grid in pairs) or 1.0
    first = pairs[0][1]
    return {
        "n": first.n,
        "stride": first.stride,
        "views": [_view(side, grid, top) for side, grid in pairs],
    }


def _view(side: _Side, grid: Grid, top: float) -> dict[str, Any]:
    pieces = segments(side.one, grid)
    best = max(range(len(pieces)), key=lambda i: pieces[i]["value"])
    for at, piece in enumerate(pieces):
        span = grid.spans[piece["top"]]
        piece |= {"alpha": round(0.7 * piece["value"] / top, 3), "best": at == best,
                  "label": f"{piece['text'].strip() or 'blank'}: span {piece['top'] + 1}, {_tokens(span)}, influence {piece['value']:.3f} on the whole response"}  # fmt: skip
    data = {"spans": grid.spans, "values": np.round(np.asarray(grid.signed), 4).tolist(), "tokens": side.reading.tokens,
            "top": top, "over": [piece["over"] for piece in pieces]}  # fmt: skip
    return {
        "side": side,
        "tokens": _lettered(side.reading),
        "pieces": pieces,
        "data": data,
        "rows": hottest(side.one, grid),
    }


def _lettered(reading: Reading) -> list[tuple[str, str]]:
    """Each response token with its lambda, where every token has one of its own."""
    return list(
        zip(
            reading.tokens,
            [f"λ {lam:.3g}" for lam in reading.lams] or [""] * len(reading.tokens),
            strict=True,
        )
    )


def _tokens(span: tuple[int, int]) -> str:
    first, end = span
    return f"token {first + 1}" if end == first + 1 else f"tokens {first + 1} to {end}"


def _figures(sides: Sequence[_Side]) -> list[str]:
    """Influence by position of the span, for the smallest n, and of the whole context by position
    of the response token.
    """
    by_span, axes = _canvas("position of the span (context token)", "influence on the response")
    by_token, other = _canvas("response token", "influence of the whole context")
    for at, side in enumerate(sides):
        style: Any = {
            "color": COLORS[at % len(COLORS)],
            "ls": STYLES[at // len(COLORS) % len(STYLES)],
            "lw": 1.4,
            "label": side.name,
        }
        grid, whole = side.reading.grids[0], side.reading.grids[-1]
        middle = [(a + b + 1) / 2 for a, b in grid.spans]
        axes.plot(middle, grid.totals, marker="." if len(middle) < 60 else "", **style)
        other.plot(
            np.arange(1, len(side.reading.tokens) + 1), whole.absolute[0], marker=".", **style
        )
    other.xaxis.get_major_locator().set_params(integer=True)
    for each in (axes, other):
        each.set_ylim(bottom=0)
        each.legend(fontsize=8, frameon=False, labelcolor="#010203")
    n = sides[0].reading.grids[0].n
    return [
        _svg(by_span, f"influence by position of the span, n = {n}"),
        _svg(by_token, "influence by response token"),
    ]


def _depth(columns: Sequence[Sequence[_Side]]) -> str:
    """Mean influence of spans by their place in the context, in tenths, over all contexts of a data
    set.
    """
    if len(columns) < 2:
        return ""
    figure, axes = _canvas("place of the span in its context", "mean influence")
    sides = [side for column in columns for side in column]
    for at, name in enumerate(dict.fromkeys(side.name for side in sides)):
        found = [_places(side.reading) for side in sides if side.name == name]
        place, value = (np.concatenate(parts) for parts in zip(*found, strict=True))
        tenth = np.minimum((place * 10).astype(int), 9)
        there = [i for i in range(10) if (tenth == i).any()]
        axes.plot([(i + 0.5) / 10 for i in there], [value[tenth == i].mean() for i in there], color=COLORS[at % len(COLORS)],
                  ls=STYLES[at // len(COLORS) % len(STYLES)], marker="o", ms=4, label=name)  # fmt: skip
    axes.set(xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, labelcolor="#010203")
    return _svg(figure, "mean influence by place of the span in its context")


def _places(reading: Reading) -> tuple[Any, Any]:
    grid, length = reading.grids[0], reading.grids[-1].spans[0][1]
    return np.array([(a + b) / 2 / length for a, b in grid.spans]), grid.totals


def _described(of: str, n: int) -> str:
    return {
        "span": f"mean span of n = {n}",
        "hottest": f"hottest span of n = {n}",
        "context": "the whole context",
    }[of]
