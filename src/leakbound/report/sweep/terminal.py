"""A sweep as a few lines of plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import first_line
from leakbound.report.sweep.words import (
    calls_sentence,
    grid_sentence,
    joint_confidence,
    key_name,
    setting_name,
    subjects_of,
    tally_sentence,
    worst_sentences,
)
from leakbound.report.words import align, decimal, verdict_text
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.sweeping import SweepPoint, SweepRecord, SweepUtility

UTILITY = ("utility", "zero-shot", "non-private")


def sweep_summary(record: SweepRecord, model_calls: int | None = None) -> str:
    """Verdicts, systems and claims, the worst bound, a line a point, what is missing, model
    calls.
    """
    lines = [first_line(f"SWEEP ({tally_sentence(record)})", subjects_of(record))]
    if record.points:
        tried = f"Tried: {grid_sentence(record)}"
        said = (*worst_sentences(record), joint_confidence(record), tried)
        lines += [f"  {one}" for one in said]
        lines += [align(_head(record), *(_cells(record, point) for point in record.points))]
    lines += [
        f"  {verdict_text(one.cause)}: {setting_name(one.changes)}, seed {one.seed}: {one.reason}"
        for one in record.missing
    ]
    if model_calls is not None:
        lines.append(f"  Model calls of this command: {model_calls}.")
    return "\n".join([*lines, f"  {calls_sentence(record)}"])


def _head(record: SweepRecord) -> tuple[str, ...]:
    utility = UTILITY if record.utilities else ()
    return (
        *map(key_name, record.grid),
        "seed",
        "verdict",
        "claim ε",
        "ε ≥",
        "μ ≥",
        "exact ε",
        *utility,
        "by",
    )


def _cells(record: SweepRecord, point: SweepPoint) -> tuple[str, ...]:
    values = ("none" if value is None else str(value) for value in point.changes.values())
    return (
        *values, str(point.seed), verdict_text(point.verdict), f"{point.claim.epsilon:g}",
        cut(point.bound.epsilon), cut(point.mu_bound, 3), decimal(point.exact_epsilon),
        *(_utility(point.utility) if record.utilities else ()),
        f"{point.bound.method}, {point.bound.confidence:.0%}",
    )  # fmt: skip


def _utility(found: SweepUtility | None) -> tuple[str, ...]:
    if found is None:
        return ("–",) * len(UTILITY)
    return tuple(map(decimal, (found.value, found.zero_shot, found.non_private)))
