"""The sentences that a sweep is told in, shared by terminal and page."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from leakbound.report.sweep_views import setting_name
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.sweeping import SweepPoint, SweepRecord

__all__ = ["calls_sentence", "claims", "not_tried", "tally", "together", "tried", "worst_sentences"]

VERDICTS = ("violation", "no_violation", "inconclusive")
FIXED = ("attack", "canary", "model", "mechanism", "system", "data")


def tally(record: SweepRecord) -> dict[str, int]:
    """Points of each verdict, and points without a result by the reason."""
    found: Counter[str] = Counter(point.verdict for point in record.points)
    without = Counter(point.why for point in record.unmade)
    return {**{verdict: found[verdict] for verdict in VERDICTS}, **dict(sorted(without.items()))}


def worst_sentences(record: SweepRecord) -> list[str]:
    """The largest lower bound, and the one that comes nearest to its claim or exceeds it most."""
    bounded = [point for point in record.points if point.bound.epsilon is not None]
    if not bounded:
        return ["No point has a bound."]
    largest = max(bounded, key=lambda point: point.bound.epsilon or 0.0)
    nearest = max(bounded, key=lambda point: (point.bound.epsilon or 0.0) / point.claim.epsilon)
    said = [f"Largest bound: {_bound(largest)}."]
    return said if nearest is largest else [*said, f"Largest beside its claim: {_bound(nearest)}."]


def _bound(point: SweepPoint) -> str:
    bound = point.bound
    where = setting_name(point.changes) or "the setting as given"
    return (
        f"ε(δ={point.claim.delta:g}) ≥ {cut(bound.epsilon)} with {bound.confidence:.0%} "
        f"confidence by {bound.method}; claimed: "
        f"{point.claim.epsilon:g} ({where}, seed {point.seed})"
    )


def claims(record: SweepRecord) -> str:
    """What the points claim, in one line."""
    epsilons = sorted({point.claim.epsilon for point in record.points})
    deltas = sorted({point.claim.delta for point in record.points})
    said = [_range(epsilons), _range(deltas)]
    return f"ε = {said[0]} at δ = {said[1]}"


def _range(values: list[float]) -> str:
    shown = [f"{value:g}" for value in values]
    return (
        ", ".join(shown) if len(shown) <= 6 else f"{shown[0]} to {shown[-1]} ({len(shown)} values)"
    )


def tried(record: SweepRecord) -> str:
    """What was tried, in one sentence."""
    grid = "; ".join(
        f"{key} = {', '.join('none' if v is None else str(v) for v in values)}"
        for key, values in record.grid.items()
    )
    seeds = f", {record.repeats} seeds each" if record.repeats > 1 else ""
    pairs = sorted({point.pairs for point in record.points})
    return f"{len(record.settings)} settings{seeds}: {grid or 'as given'}; {_range([float(p) for p in pairs])} pairs a point."


def not_tried(record: SweepRecord) -> str:
    """What the sweep keeps fixed, so that nobody reads it as all there is."""
    given = record.base.get("system") is not None
    keys = [
        key for key in FIXED if not (given and key in ("model", "mechanism"))
    ]  # a system of the user's has its own
    return (
        "; ".join(
            f"{key} other than {record.base[key]}"
            for key in keys
            if record.base.get(key) is not None
        )
        + "."
    )


def together(record: SweepRecord) -> str:
    """How far bounds that hold one by one hold together."""
    missed = math.fsum(1 - (point.bound.confidence or 0.0) for point in record.points)
    said = (
        f"all together hold with at least {1 - missed:.0%}"
        if missed < 1
        else "so many state no confidence all together"
    )
    return f"Each of the {len(record.points)} bounds holds with its own confidence; {said} (Bonferroni)."


def calls_sentence(record: SweepRecord) -> str:
    """How many model calls stand behind the sweep, and how many the same points would take apart."""
    return f"{record.calls} model calls stand behind these points; each asking for itself would take {record.calls_apart}."
