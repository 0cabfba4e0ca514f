"""Readings of a context as reports show them: their names, top-attributed spans, and segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from leakbound.attribution.compare import explains_too_little
from leakbound.attribution.record import CONFIDENCE
from leakbound.errors import UsageError

if TYPE_CHECKING:
    from leakbound.attribution import Attribution, InfluenceRecord, Reading, SpanGrid

METHODS = {"shapley": "Shapley values", "lasso": "lasso"}
EQUAL = 1e-3  # influences this close are shown as equal: the digits of a map tell no more


@dataclass(frozen=True, slots=True, repr=False)
class NamedReading:
    name: str
    one: Attribution
    reading: Reading


@dataclass(frozen=True, slots=True, repr=False)
class TopSpan:
    text: str
    first: int
    end: int
    influence: float
    loss: float
    name: str = ""
    share: float | None = None  # of units only, if all of them were measured
    error: float = 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Segment:
    """A piece of the context that no span divides."""

    text: str
    spans: tuple[int, ...]
    top: int
    influence: float


def name_of_decoding(reading: Reading) -> str:
    """How a response was sampled, or would be."""
    if reading.epsilon is None:
        return f"λ = {reading.lam:g}, T = {reading.temperature:g}"
    return f"bounded CID, ε = {reading.epsilon:g}, λ ≤ {reading.lam:g}, T = {reading.temperature:g}"


def readings_by_context(records: Sequence[InfluenceRecord]) -> list[list[NamedReading]]:
    """For every context the readings of all records."""
    same = {tuple((one.context, one.query) for one in record.attributions) for record in records}
    if len(same) != 1:
        raise UsageError(
            f"{len(records)} records were given; they must be one or more, all of the same "
            "contexts and queries."
        )
    by_record = [_readings_of(record, len(records) > 1) for record in records]
    return [
        [one for readings in found for one in readings] for found in zip(*by_record, strict=True)
    ]


def _readings_of(record: InfluenceRecord, with_model: bool) -> list[list[NamedReading]]:
    prefix = f"{record.model}, " if with_model else ""
    return [
        [NamedReading(prefix + name_of_decoding(reading), one, reading) for reading in one.readings]
        for one in record.attributions
    ]


def top_spans(one: Attribution, grid: SpanGrid, count: int = 5) -> list[TopSpan]:
    order = np.argsort(-grid.totals, kind="stable")[:count]
    spans = []
    for at in map(int, order):
        first, end = grid.spans[at]
        influence, loss = float(grid.totals[at]), float(grid.ex_post_privacy_losses[at])
        span = TopSpan(one.words((first, end)), first, end, influence, loss)
        if grid.unit:
            error = grid.errors[at] if grid.errors else 0.0
            share = float(grid.shares[at]) if grid.unopened is None else None
            span = replace(span, name=grid.names[at], share=share, error=error)
        spans.append(span)
    return spans


def grid_title(grid: SpanGrid) -> str:
    if grid.unit:
        name, _, size = grid.unit.partition(":")
        longest = f" of at most {size} characters" if size else ""
        method = METHODS.get(grid.method)
        how = f", {method} over {grid.sets} sets" if method else ""
        return f"{name.capitalize()}s{longest}{how}"
    plural = "s" if grid.n != 1 else ""
    every = f", one every {grid.stride}" if grid.stride != grid.n else ""
    return f"Spans of {grid.n} token{plural}{every}"


def name_of_mean(of: str, n: int, unit: str) -> str:
    """What a mean over contexts is the mean of."""
    span = unit or f"span of n = {n}"
    return {"span": span, "top_attributed": f"top-attributed {span}", "context": "whole context"}[
        of
    ]


def hides_copies(reading: Reading, grid: SpanGrid) -> bool:
    """Whether leave-one-out of units says next to nothing, as it does where a text stands twice."""
    return bool(grid.unit) and explains_too_little(grid, float(reading.grids[-1].totals[0]))


def strongest_pieces(cut: Sequence[Segment]) -> list[int]:
    most = max(piece.influence for piece in cut)
    return [at for at, piece in enumerate(cut) if piece.influence >= (1 - EQUAL) * most > 0]


def finest(reading: Reading) -> SpanGrid:
    grids = reading.grids[:-1] or reading.grids
    return min(grids, key=lambda grid: float(np.mean([end - first for first, end in grid.spans])))


def grid_notes(reading: Reading, grid: SpanGrid) -> list[str]:
    """How units were measured, and what that can miss."""
    return [note for note in (_copies(reading, grid), _search_note(grid), _sets(grid)) if note]


def excess_note(reading: Reading, grid: SpanGrid) -> str:
    """Why a part has more influence than the whole."""
    whole, at = float(reading.grids[-1].totals[0]), int(grid.totals.argmax())
    top = float(grid.totals[at])
    noise = 2 * float(np.nan_to_num(reading.tolerance)) * max(1, len(reading.tokens))
    if grid is reading.grids[-1] or top <= whole + noise:
        return ""
    name = grid.names[at] if grid.unit else f"span {at + 1}"
    why = (
        "without it the rest of the context points to another response, while without any context "
        "the query alone points nowhere"
        if grid.method == "leave-one-out"
        else "other units make the response less likely, and take their part away from the whole"
    )
    return (
        f"A part can have more influence than the whole: {name} has {top:.3f}, the whole context "
        f"{whole:.3f}, because {why}."
    )


def _copies(reading: Reading, grid: SpanGrid) -> str:
    whole, total = float(reading.grids[-1].totals[0]), float(grid.totals.sum())
    if not hides_copies(reading, grid):
        return ""
    return (
        f"One at a time, the units explain {total:.3f} of the {whole:.3f} of the whole context, as "
        "they do when a text stands twice: each copy stands in for the other. --method shapley "
        "ablates sets of units and sees both. The colours are those of the whole context."
    )


def _search_note(grid: SpanGrid) -> str:
    found = grid.unopened
    if found is None:
        return ""
    what = f"{grid.unit.partition(':')[0] or 'span'}s"
    more = f", {found.exceeded} of which have more" if found.exceeded else ""
    return (
        f"{len(grid.spans)} of {len(grid.spans) - found.drawn + found.units} {what} were measured, "
        f"chosen by a screen. With {CONFIDENCE:.0%} confidence, at most {found.most} of the "
        f"{found.units} {what} that it left out have more influence than number {found.top} of "
        f"those that it chose ({found.kth:.3f}); this is from {found.drawn} of them, drawn at "
        f"random{more}. Without --top, every one is measured."
    )


def _sets(grid: SpanGrid) -> str:
    if grid.method == "leave-one-out":
        return ""
    drawn = (
        f"Values are estimates; the largest standard error is {max(grid.errors):.3f}."
        if grid.errors
        else "Values are exact: every set was measured."
    )
    return f"{drawn} Values from sets of units are no ex-post privacy loss."


def segments(one: Attribution, grid: SpanGrid) -> list[Segment]:
    """The context, cut wherever a span begins or ends."""
    ends_of_all = (0, len(one.bounds) - 1)
    cuts = sorted({*ends_of_all, *(edge for span in grid.spans for edge in span)})
    starts, ends = zip(*grid.spans, strict=True)
    totals, found = grid.totals, []
    for first, end in pairwise(cuts):
        over = tuple(range(bisect_left(ends, end), bisect_right(starts, first)))
        top = max(over, key=lambda at: totals[at], default=-1)
        influence = float(totals[top]) if over else 0.0
        found.append(Segment(one.words((first, end)), over, top, influence))
    return found
