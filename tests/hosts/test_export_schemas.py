"""Exports, validated with official schemas: CycloneDX 1.6, and protocol buffers of in-toto."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from leakbound_hosts.exports.statements import PREDICATE, cyclonedx, in_toto

import leakbound

pytestmark = pytest.mark.hosts

ROWS = [(f"message {i}", "ab"[i % 2]) for i in range(40)]


def leaks(context: tuple[leakbound.Example, ...], query: str) -> str:
    return "yes" if any(str(row.input) in query for row in context) else "no"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> leakbound.AuditResult:
    out = tmp_path_factory.mktemp("runs")
    return leakbound.audit(ROWS, system=leaks, pairs=12, simulations=0, out=out)


def test_a_model_card_is_valid_by_the_official_schema(result: leakbound.AuditResult) -> None:
    schema = pytest.importorskip("cyclonedx.schema")
    resources = Path(schema.__file__).parent / "_res"
    jsonschema = pytest.importorskip("jsonschema")
    referencing = pytest.importorskip("referencing")
    kept = {name: json.loads((resources / f"{name}.SNAPSHOT.schema.json").read_text())
            for name in ("bom-1.6", "spdx", "jsf-0.82")}  # fmt: skip
    registry = referencing.Registry().with_resources(
        (one["$id"], referencing.Resource.from_contents(one)) for one in kept.values()
    )
    validator = jsonschema.Draft7Validator(kept["bom-1.6"], registry=registry)
    validator.validate(json.loads(cyclonedx(result)))


def test_a_statement_is_parsed_by_the_package_of_in_toto(result: leakbound.AuditResult) -> None:
    statement = pytest.importorskip("in_toto_attestation.v1.statement")
    test_result = pytest.importorskip(
        "in_toto_attestation.predicates.test_result.v0.test_result_pb2"
    )
    from google.protobuf import json_format

    found = json.loads(in_toto(result, {"app.py": "ab" * 32}))
    parsed = json_format.ParseDict(found["predicate"], test_result.TestResult())
    assert parsed.result == "FAILED"
    assert len(parsed.failed_tests) == 1
    made = statement.Statement([], PREDICATE, {})
    json_format.ParseDict({**found, "type": found.pop("_type")}, made.pb)
    made.validate()
