"""An influence record as one HTML file: heat maps of the context, positions, top spans; opens from disk, asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from contextleak.report.figures import _canvas, _svg

if TYPE_CHECKING:
    from contextleak.influence import Attribution, Grid, InfluenceRecord, Reading

__all__ = ["hottest", "influence_page", "segments"]

SHOWN = 20  # contexts whose heat map is on the page; the numbers of all are in the exports
COLORS = ("#d55e00", "#0072b2", "#8a6d00", "#a0459a", "#00735c")


def influence_page(record: InfluenceRecord, title: str | None = None, shown: int = SHOWN) -> str:
    """The page of one context or of many. All text is escaped; the one script is named by its hash."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("contextleak.report", "."), autoescape=True, undefined=StrictUndefined
    )
    script = importlib.resources.files("contextleak.report").joinpath("influence.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("influence.html.j2").render(
        record=record, title=title or "Influence of a context on a response", script=script, digest=digest,
        contexts=[_context(one) for one in record.attributions[:shown]], depth=_depth(record), describe=_described,
    )  # fmt: skip


def hottest(one: Attribution, grid: Grid, count: int = 5) -> list[dict[str, Any]]:
    """The spans with the largest influence on the response: text, tokens, influence, loss of the whole response."""
    order = np.argsort(-grid.totals, kind="stable")[:count]
    return [
        {"text": one.words(grid.spans[i]), "span": int(i), "first": grid.spans[i][0], "end": grid.spans[i][1],
         "total": float(grid.totals[i]), "loss": float(grid.losses[i])}
        for i in order
    ]  # fmt: skip


def segments(one: Attribution, grid: Grid) -> list[dict[str, Any]]:
    """The context cut wherever a span begins or ends, with the spans over each piece and the largest of their influences."""
    cuts = sorted({edge for span in grid.spans for edge in span})
    starts, ends = zip(*grid.spans, strict=True)
    totals, out = grid.totals, []
    for first, end in pairwise(cuts):
        over = list(range(bisect_left(ends, end), bisect_right(starts, first)))
        top = max(over, key=lambda i: totals[i])
        out.append({"text": one.words((first, end)), "over": over, "top": top, "value": float(totals[top])})
    return out


def _context(one: Attribution) -> dict[str, Any]:
    grids = list(zip(*(reading.grids for reading in one.readings), strict=True))
    maps = [_side_by_side(one, row) for row in grids[:-1] or grids]
    whole = [row[-1] for row in (reading.grids for reading in one.readings)]
    return {"one": one, "maps": maps, "whole": list(zip(one.readings, whole, strict=True)), "figures": _figures(one)}


def _side_by_side(one: Attribution, grids: tuple[Grid, ...]) -> dict[str, Any]:
    """The heat maps of all readings for one n, on one scale."""
    top = max(float(grid.totals.max()) for grid in grids) or 1.0
    views = []
    for reading, grid in zip(one.readings, grids, strict=True):
        pieces = segments(one, grid)
        best = max(range(len(pieces)), key=lambda i: pieces[i]["value"])
        for at, piece in enumerate(pieces):
            span = grid.spans[piece["top"]]
            piece |= {"alpha": round(0.7 * piece["value"] / top, 3), "best": at == best,
                      "label": f"{piece['text'].strip() or 'blank'}: span {piece['top'] + 1}, {_tokens(span)}, influence {piece['value']:.3f} on the whole response"}  # fmt: skip
        data = {"spans": grid.spans, "values": np.round(np.asarray(grid.signed), 4).tolist(), "tokens": reading.tokens,
                "top": top, "over": [piece["over"] for piece in pieces]}  # fmt: skip
        views.append({"reading": reading, "pieces": pieces, "data": data, "rows": hottest(one, grid)})
    return {"n": grids[0].n, "stride": grids[0].stride, "views": views}


def _tokens(span: tuple[int, int]) -> str:
    first, end = span
    return f"token {first + 1}" if end == first + 1 else f"tokens {first + 1} to {end}"


def _figures(one: Attribution) -> list[str]:
    """Influence by position of the span, for the smallest n, and of the whole context by position of the response token."""
    by_span, axes = _canvas("position of the span (context token)", "influence on the response")
    by_token, other = _canvas("response token", "influence of the whole context")
    for at, reading in enumerate(one.readings):
        grid, whole, color = reading.grids[0], reading.grids[-1], COLORS[at % len(COLORS)]
        middle = [(a + b + 1) / 2 for a, b in grid.spans]
        axes.plot(
            middle,
            grid.totals,
            color=color,
            lw=1.4,
            marker="." if len(middle) < 60 else "",
            label=f"λ = {reading.lam:g}",
        )
        places = np.arange(1, len(reading.tokens) + 1)
        other.plot(places, whole.absolute[0], color=color, lw=1.4, marker=".", label=f"λ = {reading.lam:g}")
    other.xaxis.get_major_locator().set_params(integer=True)
    for each in (axes, other):
        each.set_ylim(bottom=0)
        each.legend(fontsize=8, frameon=False, labelcolor="#010203")
    n = one.readings[0].grids[0].n
    return [_svg(by_span, f"influence by position of the span, n = {n}"), _svg(by_token, "influence by response token")]


def _depth(record: InfluenceRecord) -> str:
    """Mean influence of spans by their place in the context, in tenths, over all contexts of a data set."""
    if len(record.attributions) < 2:
        return ""
    figure, axes = _canvas("place of the span in its context", "mean influence")
    for at, lam in enumerate(dict.fromkeys(r.lam for one in record.attributions for r in one.readings)):
        readings = [r for one in record.attributions for r in one.readings if r.lam == lam]
        place, value = (np.concatenate(parts) for parts in zip(*map(_places, readings), strict=True))
        tenth = np.minimum((place * 10).astype(int), 9)
        found = [i for i in range(10) if (tenth == i).any()]
        axes.plot([(i + 0.5) / 10 for i in found], [value[tenth == i].mean() for i in found], color=COLORS[at % len(COLORS)],
                  marker="o", ms=4, label=f"λ = {lam:g}")  # fmt: skip
    axes.set(xlim=(0, 1))
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8, frameon=False, labelcolor="#010203")
    return _svg(figure, "mean influence by place of the span in its context")


def _places(reading: Reading) -> tuple[Any, Any]:
    grid, length = reading.grids[0], reading.grids[-1].spans[0][1]
    return np.array([(a + b) / 2 / length for a, b in grid.spans]), grid.totals


def _described(of: str, n: int) -> str:
    return {"span": f"mean span of n = {n}", "hottest": f"hottest span of n = {n}", "context": "the whole context"}[of]
