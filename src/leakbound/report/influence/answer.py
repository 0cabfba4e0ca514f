"""What a page about influence says first: how much the context changed a response, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.models.address import model_names
from leakbound.report.frame import counted, facts
from leakbound.report.influence.spans import NamedReading, hides_copies, top_spans
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.attribution import Expected, InfluenceRecord

LONGEST = 60  # characters of a quoted text
MILLION = math.log(1e6)
TONES = {
    "passed": "no_violation",
    "violation": "violation",
    "inconclusive": "inconclusive",
}


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
    return tuple(text for text in (_whole(first, which), _part(first)) if text)


def _whole(named: NamedReading, which: str) -> str:
    change = float(sum(named.reading.grids[-1].signed[0]))
    ends = ("with", "without") if change >= 0 else ("without", "with")
    factor = math.exp(min(abs(change), MILLION))
    times = "more than a million" if factor > 999_999 else cut(factor, 1)
    return (
        f"The response “{_short(named.reading.text)}” is {times} times as likely {ends[0]} the "
        f"context as {ends[1]} it{which}."
    )


def _part(named: NamedReading) -> str:
    """The part with the largest influence, of the units if there are any."""
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
        f"The part with the largest influence is {name}“{_short(top.text)}”, with "
        f"{top.influence:.1f} nats; the whole context has {whole:.1f}."
    )


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def _mean(record: InfluenceRecord, named: bool) -> str:
    model = f"{record.model}: " if named else ""
    whole = [one for one in record.expected if one.of == "context"]
    if not whole:
        return f"{model}{counted(len(record.attributions), 'context')} without a mean."
    means = ", ".join(map(_mean_text, whole))
    text = f"the whole context changes ln p of a response by a mean of {means}"
    number = counted(len(record.attributions), "context")
    return f"{model}Over {number}, {text} ({record.confidence:.0%} intervals)."


def _mean_text(one: Expected) -> str:
    return f"{one.mean:.1f} nats [{one.low:.1f}, {one.high:.1f}] at λ = {one.lam:g}"


def influence_facts(records: Sequence[InfluenceRecord]) -> dict[str, str]:
    """By which model and over which contexts influence was measured."""
    contexts = records[0].attributions
    tokens = [len(one.bounds) - 1 for one in contexts]
    size = f" of {counted(tokens[0], 'token')}" if len(tokens) == 1 else ""
    return facts(
        model=model_names(record.model for record in records),
        data=f"{counted(len(contexts), 'context')}{size}",
        cost=f"{counted(sum(map(_ablations, records)), 'ablated context')} scored",
    )


def _ablations(record: InfluenceRecord) -> int:
    """Contexts without some of their parts; readings of one response share them."""
    grids = [grid for one in record.attributions for grid in one.readings[0].grids]
    return sum(grid.sets or len(grid.spans) for grid in grids)


def influence_tone(records: Sequence[InfluenceRecord]) -> str:
    """What colours the first screen."""
    found = {TONES[one.share_limit.outcome] for one in records if one.share_limit is not None}
    return next((t for t in ("violation", "inconclusive", "no_violation") if t in found), "")
