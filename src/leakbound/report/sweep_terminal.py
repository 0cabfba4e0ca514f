"""A sweep as a few lines of plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.report.sweep_views import setting_name
from leakbound.report.sweep_words import calls_sentence, tally, together, tried, worst_sentences
from leakbound.report.terminal import aligned
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.sweeping import SweepPoint, SweepRecord

__all__ = ["sweep_summary"]


def sweep_summary(record: SweepRecord, asked: int | None = None) -> str:
    """Verdicts, the worst bound, a line a point, what is missing, and the calls.

    asked: model calls of this command.
    """
    counts = ", ".join(f"{count} {name}" for name, count in tally(record).items() if count)
    lines = [f"SWEEP: {counts or 'no point'}"]
    if record.points:
        lines += [
            f"  {sentence}"
            for sentence in (*worst_sentences(record), together(record), f"Tried: {tried(record)}")
        ]
        lines += [aligned(_head(record), *(_cells(record, point) for point in record.points))]
    lines += [
        f"  {one.why}: {setting_name(one.changes)}, seed {one.seed}: {one.reason}"
        for one in record.unmade
    ]
    if asked is not None:
        lines.append(f"  Model calls made now: {asked}.")
    return "\n".join([*lines, f"  {calls_sentence(record)}"])


def _head(record: SweepRecord) -> tuple[str, ...]:
    utility = ("utility", "floor", "ceiling") if any(p.utility for p in record.points) else ()
    return (*record.grid, "seed", "verdict", "claim ε", "ε ≥", "μ ≥", "exact ε", *utility, "by")


def _cells(record: SweepRecord, point: SweepPoint) -> tuple[str, ...]:
    used = point.utility
    utility = tuple(_share(v) for v in (used.value, used.floor, used.ceiling)) if used else ()
    empty = ("–",) * 3 if any(p.utility for p in record.points) and not used else ()
    values = ("none" if value is None else str(value) for value in point.changes.values())
    return (
        *values, str(point.seed), point.verdict, f"{point.claim.epsilon:g}", cut(point.bound.epsilon), cut(point.mu, 3),
        "–" if point.exact is None else f"{point.exact:.3f}", *utility, *empty, f"{point.bound.method}, {point.bound.confidence:.0%}",
    )  # fmt: skip


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
