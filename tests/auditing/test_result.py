"""Results: what one holds, its schema, and those that were written before."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing import AuditResult, load_result, make_spec, prepare, run_audit
from leakbound.auditing.result.audit_result import config_text
from leakbound.auditing.shards import merge, replay_model
from leakbound.errors import StoreError
from leakbound.gating.gate import Gate, check_gate
from leakbound.models import Scripted
from leakbound.report import page, summary
from leakbound.tasks import Context

GOLDEN = Path(__file__).parents[1] / "golden"
CURRENT = sorted(GOLDEN.glob("audit*/*.json"))


@pytest.fixture
def result(rows: Context, leaky: Scripted, tmp_path: Path) -> AuditResult:
    given = {"pairs": 40, "mechanism": "report_noisy_max", "simulations": 2000}
    spec = make_spec({**given, "labels": "odd,plain"})
    return run_audit(prepare(spec, leaky, rows=rows), tmp_path)[0]


def test_a_result_prints_its_verdict(result: AuditResult) -> None:
    lines = str(result).splitlines()
    assert lines[0] == (
        "NO VIOLATION: report_noisy_max T=10 on leaky; claim: ε = 1 at δ = 1e-05 "
        "(the default of an audit; nobody stated it)"
    )
    assert re.match(
        r"  From .*, the attacker guessed correctly in \d+ of 64 trials whether", lines[1]
    )
    assert lines[2].startswith(
        "  No bound is above the guarantee, which is stricter than the claim; 40 "
    )
    assert lines[3].startswith("  Attacks tried: votes or scores before the answer. Not tried: ")
    assert len(lines) == 4
    assert result.verdict == "no_violation"
    assert result.reason is None
    assert result.findings == ()
    assert [bound.method for bound in result.bounds] == ["e_process", "e_process_mu"]
    with pytest.raises(KeyError, match="has no estimate 'gpd'"):
        result.estimate("gpd")


def changed(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """What a record held, and does not hold so any more; fields may be added."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            yield from changed(value, new[key], f"{path}.{key}") if key in new else (key,)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from changed(one, other, f"{path}[{at}]")
    elif old != new:
        yield path


@pytest.mark.parametrize("file", CURRENT, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_results_of_version_2_stay_as_they_were_written(file: Path) -> None:
    """Written once: a change of the schema that loses or renames a field fails here."""
    result = load_result(file)
    assert not [*changed(json.loads(file.read_text()), json.loads(result.to_json()))]
    assert summary(result)
    assert result.verdict in page([result]).lower().replace(" ", "_")
    assert check_gate(result, Gate(result.claim.epsilon)).run == result.name


def test_a_run_of_version_1_is_refused_in_a_sentence_where_its_outputs_are_asked_for(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(GOLDEN / "run-1", runs)
    with pytest.raises(StoreError, match="is a run of schema version 1, and this version reuses"):
        replay_model(make_spec({}), runs)
    with pytest.raises(StoreError, match="run the audit again, without --replay"):
        merge([next(runs.iterdir())], tmp_path / "merged")


def test_a_result_of_kinds_that_no_catalogue_holds_gates_reports_and_exports(
    result: AuditResult, tmp_path: Path
) -> None:
    """Gate, report and export read the result alone: a package may be gone by then."""
    found = json.loads(result.to_json())
    for key in ("mechanism", "query", "canary", "estimator"):
        found["spec"][key] = {"kind": f"gone_{key}", "strength": 3}
        if key in found["attack"]:
            found["attack"][key] = f"gone_{key}"
    found["attack"]["score"] = "gone_score"
    found["handed"] = []
    found["spec"] |= {"assume_hit": 0.9, "assume_false_alarm": 0.02}
    file = tmp_path / "record.json"
    file.write_text(json.dumps(found))
    gone = load_result(file)
    assert check_gate(gone, Gate(1.0)).outcome == "passed"
    assert check_gate(gone, Gate(1.0, min_power=0.5, factor=8)).outcome == "passed"
    assert "gone_mechanism" in summary(gone)
    assert "gone_query" in page([gone])
    assert "kind: gone_canary\n    strength: 3" in config_text(gone)
