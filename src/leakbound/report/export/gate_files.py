"""Results of a gate as SARIF 2.1.0, for code scanning services, and as JUnit XML.

Each run that does not pass is a result; runs that pass are none, because services make an alert of
every result.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as tree

from leakbound._version import __version__
from leakbound.auditing.result.sentences import AISVS, OWASP_LLM

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.gating.gate import GateResult


SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {"violation": "error", "inconclusive": "warning"}
RULES = {
    "violation": (
        "LeakAboveClaim",
        "The system leaks more about single records of its context than is claimed.",
        "A lower bound on epsilon exceeds the claim or the limit of the gate. Strengthen the "
        "protection, or state a claim that the system satisfies.",
    ),
    "inconclusive": (
        "AuditInconclusive",
        "The audit could not have found a leak of the size that the gate asks for.",
        "Use more pairs, or an attack that sees the positive control, as the message says.",
    ),
}
REFERENCES = (f"{OWASP_LLM}, LLM02 Sensitive Information Disclosure", f"{AISVS}, C11.2.5")
SEVERITY = {"violation": "7.0", "inconclusive": "4.0"}  # high and medium, as code scanning has it
ADDRESSES = ("python:", "http:")  # of systems, before the file that holds them
Json = dict[str, object]


def sarif(records: Sequence[AuditResult], results: Sequence[GateResult]) -> str:
    """A log with one result for each run that does not pass."""
    found = [
        _result(record, result)
        for record, result in zip(records, results, strict=True)
        if result.outcome in LEVELS
    ]
    semantic = ".".join(__version__.split(".")[:3])  # what stands behind it is Python's own
    driver: Json = {
        "name": "leakbound", "version": __version__, "semanticVersion": semantic,
        "rules": [_rule(outcome) for outcome in LEVELS],
    }  # fmt: skip
    run: Json = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": found}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(outcome: str) -> Json:
    name, short, text = RULES[outcome]
    return {
        "id": f"leakbound/{outcome}",
        "name": name,
        "shortDescription": {"text": short},
        "fullDescription": {"text": short},
        "help": {"text": text},
        "defaultConfiguration": {"level": LEVELS[outcome]},
        "properties": {
            "tags": ["security", "privacy"],
            "security-severity": SEVERITY[outcome],
            "references": list(REFERENCES),
        },
    }


def _result(record: AuditResult, result: GateResult) -> Json:
    bound = record.bound
    # the same for the same question about the same system, whatever it answers
    asked = [result.outcome, record.spec.get("address"), *sorted(record.attack.items())]
    fingerprint = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
    address = str(record.spec.get("address") or "")
    scheme = next((one for one in ADDRESSES if address.startswith(one)), None)
    file = address.removeprefix(scheme or "").partition(":")[0]
    if scheme is None or file.startswith("/") or not file.endswith((".py", ".yaml", ".yml")):
        file = f"{record.name}/record.json"
    return {
        "ruleId": f"leakbound/{result.outcome}",
        "ruleIndex": list(LEVELS).index(result.outcome),
        "level": LEVELS[result.outcome],
        "message": {"text": f"{result.run}: {result.why}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(file.removeprefix("./"))},
                    "region": {"startLine": 1},
                }
            }
        ],
        "partialFingerprints": {"leakboundAudit/v1": fingerprint[:32]},
        "properties": {
            "verdict": record.verdict,
            "epsilonLowerBound": bound.epsilon,
            "method": bound.method,
            "reading": record.reading.words,
            "delta": bound.delta,
            "confidence": bound.confidence,
            "claimedEpsilon": record.claim.epsilon,
            "testedPairs": record.tested_pairs,
        },
    }


SUITE = "leakbound gate"
TAGS = {
    "violation": "failure",
    "inconclusive": "error",
}  # both fail a build; "skipped" would pass one silently
ILLEGAL = re.compile(
    "[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # of XML 1.0, escaped or not


def junit(results: Sequence[GateResult]) -> str:
    """One test case a run: a violation is a failure, an inconclusive run an error."""
    outcomes = [result.outcome for result in results]
    failures, errors = str(outcomes.count("violation")), str(outcomes.count("inconclusive"))
    suite = tree.Element(
        "testsuite", name=SUITE, tests=str(len(outcomes)), failures=failures, errors=errors
    )
    for result in results:
        name = _legal(result.run)
        case = tree.SubElement(suite, "testcase", classname="leakbound.gate", name=name)
        if result.outcome in TAGS:
            why = {"type": result.outcome, "message": _legal(result.why)}
            tree.SubElement(case, TAGS[result.outcome], why)
    root = tree.Element("testsuites")
    root.append(suite)
    tree.indent(root)
    xml = tree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{xml}\n'


def _legal(text: str) -> str:
    return ILLEGAL.sub("�", text)
