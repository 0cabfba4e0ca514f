"""Exports in the formats of others: valid by their schemas, with numbers and kinds intact.

tests/hosts/test_export_schemas.py validates the same with the official schemas.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import cli
from conftest import said
from leakbound_hosts.exports.opendp import GAP, Publication, registry_entry
from leakbound_hosts.exports.statements import cyclonedx, in_toto

from leakbound.auditing import AuditResult, make_spec, prepare, run_audit
from leakbound.auditing.decide.obstacles import Verdict
from leakbound.errors import UsageError
from leakbound.models import Scripted
from leakbound.tasks import Context

pytestmark = pytest.mark.process

HERE = Path(__file__).parent
DIGEST = "ab" * 32


def audited(rows: Context, out: Path, **settings: object) -> AuditResult:
    spec = make_spec({"pairs": 12, "simulations": 50, "controls": 4, **settings})
    prepared = prepare(spec, Scripted(complete=said, name="leaky"), rows=rows)
    return run_audit(prepared, out)[0]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def leaky(rows: Context, out: Path) -> AuditResult:
    return audited(rows, out)


@pytest.fixture(scope="module")
def private(rows: Context, out: Path) -> AuditResult:
    noisy = {"kind": "report_noisy_max", "partitions": 4}
    return audited(rows, out, mechanism=noisy, epsilon=2.0, labels=["plain", "odd"], shots=8)


def valid(found: Any, schema: str) -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft7Validator.FORMAT_CHECKER
    known = json.loads((HERE / schema).read_text())
    jsonschema.Draft7Validator(known, format_checker=checker).validate(found)
    return found


@pytest.mark.parametrize(
    ("verdict", "outcome", "kind"),
    [
        ("violation", "FAILED", "failedTests"),
        ("inconclusive", "FAILED", "failedTests"),
        ("no_violation", "PASSED", "passedTests"),
    ],
)
def test_a_statement_passes_only_where_nothing_is_rejected(
    leaky: AuditResult, verdict: Verdict, outcome: str, kind: str
) -> None:
    result = leaky.model_copy(update={"verdict": verdict, "findings": ()})
    text = in_toto(result, {"app.py": DIGEST})
    found = valid(json.loads(text), "in-toto-test-result-0.1.json")
    assert found["subject"] == [{"name": "app.py", "digest": {"sha256": DIGEST}}]
    predicate = found["predicate"]
    assert predicate["result"] == outcome
    assert any("epsilon 1 at delta 1e-05" in one for one in predicate[kind])
    assert any("positive control" in one for one in predicate["passedTests"])


def test_a_statement_names_settings_record_and_commitment(leaky: AuditResult) -> None:
    provenance = {**leaky.provenance, "commitment": DIGEST}
    result = leaky.model_copy(update={"provenance": provenance})
    found = valid(json.loads(in_toto(result, {"app": DIGEST})), "in-toto-test-result-0.1.json")
    named = {one["name"]: one["digest"]["sha256"] for one in found["predicate"]["configuration"]}
    assert named[f"{result.name}/record.json"] == sha256(result.to_json().encode()).hexdigest()
    assert named[f"{result.name}/commitment.json"] == DIGEST
    assert "settings" in named


@pytest.mark.parametrize("which", ["leaky", "private"])
def test_a_model_card_has_bounds_with_their_intervals(
    which: str, request: pytest.FixtureRequest
) -> None:
    result: AuditResult = request.getfixturevalue(which)
    found = valid(json.loads(cyclonedx(result)), "cyclonedx-1.6.json")
    (component,) = found["components"]
    card = component["modelCard"]
    bound, *others = card["quantitativeAnalysis"]["performanceMetrics"]
    assert bound["type"].startswith("privacy loss epsilon")
    assert "lower bound" in bound["type"]
    assert float(bound["value"]) <= (result.bound.epsilon or 0.0)
    assert bound["confidenceInterval"] == {"lowerBound": bound["value"], "upperBound": "Infinity"}
    rates = [one for one in others if "positive rate" in one["type"]]
    assert len(rates) == 2
    for one in rates:
        limits = one["confidenceInterval"]
        assert float(limits["lowerBound"]) <= float(one["value"]) <= float(limits["upperBound"])
    assert any("does not prove the claim" in one for one in
               card["considerations"]["technicalLimitations"])  # fmt: skip
    names = {one["name"]: one["value"] for one in component["properties"]}
    assert names["leakbound:verdict"] == result.verdict
    assert any("C11.2.5" in name for name in names)


def test_a_registry_entry_holds_the_guarantee_and_what_was_tested(private: AuditResult) -> None:
    known = Publication("2026-01-31", ("Example Ltd",), name="Triage of Messages")
    entry = valid(yaml.safe_load(registry_entry(private, known)), "opendp-deployment.json")
    assert (entry["url_slug"], entry["status"], entry["tier"]) == ("triage_of_messages", "Draft", 3)
    deployment = entry["deployment"]
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters["epsilon"] == pytest.approx(2.0, rel=1e-3)
    assert parameters["delta"] == 1e-5
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert "12 tested paired trials" in deployment["implementation"]["justification"]
    assert deployment["basic"]["intended_use"] == GAP
    assert known.gaps == ("description", "intended_use", "region")


def test_what_no_registry_takes_is_refused(leaky: AuditResult) -> None:
    with pytest.raises(UsageError, match="declares no finite guarantee"):
        registry_entry(leaky, Publication("2026-01-31", ("Example Ltd",)))
    for day in ("31.1.2026", "2026-02-30"):
        with pytest.raises(UsageError, match="YYYY-MM-DD"):
            Publication(day, ("Example Ltd",))
    with pytest.raises(UsageError, match="curators are empty"):
        Publication("2026-01-31", ())


def test_no_export_holds_a_private_row(private: AuditResult, rows: Context) -> None:
    known = Publication("2026-01-31", ("Example Ltd",))
    texts = [in_toto(private, {"a": DIGEST}), cyclonedx(private), registry_entry(private, known)]
    for row in rows:
        assert not any(str(row.input) in text for text in texts)


def test_the_command_prints_them(leaky: AuditResult, private: AuditResult, out: Path) -> None:
    (out / "app.py").write_text("pass\n")
    made = cli("export", "in-toto", private.name, "--subject", "app.py",
               "--subject", f"image@sha256:{DIGEST}", cwd=out)  # fmt: skip
    names = [one["name"] for one in json.loads(made.stdout)["subject"]]
    assert (made.returncode, names) == (0, ["app.py", "image"])
    entry = cli("export", "opendp", private.name, "--published", "2026-01-31",
                "--curator", "Example Ltd", cwd=out)  # fmt: skip
    assert entry.returncode == 0
    assert "to be filled in: name, description" in entry.stderr
    refused = cli("export", "in-toto", leaky.name, "--subject", "absent.py", cwd=out)
    assert refused.returncode == 2
    assert "NAME@sha256:" in refused.stderr
