"""An audit as a few lines of plain text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.auditing.result.sentences import (
    attacker_sentence,
    attacks_sentence,
    first_line,
    odds_sentence,
    subject_of,
    system_name,
    verdict_words,
)
from leakbound.report.audit.words import (
    CHANNEL_HEAD,
    bound_sentence,
    channel_row,
    channels_sentence,
    check_sentence,
    reason_sentences,
    setup_sentence,
)
from leakbound.report.words import align, decimal, verdict_text
from leakbound.stats import beside, cut

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

HEAD = (
    "system", "verdict", "claim ε", "ε ≥", "μ ≥", "guarantee μ", "AUROC (point)", "model calls",
    "by",
)  # fmt: skip


def summary(result: AuditResult, verbose: bool = False) -> str:
    """Verdict first, then the bound, why, what was tried, and what it does not show."""
    lines = [first_line(verdict_words(result), [subject_of(result)])]
    meaning = (attacker_sentence(result), odds_sentence(result), bound_sentence(result))
    lines += [f"  {one}" for one in meaning if one]
    lines += [f"  {one}" for one in reason_sentences(result, None if verbose else 1)]
    if result.channels:
        table = align(CHANNEL_HEAD, *map(channel_row, result.channels))
        lines += [f"  {line}" for line in (*table.splitlines(), channels_sentence(result))]
    lines += [f"  Warning: {warning}" for warning in result.warnings]
    lines += [f"  Tried: {setup_sentence(result)}"]
    lines += [f"  {checked}"] if (checked := check_sentence(result)) else []
    unparsable, answers = result.counts["unparsable_answers"], result.counts["answers"]
    if unparsable:
        lines += [
            f"  {unparsable} of {answers} answers could not be read; they count as no answer."
        ]
    lines += [f"  {attacks_sentence(result)}"]
    lines += ["  Not shown: that no other attack does better. See the report for all limits."]
    return "\n".join(lines)


def comparison_table(results: Sequence[AuditResult]) -> str:
    """Several audits as a table."""
    rows = [
        (
            system_name(r),
            verdict_text(r.verdict),
            *reversed(beside(r.bound.epsilon, r.claim.epsilon)),
            cut(r.mu_bound.mu, 3),
            "none" if r.guarantee.mu is None else decimal(r.guarantee.mu),
            decimal(r.curves.auroc),
            str(r.counts["model_calls"]),
            f"{r.bound.method}, {r.bound.confidence:.0%}",
        )
        for r in results
    ]
    found = Counter(verdict_text(one.verdict) for one in results)
    tally = ", ".join(f"{number} {verdict}" for verdict, number in found.items())
    heading = first_line(f"AUDITS ({tally})", list(map(subject_of, results)))
    return f"{heading}\n{align(HEAD, *rows)}"
