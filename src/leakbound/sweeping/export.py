"""A sweep as CSV: one row per point."""

from __future__ import annotations

import csv
import io

from pydantic import JsonValue

from leakbound.gating.rates import Rate
from leakbound.sweeping.record import SweepPoint, SweepRecord, SweepUtility

RATES = ("tpr", "fpr")
Cells = dict[str, JsonValue]


def sweep_csv(record: SweepRecord) -> str:
    """The points of a sweep as a table.

    Args:
        record: The sweep.

    Returns:
        CSV with a head and a row per point: what it changes, what it found. Empty cells: not known.
        Bounds are lower bounds at `confidence`.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, point in enumerate(record.points):
        row = {**{key: point.changes.get(key) for key in record.grid}, **_find(point)}
        if number == 0:
            writer.writerow(row)
        writer.writerow("" if value is None else value for value in row.values())
    return file.getvalue()


def _find(point: SweepPoint) -> Cells:
    bound, rates = point.bound, (_rate(rate, point.rates.get(rate)) for rate in RATES)
    return {
        "seed": point.seed, "verdict": point.verdict, "reason": point.reason,
        "claim": point.claim.epsilon, "claim_delta": point.claim.delta, "bound": bound.epsilon,
        "method": bound.method, "kind": bound.kind, "confidence": bound.confidence,
        **{name: cell for cells in rates for name, cell in cells.items()},
        "mu_bound": point.mu_bound, "mu_guarantee": point.guarantee.mu,
        "epsilon_guarantee": point.guarantee.epsilon, "epsilon_exact": point.exact_epsilon,
        **_utility(point.utility), "pairs": point.pairs, "model_calls": point.model_calls,
        "evidence": point.evidence, "run": point.run,
    }  # fmt: skip


def _rate(name: str, rate: Rate | None) -> Cells:
    cells = (None, None, None) if rate is None else (rate.share, rate.low, rate.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), cells, strict=True))


def _utility(utility: SweepUtility | None) -> Cells:
    if utility is None:
        return dict.fromkeys((
            "utility_kind", "utility", "utility_zero_shot", "utility_non_private",
        ))  # fmt: skip
    return {
        "utility_kind": utility.kind, "utility": utility.value,
        "utility_zero_shot": utility.zero_shot, "utility_non_private": utility.non_private,
    }  # fmt: skip
