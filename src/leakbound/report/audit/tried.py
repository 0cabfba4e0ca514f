"""Which classes of attack an audit tried, and which it did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.auditing.references import ReferenceStatus
from leakbound.auditing.tried import attack_classes

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

REFERENCE_HEAD = ("Item", "What it asks", "What this audit says")

TRIED_HEAD = ("Class of attack", "Tried", "How to try it")


def tried_rows(result: AuditResult) -> tuple[tuple[str, str, str], ...]:
    """The classes of attack, each with what was done or how it is done."""
    done = f"yes, {result.counts['model_calls']} calls"
    return tuple(
        (one.name, done, "") if one.tried else (one.name, "no", one.how)
        for one in attack_classes(result)
    )


def reference_rows(result: AuditResult) -> tuple[tuple[str, ...], ...]:
    """What standards and guidelines ask, each with what this audit says."""
    return tuple(
        (f"{one.document}: {one.item}", one.asks, f"{_status(one.status)}. {one.answer}")
        for one in result.references
    )


def _status(status: ReferenceStatus) -> str:
    return status.replace("_", " ").capitalize()
