"""What the page of audits says first: the answer for several systems, and the facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from leakbound.auditing.subject import asked_models, claim_words, subject_of, system_name
from leakbound.report.frame import counted, facts
from leakbound.report.words import VERDICTS

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

OUTCOMES = {
    "violation": "leak more than was claimed", "no_violation": "were not shown to leak more",
    "inconclusive": "were not decided",
}  # fmt: skip
OUTCOME = {
    "violation": "leaks more than was claimed", "no_violation": "was not shown to leak more",
    "inconclusive": "was not decided",
}  # fmt: skip


def several_sentences(results: Sequence[AuditResult]) -> tuple[tuple[str, str], ...]:
    """Which systems have which verdict."""
    found = []
    for verdict in VERDICTS:
        names = [system_name(one) for one in results if one.verdict == verdict]
        outcome = OUTCOMES if len(names) > 1 else OUTCOME
        if names:
            text = f"{len(names)} of {len(results)} {outcome[verdict]}: {', '.join(names)}."
            found.append((verdict, text))
    return tuple(found)


def audit_tone(results: Sequence[AuditResult]) -> str:
    """The verdict that colours the first screen."""
    found = {one.verdict for one in results}
    order = ("violation", "inconclusive", "no_violation")
    return next(verdict for verdict in order if verdict in found)


def audit_facts(results: Sequence[AuditResult]) -> dict[str, str]:
    """On what was measured, what was claimed, when, and at what cost."""
    first, subjects = results[0], list(map(subject_of, results))
    several = len(results) > 1
    return facts(
        system=counted(len(results), "system") if several else system_name(first),
        model=asked_models(subjects),
        data=", ".join(dict.fromkeys(map(_data, results))),
        claim=claim_words(subjects),
        stored=", ".join(dict.fromkeys(one.stored_on for one in results if one.stored_on)),
        cost=counted(sum(one.counts["model_calls"] for one in results), "model call"),
    )


def _data(result: AuditResult) -> str:
    """The file; where none was given, what tells the rows from others."""
    named = result.spec.get("data") or result.spec.get("data_dir")
    if named:
        return PurePath(str(named)).name
    return f"rows with fingerprint {result.provenance['data_fingerprint']}"
