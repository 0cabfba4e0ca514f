"""What an audit means, in sentences that need no statistics."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from leakbound.stats import cut

if TYPE_CHECKING:
    from leakbound.auditing.result import AuditResult

__all__ = ["attacker_sentence", "guesses", "odds_sentence", "verdict_sentence", "verdict_words"]


def verdict_words(result: AuditResult) -> str:
    """The verdict as a heading.

    Args:
        result: A finished audit.

    Returns:
        The verdict in capitals; of an inconclusive one, with its reason code.
    """
    reason = "" if result.reason is None else f" ({result.reason})"
    return result.verdict.replace("_", " ").upper() + reason


def verdict_sentence(result: AuditResult) -> str:
    """The verdict and why, in one line.

    Args:
        result: A finished audit.

    Returns:
        The verdict, and the first of its sentences.
    """
    return f"{verdict_words(result)}: {result.sentences[0]}"


def guesses(result: AuditResult) -> tuple[int, int] | None:
    """How often single outputs told the contexts apart.

    Args:
        result: A finished audit.

    Returns:
        (right guesses, guesses); None where no single outputs were guessed from.
    """
    by_method = {estimate.method: estimate.counts for estimate in result.estimates}
    if counts := by_method.get("one_run"):
        return counts["correct"], counts["guesses"]
    if counts := by_method.get("clopper_pearson"):
        return counts["tp"] + counts["tn"], sum(counts.values())
    return None


def attacker_sentence(result: AuditResult) -> str:
    """How well the attacker did.

    Args:
        result: A finished audit.

    Returns:
        One sentence; empty where no single outputs were guessed from.
    """
    found = guesses(result)
    if found is None:
        return ""
    right, total = found
    what = "canaries" if "builds" in result.counts else "contexts"
    white = result.attack["access"] == "white_box"
    seen = "what was computed before each answer" if white else "the answers"
    return (
        f"An attacker who saw {seen} was right about {right} of {total} {what}: was the canary "
        f"there or not? Guessing gives about {total // 2}."
    )


def odds_sentence(result: AuditResult) -> str:
    """What the bound means for the person whose record it is.

    Args:
        result: A finished audit.

    Returns:
        One sentence; another one where no leakage was shown.
    """
    epsilon = result.bound.epsilon or 0.0
    if epsilon <= 0:
        return "No leakage was shown; this does not show that there is none."
    factor = math.exp(epsilon)
    times = "a million" if factor > 1e6 else cut(factor, 1)
    where = "store" if "builds" in result.counts else "context"
    return (
        f"For one person: {_seen(result)} can multiply or divide the odds that their record "
        f"is in the {where} by {times} or more."
    )


def _seen(result: AuditResult) -> str:
    """What the bound is about."""
    if "builds" in result.counts:
        return f"the {result.counts['answers']} answers of this run together"
    if result.channels:
        return "what goes through these channels"
    if result.attack["access"] == "white_box":
        return "what is computed before an answer"
    own = result.provenance["model"] == result.attack["mechanism"]  # it asks its own model
    asked = result.counts["answers"] // (2 * result.counts["pairs"]) if own else 1
    number = max(result.spec.get("answers", 1), asked)
    return "an answer" if number == 1 else f"{number} answers about one context"
