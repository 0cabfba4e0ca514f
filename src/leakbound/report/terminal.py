"""A record as a few lines of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.report.words import bound_sentence, system_name, tried
from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

__all__ = ["aligned", "comparison_table", "summary"]


def summary(record: AuditResult) -> str:
    """Verdict first, then the bound, why, what was tried, and what it does not prove."""
    lines = [f"{record.verdict.upper()}: {system_name(record)}", f"  {bound_sentence(record)}"]
    lines += [f"  {reason[0].upper()}{reason[1:]}" for reason in record.decision.reasons]
    lines += [f"  Warning: {warning}" for warning in record.warnings]
    lines += [f"  Tried: {tried(record)}"]
    if record.counts["unparsable_answers"]:
        lines += [
            f"  {record.counts['unparsable_answers']} of {record.counts['answers']} answers could "
            "not be read; they count as none of the answers."
        ]
    lines += ["  Not shown: that no other attack does better. See the report for all limits."]
    return "\n".join(lines)


def comparison_table(records: Sequence[AuditResult]) -> str:
    """One line a system; every number with its kind."""
    head = (
        "system",
        "verdict",
        "claim ε",
        "ε ≥",
        "μ ≥",
        "guarantee μ",
        "AUROC (point)",
        "calls",
        "by",
    )
    rows = [head] + [
        (
            system_name(r), r.verdict, f"{r.claim.epsilon:g}", cut(r.bound.epsilon),
            cut(r.mu_bound.mu, 3), "none" if r.guarantee.mu is None else f"{r.guarantee.mu:.3f}",
            f"{r.curves.auroc:.3f}", str(r.counts["model_calls"]), f"{r.bound.method}, {r.bound.confidence:.0%}",
        )
        for r in records
    ]  # fmt: skip
    return aligned(*rows)


def aligned(*rows: Sequence[str]) -> str:
    """Rows of cells as lines of columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
