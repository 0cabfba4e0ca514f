"""A result as a CycloneDX 1.6 model card: what inventories of AI components hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from leakbound._version import __version__
from leakbound.auditing.result.sentences import system_name
from leakbound.report.audit.words import limits_of
from leakbound.stats import cut
from leakbound.stats.counts.intervals import binomial_lower, binomial_upper

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.stats import Estimate

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
VERSION = "1.6"
DIGITS = 4  # of rates: beyond what so few trials say
Json = dict[str, object]


def cyclonedx(result: AuditResult) -> str:
    """A bill of materials with one model, whose card holds the bound and the rates of the
    attack.
    """
    model = result.provenance["model"]
    document: Json = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": VERSION,
        "version": 1,
        "metadata": {
            "tools": {
                "components": [{"type": "application", "name": "leakbound", "version": __version__}]
            }
        },
        "components": [
            {
                "type": "machine-learning-model",
                "bom-ref": f"leakbound/{result.name}",
                "name": model,
                "description": f"{system_name(result)}, audited for membership inference about "
                "records of its context",
                "modelCard": _card(result),
                "properties": [*_properties(result)],
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _card(result: AuditResult) -> Json:
    risk = {
        "name": "An answer may reveal whether a record is in the context",
        "mitigationStrategy": f"Guarantee of the mechanism: {result.guarantee.text}",
    }
    return {
        "quantitativeAnalysis": {"performanceMetrics": [*_metrics(result)]},
        "considerations": {
            "technicalLimitations": [*result.sentences, *limits_of([result])],
            "ethicalConsiderations": [risk],
        },
    }


def _metrics(result: AuditResult) -> Iterator[Json]:
    """The deciding bounds, and the rates of the attack where single outputs were counted."""
    where = _slice(result)
    for bound in result.bounds:
        if bound.epsilon is not None:
            name = f"privacy loss epsilon at delta {bound.delta:g}, lower bound"
            yield _bound(name, bound, bound.epsilon, where)
        elif bound.mu is not None:
            yield _bound("privacy loss mu (Gaussian DP), lower bound", bound, bound.mu, where)
    counted = next((one for one in result.estimates if one.method == "clopper_pearson"), None)
    if counted is not None:
        yield from _rates(counted, where)


def _slice(result: AuditResult) -> str:
    attack = result.attack
    pairs = result.counts["tested_pairs"]
    return (
        f"query {attack['query']}, canary {attack['canary']}, score {attack['score']}, "
        f"{attack['access'].replace('_', ' ')}; {pairs} tested trials"
    )


def _bound(name: str, bound: Estimate, value: float, where: str) -> Json:
    """A lower bound is a one-sided interval: nothing limits the loss from above."""
    low = cut(value, DIGITS) if value < float("inf") else "Infinity"
    confidence = f"{bound.confidence or 0:.0%} confidence"
    return {
        "type": f"{name}, {bound.method}, {confidence}", "value": low, "slice": where,
        "confidenceInterval": {"lowerBound": low, "upperBound": "Infinity"},
    }  # fmt: skip


def _rates(counted: Estimate, where: str) -> Iterator[Json]:
    """Exact two-sided intervals at 95 %, each by itself."""
    counts = counted.counts
    rates = (("true", counts["tp"], counts["fn"]), ("false", counts["fp"], counts["tn"]))
    for name, yes, no in rates:
        limits = (float(limit(yes, yes + no, 0.025)) for limit in (binomial_lower, binomial_upper))
        low, high = limits
        yield {
            "type": f"{name}-positive rate of the attack, 95% confidence",
            "value": f"{yes / (yes + no):.{DIGITS}f}", "slice": where,
            "confidenceInterval": {
                "lowerBound": f"{low:.{DIGITS}f}", "upperBound": f"{high:.{DIGITS}f}",
            },
        }  # fmt: skip


def _properties(result: AuditResult) -> Iterator[Json]:
    claim = result.claim
    known = {
        "verdict": result.verdict, "reason": result.reason or "",
        "claim:epsilon": f"{claim.epsilon:g}", "claim:delta": f"{claim.delta:g}",
        "claim:relation": claim.relation, "run": result.name,
        "evidence": result.provenance.get("evidence", ""),
    }  # fmt: skip
    for name, value in known.items():
        if value:
            yield {"name": f"leakbound:{name}", "value": value}
    for one in result.references:
        name = f"leakbound:reference:{one.document}: {one.item}"
        yield {"name": name, "value": f"{one.status}: {one.answer}"}
