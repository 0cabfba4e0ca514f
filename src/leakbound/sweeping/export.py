"""A sweep as CSV: one row a point."""

from __future__ import annotations

import csv
import io
from typing import Any

from leakbound.gating.rates import Rate
from leakbound.sweeping.record import SweepPoint, SweepRecord, Utility

__all__ = ["csv_text"]

RATES = ("tpr", "fpr")


def csv_text(record: SweepRecord) -> str:
    """A head, then a row a point:

    what it changes, what it found. Empty cells: not known. Bounds are lower bounds at `confidence`.
    """
    keys = list(record.grid)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for number, point in enumerate(record.points):
        row = {**{key: point.changes.get(key) for key in keys}, "seed": point.seed, **_found(point)}
        if number == 0:
            writer.writerow(row)
        writer.writerow("" if value is None else value for value in row.values())
    return file.getvalue()


def _found(point: SweepPoint) -> dict[str, Any]:
    bound = point.bound
    return {
        "verdict": point.verdict, "claim": point.claim.epsilon, "claim_delta": point.claim.delta, "bound": bound.epsilon,
        "method": bound.method, "kind": bound.kind, "confidence": bound.confidence,
        **{name: cell for rate in RATES for name, cell in _rate(rate, point.rates.get(rate)).items()},
        "mu_bound": point.mu, "mu_guarantee": point.guarantee.mu, "epsilon_guarantee": point.guarantee.epsilon,
        "epsilon_exact": point.exact, **_utility(point.utility), "pairs": point.pairs, "model_calls": point.model_calls,
        "evidence": point.evidence, "run": point.run,
    }  # fmt: skip


def _rate(name: str, rate: Rate | None) -> dict[str, float | None]:
    cells = (None, None, None) if rate is None else (rate.hits / rate.trials, rate.low, rate.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), cells, strict=True))


def _utility(found: Utility | None) -> dict[str, Any]:
    names = ("kind", "value", "floor", "ceiling")
    return {f"utility_{name}": None if found is None else getattr(found, name) for name in names}
