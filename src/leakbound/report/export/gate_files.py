"""Results of a gate: on one screen, as an HTML page, as SARIF 2.1.0 for code scanning, and as JUnit
XML. In SARIF, only runs that do not pass are results: services make an alert of each.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as tree

from leakbound._version import __version__
from leakbound.auditing.result.sentences import (
    AISVS,
    OWASP_LLM,
    claim_words,
    models_of,
    subject_of,
    systems_words,
)
from leakbound.gating.gate import rules
from leakbound.report.audit.remedies import next_step, remedy
from leakbound.report.audit.words import limits_of
from leakbound.report.pages import render
from leakbound.report.screen import NAMES, SIGNS, WIDTH, lay_out, leak_rows
from leakbound.report.words import LIMITS, TableCell, facts, number_of, sentence, verdict_text
from leakbound.stats import beside

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult
    from leakbound.gating.gate import Gate, GateResult


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


RANKS = {"violation": 0, "inconclusive": 1, "passed": 2}
TONES = {"violation": "violation", "inconclusive": "inconclusive", "passed": "no_violation"}
SHOWN = 2  # runs on a screen, the gravest first
RULE_HEAD = ("Rule", "This run", "Limit", "Holds")
LAST = {
    "violation": "A lower bound decides",
    "inconclusive": "A run that could show nothing does not pass",
    "passed": "Not a proof of safety",
}


def gate_screen(
    results: Sequence[GateResult], records: Sequence[AuditResult], gate: Gate, *, code: int,
    width: int = WIDTH,
) -> str:  # fmt: skip
    """How many runs pass, the gravest with its bound and limit, why, and what to do."""
    ranked, known = _by_gravity(results, records), {one.name: one for one in records}
    worst, rows = ranked[0], list[tuple[str, str]]()
    for one in ranked[:SHOWN]:
        text = one.run
        if (record := known.get(one.run)) is not None:
            shown, limit = beside(record.bound.epsilon, gate.max_epsilon)
            bound = f"ε ≥ {shown}, limit {limit}   "
            room = WIDTH - NAMES - len(bound)
            text = bound + (text if len(text) <= room else f"{text[: room - 1]}…")
        rows.append((one.outcome, text))
    if (record := known.get(worst.run)) is not None:
        rows += [*leak_rows(record.bound.epsilon, gate.max_epsilon, "limit")][1:]
    rows.append(("reason", sentence(worst.why)))
    if record is not None and worst.outcome == "violation":
        claimed = record.verdict == "violation"
        change = f"strengthen the protection until no bound is above {gate.max_epsilon:g}"
        rows.append(("fix", remedy(record).change if claimed else change))
    if record is not None and worst.outcome == record.verdict == "inconclusive":
        rows.append(("next", next_step(record)))
    more = len(ranked) - SHOWN
    last = f"{LAST[worst.outcome]}. {f'{more} more, and every' if more > 0 else 'Every'} reason: -v"
    named = f": {systems_words([subject_of(one) for one in records])}" if records else ""
    headline = f"{SIGNS[worst.outcome]} GATE   {tally_words(results)}{named}"
    return lay_out(headline, rows, last, code=code, width=width)


def tally_words(results: Sequence[GateResult]) -> str:
    found = Counter[str](one.outcome for one in results)
    return ", ".join(f"{found[one]} {verdict_text(one, found[one])}" for one in RANKS if found[one])


def _by_gravity(results: Sequence[GateResult], records: Sequence[AuditResult]) -> list[GateResult]:
    bounds = {one.name: one.bound.epsilon or 0.0 for one in records}
    return sorted(results, key=lambda one: (RANKS[one.outcome], -bounds.get(one.run, 0.0)))


def gate_page(results: Sequence[GateResult], records: Sequence[AuditResult], gate: Gate) -> str:
    ranked, subjects = _by_gravity(results, records), [subject_of(one) for one in records]
    known = {one.name: one for one in records}
    sections = [
        (one, _rule_rows(known[one.run], gate) if one.run in known else []) for one in ranked
    ]
    return render(
        "export/gate.html.j2",
        title=f"Gate over {number_of(len(results), 'run')}",
        tone=TONES[ranked[0].outcome], tones=TONES, found=tally_words(results),
        facts=facts(
            system=systems_words(subjects) if subjects else "",
            model=models_of(subjects), claim=claim_words(subjects),
            cost=number_of(sum(one.counts["model_calls"] for one in records), "model call"),
        ),
        sections=sections, head=RULE_HEAD, limits=limits_of(records) or LIMITS[:2],
    )  # fmt: skip


def _rule_rows(record: AuditResult, gate: Gate) -> list[tuple[TableCell | str, ...]]:
    found = {one.name: one for one in rules(record, gate)}  # the verdict may be asked twice
    return [
        (name, one.value, one.limit,
         TableCell("no" if one.why else "yes", kind=TONES[one.outcome if one.why else "passed"]))
        for name, one in found.items()
    ]  # fmt: skip
