"""SARIF logs of a gate: valid, with a place, a rule and a stable fingerprint for each result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import said

from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.gating.gate import Gate, GateResult, check_gate
from leakbound.models import Scripted
from leakbound.report.export.gate_files import sarif
from leakbound.tasks import Context

SCHEMA = Path(__file__).with_name("sarif-2.1.0.json")


@pytest.fixture(scope="module")
def record(rows: Context, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    spec = make_spec({"pairs": 12, "simulations": 50, "controls": 4})
    prepared = prepare(spec, Scripted(complete=said, name="leaky"), rows=rows)
    return run_audit(prepared, tmp_path_factory.mktemp("runs"))[0]


def valid(text: str) -> dict[str, Any]:
    jsonschema = pytest.importorskip("jsonschema")
    found: dict[str, Any] = json.loads(text)
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(found)
    return found


def test_a_log_is_valid_and_a_result_names_rule_place_and_numbers(record: AuditResult) -> None:
    found = valid(sarif([record], [check_gate(record, Gate(1.0))]))
    (run,) = found["runs"]
    (result,) = run["results"]
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["id"] == result["ruleId"] == "leakbound/violation"
    assert result["level"] == rule["defaultConfiguration"]["level"] == "error"
    assert "exceeds the claimed epsilon 1" in result["message"]["text"]
    assert result["properties"]["epsilonLowerBound"] == record.bound.epsilon
    assert any("LLM02" in one for one in rule["properties"]["references"])


def test_runs_that_pass_make_no_alert(record: AuditResult) -> None:
    outcomes = ("passed", "inconclusive", "violation")
    gated = [GateResult(record.name, one, "why\x1b ε\ud800") for one in outcomes]  # type: ignore[arg-type]
    results = valid(sarif([record] * 3, gated))["runs"][0]["results"]
    assert [one["level"] for one in results] == ["warning", "error"]
    assert len({one["partialFingerprints"]["leakboundAudit/v1"] for one in results}) == 2


@pytest.mark.parametrize(
    ("address", "uri"),
    [
        ("python:my app.py:answer", "my%20app.py"),
        ("python:./app/rag.py:answer", "app/rag.py"),
        ("http:service.yaml", "service.yaml"),
        ("python:/home/someone/app.py:answer", None),
        ("python:package.module:answer", None),
        (None, None),
    ],
)
def test_the_place_is_a_file_of_the_repository(
    address: str | None, uri: str | None, record: AuditResult
) -> None:
    """Never a path outside it."""
    asked = record.model_copy(update={"spec": {**record.spec, "address": address}})
    result = valid(sarif([asked], [check_gate(record, Gate(1.0))]))["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == (uri or f"{record.name}/record.json")


def test_the_fingerprint_is_that_of_the_question(record: AuditResult) -> None:
    gated = check_gate(record, Gate(1.0))
    logs = [valid(sarif([record], [one])) for one in (gated, replace(gated, why="other words"))]
    prints = [log["runs"][0]["results"][0]["partialFingerprints"] for log in logs]
    assert prints[0] == prints[1]
