"""Which classes of attack an audit tried, and which it did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

__all__ = ["TRIED_HEAD", "tried_rows"]

TRIED_HEAD = ("Class of attack", "Tried", "How to try it")
TEXTS = ("contains_canary", "overlap")  # scores that read what an answer repeats
REPEATED = ("mba", "s2", "prefix", "extraction")  # queries whose scores do
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
    texts = attack["score"] in TEXTS or attack["query"] in REPEATED
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


def _row(name: str, tried: bool, result: AuditResult, how: str) -> tuple[str, str, str]:
    calls = result.counts["model_calls"]
    return (name, f"yes, {calls} calls", "") if tried else (name, "no", how)
