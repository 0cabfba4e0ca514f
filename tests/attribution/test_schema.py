"""Records of every schema version load and render, and the shipped JSON schemas are theirs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from leakbound_lab.studies.record import StudyRecord

import leakbound
from leakbound.attribution import InfluenceRecord, csv_text, load_influence, npz_bytes
from leakbound.report.influence.page import influence_page
from leakbound.report.influence.terminal import influence_summary, print_heat

GOLDEN = Path(__file__).parent / "golden"
OLD = Path(__file__).parents[1] / "golden" / "influence-1.json"  # written by the code before
SHIPPED = Path(leakbound.__file__).parent / "attribution"


@pytest.mark.parametrize("name", ["influence-1-first.json", "influence-1.json"])
def test_records_of_every_form_still_load_and_render(name: str) -> None:
    record = load_influence(GOLDEN / name)
    assert record.schema_version == 2
    assert len(record.attributions) == 2
    assert "48213" in influence_page(record)
    assert csv_text(record).startswith("context,lambda,")
    assert npz_bytes(record)
    shown = io.StringIO()
    print_heat(record, file=shown)
    assert "»" in shown.getvalue()
    assert "top-attributed" in influence_summary(record)


def test_the_first_form_has_no_lambda_of_tokens() -> None:
    first, present = (
        load_influence(GOLDEN / name) for name in ("influence-1-first.json", "influence-1.json")
    )
    assert first.attributions[0].readings[0].lams == ()
    assert first.attributions[0].readings[0].epsilon is None
    assert "λ of each token" in influence_summary(present)
    assert "λ of each token" not in influence_summary(first)


def test_a_record_of_version_1_has_the_keys_of_version_2() -> None:
    """`floor`, `promise` and `hottest` were renamed; no number changes."""
    old = json.loads(OLD.read_text())
    record = load_influence(OLD)
    before, after = old["attributions"][0]["readings"][0], record.attributions[0].readings[0]
    assert after.tolerance == before["floor"]
    assert [list(row) for row in after.grids[0].signed] == before["grids"][0]["signed"]
    assert list(record.notes) == old["promise"]
    names = [one["of"].replace("hottest", "top_attributed") for one in old["expected"]]
    assert [one.of for one in record.expected] == names
    assert [one.mean for one in record.expected] == [one["mean"] for one in old["expected"]]
    written = json.loads(record.to_json())
    assert not {"promise", "floor", "hottest"} & set(written.keys())
    assert InfluenceRecord.model_validate(written) == record


@pytest.mark.parametrize(
    ("file", "model"),
    [("record-2.schema.json", InfluenceRecord), ("study-1.schema.json", StudyRecord)],
)
def test_the_shipped_json_schema_is_that_of_the_record(file: str, model: Any) -> None:
    assert json.loads((SHIPPED / file).read_text()) == model.model_json_schema(mode="serialization")
