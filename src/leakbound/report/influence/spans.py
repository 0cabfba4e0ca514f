"""Readings of a context as reports show them: their names, top-attributed spans, and segments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from leakbound.errors import UsageError

if TYPE_CHECKING:
    from leakbound.attribution import Attribution, InfluenceRecord, Reading, SpanGrid

__all__ = [
    "NamedReading", "Segment", "TopSpan", "decoding_name", "readings_by_context", "segments",
    "top_spans",
]  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class NamedReading:
    """One reading of a context.

    Attributes:
        name: What tells it from the others beside it.
        one: The context with its readings (PRIVATE).
        reading: This reading.
    """

    name: str
    one: Attribution
    reading: Reading


@dataclass(frozen=True, slots=True, repr=False)
class TopSpan:
    """A span with a large influence.

    Attributes:
        text: Its words (PRIVATE).
        first: Index of its first token.
        end: Index after its last token.
        influence: On the whole response.
        loss: Ex-post privacy loss of the whole response.
    """

    text: str
    first: int
    end: int
    influence: float
    loss: float


@dataclass(frozen=True, slots=True, repr=False)
class Segment:
    """A piece of the context that no span divides.

    Attributes:
        text: Its words (PRIVATE).
        spans: Indices of the spans over it.
        top: Index of the one with the largest influence.
        influence: Of that span on the whole response.
    """

    text: str
    spans: tuple[int, ...]
    top: int
    influence: float


def decoding_name(reading: Reading) -> str:
    """How a response was sampled, or would be.

    Args:
        reading: One reading of a context.

    Returns:
        A few words.
    """
    if reading.epsilon is None:
        return f"λ = {reading.lam:g}, T = {reading.temperature:g}"
    return f"bounded CID, ε = {reading.epsilon:g}, λ ≤ {reading.lam:g}, T = {reading.temperature:g}"


def readings_by_context(records: Sequence[InfluenceRecord]) -> list[list[NamedReading]]:
    """For every context the readings of all records.

    Args:
        records: Records of the same contexts, by one model each.

    Returns:
        A list for each context.

    Raises:
        UsageError: If the records are not of the same contexts and queries.
    """
    same = {tuple((one.context, one.query) for one in record.attributions) for record in records}
    if len(same) != 1:
        raise UsageError(
            f"{len(records)} records were given; they must be one or more, all of the same "
            "contexts and queries."
        )
    by_record = [_named_readings(record, len(records) > 1) for record in records]
    return [
        [one for readings in found for one in readings] for found in zip(*by_record, strict=True)
    ]


def _named_readings(record: InfluenceRecord, with_model: bool) -> list[list[NamedReading]]:
    prefix = f"{record.model}, " if with_model else ""
    return [
        [NamedReading(prefix + decoding_name(reading), one, reading) for reading in one.readings]
        for one in record.attributions
    ]


def top_spans(one: Attribution, grid: SpanGrid, count: int = 5) -> list[TopSpan]:
    """The spans with the largest influence on the response.

    Args:
        one: A context.
        grid: Its spans of one size.
        count: Most spans.

    Returns:
        Spans, the largest influence first.
    """
    order = np.argsort(-grid.totals, kind="stable")[:count]
    return [_top_span(one, grid, int(at)) for at in order]


def _top_span(one: Attribution, grid: SpanGrid, at: int) -> TopSpan:
    first, end = grid.spans[at]
    influence, loss = float(grid.totals[at]), float(grid.ex_post_privacy_losses[at])
    return TopSpan(one.words((first, end)), first, end, influence, loss)


def segments(one: Attribution, grid: SpanGrid) -> list[Segment]:
    """The context, cut wherever a span begins or ends.

    Args:
        one: A context.
        grid: Its spans of one size, which may overlap.

    Returns:
        Segments in the order of the context.
    """
    cuts = sorted({edge for span in grid.spans for edge in span})
    starts, ends = zip(*grid.spans, strict=True)
    totals, found = grid.totals, []
    for first, end in pairwise(cuts):
        over = tuple(range(bisect_left(ends, end), bisect_right(starts, first)))
        top = max(over, key=lambda at: totals[at])
        found.append(Segment(one.words((first, end)), over, top, float(totals[top])))
    return found
