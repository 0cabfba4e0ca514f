"""A result as an in-toto statement: what supply-chain policies verify. It is not signed here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
Json = dict[str, object]


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
