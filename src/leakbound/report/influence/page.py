"""Influence as one HTML file: heat maps of the context, positions, top-attributed spans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leakbound.attribution.spans import DOCUMENT, MESSAGE
from leakbound.models.address import model_names
from leakbound.report.figures import COLORS, LINES, Chart, Plot, svg
from leakbound.report.influence.spans import (
    NamedReading,
    Segment,
    TopSpan,
    excess_note,
    finest,
    grid_notes,
    grid_title,
    hides_copies,
    name_of_mean,
    readings_by_context,
    segments,
    strongest_pieces,
    top_spans,
)
from leakbound.report.pages import render, script_file
from leakbound.report.words import TableCell, facts, number_of
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.attribution import InfluenceRecord, SpanGrid
    from leakbound.report.influence.spans import NamedReading

Values = dict[str, object]  # what the template reads
MANY = 60  # spans from which a line has no markers


def position_figures(readings: Sequence[NamedReading]) -> list[str]:
    """Influence by span, and influence of the whole context by response token."""
    shown, span, token = finest(readings[0].reading), list[Plot](), list[Plot]()
    for at, one in enumerate(readings):
        grid, whole = finest(one.reading), one.reading.grids[-1]
        middle = [(a + b + 1) / 2 for a, b in grid.spans]
        span.append(_line(at, one.name, middle, grid.totals, "." if len(middle) < MANY else ""))
        tokens = range(1, len(one.reading.tokens) + 1)
        token.append(_line(at, one.name, tokens, whole.absolute[0], "."))
    what, ends = shown.unit or f"n = {shown.n}", (0.0, None)
    return [
        svg(Chart(
            f"influence by position of the span, {what}", "position of the span (context token)",
            "influence on the response", span, y_ends=ends,
        )),
        svg(Chart(
            "influence by response token", "response token", "influence of the whole context",
            token, y_ends=ends,
        )),
    ]  # fmt: skip


def _line(at: int, name: str, x: Any, y: Any, marker: str) -> Plot:
    color, dashes = COLORS[at % len(COLORS)], LINES[at // len(COLORS) % len(LINES)]
    return Plot(x, y, color, name, dashes, 1.4, marker)


def relative_position_figure(contexts: Sequence[Sequence[NamedReading]]) -> str:
    """Mean influence of spans by their place in the context, in tenths, over all contexts."""
    shown = [finest(one.reading) for context in contexts for one in context]
    if len(contexts) < 2 or any(grid.unopened for grid in shown):  # chosen spans are no sample
        return ""
    marks, readings = list[Plot](), [one for context in contexts for one in context]
    for at, name in enumerate(dict.fromkeys(one.name for one in readings)):
        named = [one.reading for one in readings if one.name == name]
        grids = [(finest(one), one.grids[-1].spans[0][1]) for one in named]
        # places from 0 to 1, and influences, of the smallest spans
        place = np.array([(a + b) / 2 / n for grid, n in grids for a, b in grid.spans])
        value = np.concatenate([grid.totals for grid, _ in grids])
        tenth = np.minimum((place * 10).astype(int), 9)
        present = np.unique(tenth)
        means = [value[tenth == one].mean() for one in present]
        marks.append(_line(at, name, (present + 0.5) / 10, means, "o"))
    return svg(
        Chart(
            "mean influence by place of the span in its context",
            "place of the span in its context",
            "mean influence",
            marks,
            x_ends=(0, 1),
            y_ends=(0, None),
        )
    )


LONGEST = 60  # characters of a quoted text
MILLION = math.log(1e6)
TONES = {"passed": "no_violation", "violation": "violation", "inconclusive": "inconclusive"}


def influence_answer(
    records: Sequence[InfluenceRecord], contexts: Sequence[Sequence[NamedReading]]
) -> tuple[str, ...]:
    """How much the context changed the response, and which part did."""
    if len(contexts) > 1:
        return tuple(_mean(record, len(records) > 1) for record in records)
    first = contexts[0][0] if contexts else None
    if first is None:
        return ("No context was measured.",)
    which = f" ({first.name})" if len(contexts[0]) > 1 else ""
    return tuple(text for text in (_whole_sentence(first, which), _part(first)) if text)


def _whole_sentence(named: NamedReading, which: str) -> str:
    change = float(sum(named.reading.grids[-1].signed[0]))
    ends = ("with", "without") if change >= 0 else ("without", "with")
    factor = math.exp(min(abs(change), MILLION))
    times = "more than a million" if factor > 999_999 else cut(factor, 1)
    return (
        f"The response “{_quote(named.reading.text)}” is {times} times as likely {ends[0]} the "
        f"context as {ends[1]} it{which}."
    )


def _part(named: NamedReading) -> str:
    grids = named.reading.grids[:-1]
    if not grids:
        return ""
    grid = min(grids, key=lambda one: (not one.unit, one.n))
    if hides_copies(named.reading, grid):
        return (
            "No part alone explains this: removed one at a time, copies of a text stand in for "
            "each other."
        )
    (top,) = top_spans(named.one, grid, 1)
    whole = float(named.reading.grids[-1].totals[0])
    name = f"{top.name}: " if top.name else ""
    return (
        f"The part with the largest influence is {name}“{_quote(top.text)}”, with "
        f"{top.influence:.1f} nats; the whole context has {whole:.1f}."
    )


def _quote(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def _mean(record: InfluenceRecord, named: bool) -> str:
    model = f"{record.model}: " if named else ""
    whole = [one for one in record.expected if one.of == "context"]
    if not whole:
        return f"{model}{number_of(len(record.attributions), 'context')} without a mean."
    means = ", ".join(
        f"{one.mean:.1f} nats [{one.low:.1f}, {one.high:.1f}] at λ = {one.lam:g}" for one in whole
    )
    text = f"the whole context changes ln p of a response by a mean of {means}"
    number = number_of(len(record.attributions), "context")
    return f"{model}Over {number}, {text} ({record.confidence:.0%} intervals)."


def whole_table(readings: Sequence[NamedReading]) -> Values:
    """What leaving out the whole context changes: headings, and a row for each reading."""
    entropy = ("Influence over entropy",) if readings[0].reading.entropy else ()
    head = (
        "Decoding", "Response", "Influence of the context", "Ex-post privacy loss ε", *entropy,
        "PMI (λ = 1, T = 1)", "Numerical tolerance of a token",
    )  # fmt: skip
    rows = []
    for named in readings:
        reading, whole = named.reading, named.reading.grids[-1]
        total, how = float(whole.totals[0]), "sampled" if reading.sampled else "given"
        rows.append((
            named.name, TableCell(f"{reading.text} ({how})", kind="break"), f"{total:.3f}",
            f"{whole.ex_post_privacy_losses[0]:.3f}",
            *((f"{reading.normalized(total):.3f}",) if reading.entropy else ()),
            f"{sum(reading.pmi):.3f}", f"{reading.tolerance:.1g}",
        ))  # fmt: skip
    return {"head": head, "rows": rows}


def span_head(unit: str, method: str) -> tuple[str, ...]:
    name, share = (("Name",), ("Share",)) if unit else ((), ())
    last = "Ex-post privacy loss ε" if method == "leave-one-out" else "|Sum of signed values|"
    return (*name, "Text", "Tokens", "Influence", *share, last)


def span_rows(spans: Sequence[TopSpan], unit: str) -> list[tuple[TableCell | str, ...]]:
    rows: list[tuple[TableCell | str, ...]] = []
    for span in spans:
        of_all = "not known" if span.share is None else f"{100 * span.share:.1f}%"
        name, share = ((span.name,), (of_all,)) if unit else ((), ())
        error = f" ± {span.error:.3f}" if span.error else ""
        rows.append((
            *name, TableCell(span.text, kind="break"), f"{span.first + 1}–{span.end}",
            f"{span.influence:.3f}{error}", *share, f"{span.loss:.3f}",
        ))  # fmt: skip
    return rows


SHOWN = 20  # contexts whose heat map is on the page; the numbers of all are in the exports
WORDS = 80  # characters of a label: the text itself is what it labels
LIMIT_WORDS = {
    "passed": "holds", "violation": "is exceeded", "inconclusive": "is inconclusive",
}  # fmt: skip
OPACITY = 0.7  # of the strongest piece: text on it keeps a contrast of 4.5


def influence_page(*records: InfluenceRecord, title: str | None = None, shown: int = SHOWN) -> str:
    contexts, several = readings_by_context(records), len(records) > 1
    attributions = records[0].attributions
    tokens = [len(one.bounds) - 1 for one in attributions]
    size = f" of {number_of(tokens[0], 'token')}" if len(tokens) == 1 else ""
    first = [one.readings[0] for record in records for one in record.attributions]
    ablations = sum(grid.sets or len(grid.spans) for one in first for grid in one.grids)
    tones = {TONES[one.share_limit.outcome] for one in records if one.share_limit is not None}
    return render(
        "influence/page.html.j2",
        script=script_file("influence/page.js"),
        title=title or "Influence of a context on a response",
        tone=next((v for v in ("violation", "inconclusive", "no_violation") if v in tones), ""),
        facts=facts(
            model=model_names(record.model for record in records),
            data=f"{number_of(len(attributions), 'context')}{size}",
            cost=f"{number_of(ablations, 'ablated context')} scored",
        ),
        answers=influence_answer(records, contexts), limit_words=LIMIT_WORDS,
        records=records, several=several, count=len(contexts),
        contexts=[_context(readings) for readings in contexts[:shown]],
        relative_positions=relative_position_figure(contexts),
        expected_head=(
            *(("Model",) if several else ()), "λ", "Of", "Mean influence on a response",
            f"{records[0].confidence:.0%} interval",
        ),
        expected=[
            (
                *((record.model,) if several else ()), f"{one.lam:g}",
                name_of_mean(one.of, one.n, one.unit), f"{one.mean:.3f}",
                f"{one.low:.3f} to {one.high:.3f}",
            )
            for record in records for one in record.expected
        ],
        span_head=span_head, span_rows=span_rows,
        guarantees=list(dict.fromkeys(line for record in records for line in record.notes)),
    )  # fmt: skip


def _context(readings: Sequence[NamedReading]) -> Values:
    grids = [
        (one, grid) for one in readings for grid in one.reading.grids[:-1] or one.reading.grids
    ]
    # units of the text in their order, then spans of tokens by their size
    ordered = sorted(grids, key=lambda named: (not named[1].unit, named[1].n))
    maps = []
    for kind in dict.fromkeys((grid.unit, grid.n) for _, grid in ordered):
        group = [(one, grid) for one, grid in grids if (grid.unit, grid.n) == kind]
        # the strongest color: of the whole context where parts tell nothing
        strongest = (
            (one.reading.grids[-1] if hides_copies(one.reading, grid) else grid).totals.max()
            for one, grid in group
        )
        most, first = float(max(strongest)) or 1.0, group[0][1]
        maps.append({
            "title": grid_title(first), "unit": first.unit, "method": first.method,
            "maps": [_map(one, grid, most) for one, grid in group],
        })  # fmt: skip
    return {
        "one": readings[0].one, "maps": maps, "whole": whole_table(readings),
        "figures": position_figures(readings),
    }  # fmt: skip


def _map(one: NamedReading, grid: SpanGrid, most: float) -> Values:
    cut = segments(one.one, grid)
    faint = hides_copies(one.reading, grid)
    top = [] if faint else strongest_pieces(cut)
    whole = np.abs(one.reading.grids[-1].signed[0]).round(4).tolist() if faint else []
    data = {
        "spans": grid.spans, "values": np.round(np.asarray(grid.signed), 4).tolist(),
        "tokens": one.reading.tokens, "top": most, "over": [piece.spans for piece in cut],
        "names": grid.names, "whole": whole, "focus": top[0] if top else 0,
    }  # fmt: skip
    excess = excess_note(one.reading, grid)
    lams = [f"λ {lam:.3g}" for lam in one.reading.lams] or [""] * len(one.reading.tokens)
    return {
        "name": one.name, "tokens": list(zip(one.reading.tokens, lams, strict=True)),
        "pieces": [_piece(piece, grid, most, at in top) for at, piece in enumerate(cut)],
        "spans": top_spans(one.one, grid),
        "notes": [*([excess] if excess else []), *grid_notes(one.reading, grid)],
        "data": data,
    }  # fmt: skip


def _piece(segment: Segment, grid: SpanGrid, most: float, top: bool) -> Values:
    text = segment.text.strip()
    text = (text if len(text) <= WORDS else f"{text[:WORDS]}…") or "blank"
    if segment.top < 0:
        label = f"{text}: not measured"
        return {"text": segment.text, "opacity": 0.0, "top": False, "label": label, "source": ""}
    named = f"{grid.names[segment.top]}, " if grid.unit else f"span {segment.top + 1}, "
    first, end = grid.spans[segment.top]
    place = f"token {first + 1}" if end == first + 1 else f"tokens {first + 1} to {end}"
    label = f"{text}: {named}{place}, influence {segment.influence:.3f} on the whole response"
    return {
        "text": segment.text, "opacity": round(OPACITY * segment.influence / most, 3), "top": top,
        "label": label,
        "source": grid.names[segment.top] if grid.unit in (DOCUMENT, MESSAGE) else "",
    }  # fmt: skip
