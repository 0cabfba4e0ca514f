"""Which classes of attack an audit tried, and which it did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbound.auditing.references import ReferenceStatus, reads_texts

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

__all__ = ["REFERENCE_HEAD", "TRIED_HEAD", "reference_rows", "tried_rows"]

REFERENCE_HEAD = ("Item", "What it asks", "What this audit says")

TRIED_HEAD = ("Class of attack", "Tried", "How to try it")
SEVERAL = ("interrogation", "differential", "prefix", "extraction")  # that ask several questions


def tried_rows(result: AuditResult) -> tuple[tuple[str, str, str], ...]:
    """The classes of attack, each with what was done or how it is done.

    Args:
        result: A finished audit.

    Returns:
        Rows under `TRIED_HEAD`.
    """
    attack, spec = result.attack, result.spec
    white = attack["access"] == "white_box"
    texts = reads_texts(attack)
    several = spec.get("answers", 1) > 1 or attack["query"] in SEVERAL
    one_run = "builds" in result.counts
    return (
        _row("Was a given record in the context? From the answers",
             not white and not texts, result, "--access black_box"),
        _row("The same from votes, scores or embeddings before the answer",
             white, result, "--access white_box"),
        _row("Is the text of a record repeated?", texts, result, "--query repeat --canary hex"),
        _row("Several answers about one context", several, result,
             "--answers 9"),
        _row("Records of a store or memory that many queries share",
             one_run or spec.get("layout") == "session", result, "--design one_run"),
        _row("Channels beside the answer: tools, memory, logs, time",
             bool(result.channels), result, "--channel all"),
        _row("A query that was searched for this system", attack["query"] == "given", result,
             "leakbound tune"),
    )  # fmt: skip


def reference_rows(result: AuditResult) -> tuple[tuple[str, ...], ...]:
    """What standards and guidelines ask, each with what this audit says.

    Args:
        result: A finished audit.

    Returns:
        Rows under `REFERENCE_HEAD`; none for results of earlier versions.
    """
    return tuple(
        (f"{one.document}: {one.item}", one.asks, f"{_status(one.status)}. {one.answer}")
        for one in result.references
    )


def _status(status: ReferenceStatus) -> str:
    return status.replace("_", " ").capitalize()


def _row(name: str, tried: bool, result: AuditResult, how: str) -> tuple[str, str, str]:
    calls = result.counts["model_calls"]
    return (name, f"yes, {calls} calls", "") if tried else (name, "no", how)
