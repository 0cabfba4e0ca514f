"""What an audit means, in sentences that need no statistics."""

from __future__ import annotations

import math

from leakbound.auditing.decide.verdict import read_scores
from leakbound.auditing.result.record import AuditRecord
from leakbound.stats import cut


def verdict_words(result: AuditRecord) -> str:
    """The verdict as a heading."""
    reason = "" if result.reason is None else f" ({result.reason})"
    return result.verdict.replace("_", " ").upper() + reason


def verdict_sentence(result: AuditRecord) -> str:
    """The verdict and why, in one line."""
    return f"{verdict_words(result)}: {result.sentences[0]}"


def attacker_sentence(result: AuditRecord) -> str:
    """How well the attacker did, by the reading of the bound."""
    read = result.reading
    if read.of == "distribution" and result.verdict != "violation":
        read = read_scores(result.estimates)  # nothing decided; what single outputs show
    if not read.guesses:
        return ""
    right, guessing = (
        f"was right about {read.right} of {read.guesses}",
        f"Guessing gives about {read.guesses // 2}.",
    )
    if read.compares:
        said = (
            f"An attacker who compared both contexts of each pair by {read.words} {right} pairs: "
            f"in which of them was the canary? {guessing}"
        )
        return f"{said} {read.leads}".strip() if result.verdict == "violation" else said
    what = "canaries" if "builds" in result.counts else "contexts"
    white = result.attack["access"] == "white_box"
    seen = "what was computed before each answer" if white else "the answers"
    return f"An attacker who saw {seen} {right} {what}: was the canary there or not? {guessing}"


def odds_sentence(result: AuditRecord) -> str:
    """What the bound means for the person whose record it is."""
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


def _seen(result: AuditRecord) -> str:
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
