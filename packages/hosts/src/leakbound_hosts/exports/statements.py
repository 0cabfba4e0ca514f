"""A result as a CycloneDX 1.6 model card, and as an in-toto statement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from leakbound._version import __version__
from leakbound.auditing.result.sentences import system_name
from leakbound.report.audit.words import limits_of
from leakbound.stats import cut
from leakbound.stats.counts.bounds import binomial_lower, binomial_upper

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
    attack = result.attack
    where = (
        f"query {attack['query']}, canary {attack['canary']}, score {attack['score']}, "
        f"{attack['access'].replace('_', ' ')}; {result.counts['tested_pairs']} tested trials"
    )
    for bound in result.bounds:
        if bound.epsilon is not None:
            name = f"privacy loss epsilon at delta {bound.delta:g}, lower bound"
            yield _bound(name, bound, bound.epsilon, where)
        elif bound.mu is not None:
            yield _bound("privacy loss mu (Gaussian DP), lower bound", bound, bound.mu, where)
    counted = next((one for one in result.estimates if one.method == "clopper_pearson"), None)
    if counted is not None:
        yield from _rates(counted, where)


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


STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"


def in_toto(result: AuditResult, subjects: Mapping[str, str]) -> str:
    """A test-result statement about what was audited.

    An inconclusive audit has FAILED: a policy that asks for PASSED must not accept a test that
    could have found nothing. No violation with a finding beside it has WARNED.
    """
    tests = dict(_tests(result))
    named = {kind: [name for name, found in tests.items() if found == kind] for kind in
             ("PASSED", "WARNED", "FAILED")}  # fmt: skip
    statement: Json = {
        "_type": STATEMENT,
        "subject": [_artifact(name, digest) for name, digest in subjects.items()],
        "predicateType": PREDICATE,
        "predicate": {
            "result": _verdict(result),
            "configuration": [*_configuration(result)],
            "passedTests": named["PASSED"],
            "warnedTests": named["WARNED"],
            "failedTests": named["FAILED"],
        },
    }
    return json.dumps(statement, indent=2) + "\n"


def _verdict(result: AuditResult) -> str:
    if result.verdict != "no_violation":
        return "FAILED"
    return "WARNED" if result.beside else "PASSED"


def _tests(result: AuditResult) -> Iterator[tuple[str, str]]:
    """What an audit tests, by name: the claim, and that it could have been rejected."""
    claim, run = result.claim, result.name
    yield f"{run}: epsilon {claim.epsilon:g} at delta {claim.delta:g} is not rejected", \
        _verdict(result)  # fmt: skip
    controls, state = result.controls, result.state
    if controls is not None:
        seen = controls.seen and controls.seen_late
        yield f"{run}: the attack sees the positive control", "PASSED" if seen else "FAILED"
    if state is not None:
        clean = state.found is None
        yield f"{run}: answers do not depend on earlier queries", "PASSED" if clean else "FAILED"


def _configuration(result: AuditResult) -> Iterator[Json]:
    """The settings, the record, and the commitment where one was made before the first call."""
    spec = json.dumps(result.spec, sort_keys=True).encode()
    yield _artifact("settings", hashlib.sha256(spec).hexdigest())
    record = hashlib.sha256(result.to_json().encode()).hexdigest()
    yield _artifact(f"{result.name}/record.json", record)
    if commitment := result.provenance.get("commitment"):
        yield _artifact(f"{result.name}/commitment.json", commitment)


def _artifact(name: str, digest: str) -> Json:
    return {"name": name, "digest": {"sha256": digest}}
