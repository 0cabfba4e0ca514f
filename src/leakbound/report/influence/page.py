"""Influence as one HTML file: heat maps of the context, positions, top-attributed spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from leakbound.attribution.units import DOCUMENT, MESSAGE
from leakbound.report.cells import TableCell
from leakbound.report.influence.answer import influence_answer, influence_facts, influence_tone
from leakbound.report.influence.figures import position_figures, relative_position_figure
from leakbound.report.influence.spans import (
    NamedReading,
    Segment,
    TopSpan,
    excess_note,
    expected_name,
    grid_notes,
    grid_title,
    hides_copies,
    readings_by_context,
    segments,
    strongest_pieces,
    top_spans,
)
from leakbound.report.pages import render, script_file

if TYPE_CHECKING:
    from leakbound.attribution import Attribution, Expected, InfluenceRecord, Reading, SpanGrid


class WholeTable(NamedTuple):
    """What leaving out the whole context changes: headings, and a row for each reading."""

    head: tuple[str, ...]
    rows: list[tuple[TableCell | str, ...]]


def whole_table(readings: Sequence[NamedReading]) -> WholeTable:
    """Leave-one-out of the whole context."""
    entropy = ("Influence over entropy",) if readings[0].reading.entropy else ()
    head = (
        "Decoding", "Response", "Influence of the context", "Ex-post privacy loss ε", *entropy,
        "PMI (λ = 1, T = 1)", "Numerical tolerance of a token",
    )  # fmt: skip
    return WholeTable(head, [_whole_row(one) for one in readings])


def _whole_row(named: NamedReading) -> tuple[TableCell | str, ...]:
    reading, whole = named.reading, named.reading.grids[-1]
    how = "sampled" if reading.sampled else "given"
    total = float(whole.totals[0])
    entropy = (f"{reading.normalized(total):.3f}",) if reading.entropy else ()
    return (
        named.name, TableCell(f"{reading.text} ({how})", kind="break"), f"{total:.3f}",
        f"{whole.ex_post_privacy_losses[0]:.3f}", *entropy, f"{sum(reading.pmi):.3f}",
        f"{reading.tolerance:.1g}",
    )  # fmt: skip


def expected_head(records: Sequence[InfluenceRecord]) -> tuple[str, ...]:
    """Headings of the means over contexts."""
    model = ("Model",) if len(records) > 1 else ()
    interval = f"{records[0].confidence:.0%} interval"
    return (*model, "λ", "Of", "Mean influence on a response", interval)


def expected_row(record: InfluenceRecord, one: Expected, several: bool) -> tuple[str, ...]:
    """A mean over contexts."""
    model = (record.model,) if several else ()
    return (
        *model, f"{one.lam:g}", expected_name(one.of, one.n, one.unit), f"{one.mean:.3f}",
        f"{one.low:.3f} to {one.high:.3f}",
    )  # fmt: skip


def span_head(unit: str, method: str) -> tuple[str, ...]:
    """Headings of the top-attributed spans."""
    name, share = (("Name",), ("Share",)) if unit else ((), ())
    last = "Ex-post privacy loss ε" if method == "leave-one-out" else "|Sum of signed values|"
    return (*name, "Text", "Tokens", "Influence", *share, last)


def span_rows(spans: Sequence[TopSpan], unit: str) -> list[tuple[TableCell | str, ...]]:
    """The top-attributed spans."""
    return [_span_row(span, unit) for span in spans]


def _span_row(span: TopSpan, unit: str) -> tuple[TableCell | str, ...]:
    name, share = ((span.name,), (f"{100 * span.share:.1f}%",)) if unit else ((), ())
    error = f" ± {span.error:.3f}" if span.error else ""
    return (
        *name, TableCell(span.text, kind="break"), f"{span.first + 1}–{span.end}",
        f"{span.influence:.3f}{error}", *share, f"{span.loss:.3f}",
    )  # fmt: skip


SHOWN = 20  # contexts whose heat map is on the page; the numbers of all are in the exports
WORDS = 80  # characters of a label: the text itself is what it labels
LIMIT_WORDS = {
    "passed": "holds", "violation": "is exceeded", "inconclusive": "is inconclusive",
}  # fmt: skip
OPACITY = 0.7  # of the strongest piece: text on it keeps a contrast of 4.5


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    opacity: float
    top: bool
    label: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class _Map:
    """A heat map. data: what its script reads."""

    name: str
    tokens: list[tuple[str, str]]
    pieces: list[_Piece]
    spans: list[TopSpan]
    notes: list[str]
    data: dict[str, object]


@dataclass(frozen=True, slots=True)
class _Maps:
    """The heat maps of all readings for one size of spans or kind of units, on one scale."""

    title: str
    unit: str
    method: str
    maps: list[_Map]


@dataclass(frozen=True, slots=True)
class _Context:
    one: Attribution
    maps: list[_Maps]
    whole: WholeTable
    figures: list[str]


def influence_page(*records: InfluenceRecord, title: str | None = None, shown: int = SHOWN) -> str:
    """The page of one context or of many."""
    contexts = readings_by_context(records)
    return render(
        "influence/page.html.j2",
        script=script_file("influence/page.js"),
        title=title or "Influence of a context on a response",
        tone=influence_tone(records), facts=influence_facts(records),
        answers=influence_answer(records, contexts), limit_words=LIMIT_WORDS,
        records=records, several=len(records) > 1,
        count=len(contexts),
        contexts=[_context(readings) for readings in contexts[:shown]],
        relative_positions=relative_position_figure(contexts),
        expected_head=expected_head(records),
        expected=[expected_row(record, one, len(records) > 1)
                  for record in records for one in record.expected],
        span_head=span_head, span_rows=span_rows,
        guarantees=list(dict.fromkeys(line for record in records for line in record.notes)),
    )  # fmt: skip


def _context(readings: Sequence[NamedReading]) -> _Context:
    grids = [
        (one, grid) for one in readings for grid in one.reading.grids[:-1] or one.reading.grids
    ]
    kinds = dict.fromkeys((grid.unit, grid.n) for _, grid in sorted(grids, key=_order))
    maps = [
        _maps([(one, grid) for one, grid in grids if (grid.unit, grid.n) == kind]) for kind in kinds
    ]
    return _Context(readings[0].one, maps, whole_table(readings), position_figures(readings))


def _order(named: tuple[NamedReading, SpanGrid]) -> tuple[bool, int]:
    """Units of the text in their order, then spans of tokens by their size."""
    return not named[1].unit, named[1].n


def _maps(grids: Sequence[tuple[NamedReading, SpanGrid]]) -> _Maps:
    most = max(_strongest_color(one.reading, grid) for one, grid in grids) or 1.0
    first = grids[0][1]
    maps = [_map(one, grid, most) for one, grid in grids]
    return _Maps(grid_title(first), first.unit, first.method, maps)


def _strongest_color(reading: Reading, grid: SpanGrid) -> float:
    """The influence that has the strongest color: of the whole context where parts tell nothing."""
    shown = reading.grids[-1] if hides_copies(reading, grid) else grid
    return float(shown.totals.max())


def _map(one: NamedReading, grid: SpanGrid, most: float) -> _Map:
    cut = segments(one.one, grid)
    faint = hides_copies(one.reading, grid)
    top = [] if faint else strongest_pieces(cut)
    pieces = [_piece(piece, grid, most, at in top) for at, piece in enumerate(cut)]
    whole = np.abs(one.reading.grids[-1].signed[0]).round(4).tolist() if faint else []
    data = {
        "spans": grid.spans, "values": np.round(np.asarray(grid.signed), 4).tolist(),
        "tokens": one.reading.tokens, "top": most, "over": [piece.spans for piece in cut],
        "names": grid.names, "whole": whole, "focus": top[0] if top else 0,
    }  # fmt: skip
    excess = excess_note(one.reading, grid)
    notes = [*([excess] if excess else []), *grid_notes(one.reading, grid)]
    lams = [f"λ {lam:.3g}" for lam in one.reading.lams] or [""] * len(one.reading.tokens)
    tokens = list(zip(one.reading.tokens, lams, strict=True))
    return _Map(one.name, tokens, pieces, top_spans(one.one, grid), notes, data)


def _piece(segment: Segment, grid: SpanGrid, most: float, top: bool) -> _Piece:
    text = segment.text.strip()
    text = (text if len(text) <= WORDS else f"{text[:WORDS]}…") or "blank"
    if segment.top < 0:
        return _Piece(segment.text, 0.0, False, f"{text}: not measured")
    named = f"{grid.names[segment.top]}, " if grid.unit else f"span {segment.top + 1}, "
    label = (
        f"{text}: {named}{_place(grid.spans[segment.top])}, influence {segment.influence:.3f} on "
        "the whole response"
    )
    source = grid.names[segment.top] if grid.unit in (DOCUMENT, MESSAGE) else ""
    return _Piece(segment.text, round(OPACITY * segment.influence / most, 3), top, label, source)


def _place(span: tuple[int, int]) -> str:
    first, end = span
    return f"token {first + 1}" if end == first + 1 else f"tokens {first + 1} to {end}"
