"""The record of a sweep: what it holds, an exported row per point."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from leakbound.errors import StoreError
from leakbound.report.sweep.page import sweep_page
from leakbound.report.sweep.words import sweep_summary
from leakbound.sweeping import SweepRecord, load_sweep, sweep_csv

GOLDEN = Path(__file__).parents[1] / "golden" / "sweep-2.json"


@pytest.fixture(scope="module")
def record() -> SweepRecord:
    return load_sweep(GOLDEN)


def test_a_record_stays_as_it_was_written(record: SweepRecord, tmp_path: Path) -> None:
    assert json.loads(record.to_json()) == json.loads(GOLDEN.read_text())
    (tmp_path / "sweep.json").write_text(record.to_json())
    assert load_sweep(tmp_path) == record


def test_the_record_renders(record: SweepRecord) -> None:
    assert sweep_page(record).startswith("<!doctype html>")
    assert sweep_summary(record, 7).startswith("SWEEP (4 no violation, 4 refused): ")
    assert "Model calls of this command: 7." in sweep_summary(record, 7)


def test_the_table_has_a_row_a_point(record: SweepRecord) -> None:
    rows = list(csv.DictReader(io.StringIO(sweep_csv(record))))
    assert len(rows) == len(record.points)
    for row, point in zip(rows, record.points, strict=True):
        assert (float(row["epsilon"]), int(row["seed"])) == (point.changes["epsilon"], point.seed)
        assert (row["verdict"], row["method"], row["kind"]) == (
            point.verdict,
            "e_process",
            "lower_bound",
        )
        assert float(row["bound"]) == point.bound.epsilon
        assert float(row["claim"]) == point.claim.epsilon == point.changes["epsilon"]
        assert float(row["tpr_low"]) <= float(row["tpr"]) <= float(row["tpr_high"])
        assert float(row["fpr_low"]) <= float(row["fpr"]) <= float(row["fpr_high"])
        assert float(row["mu_guarantee"]) == point.guarantee.mu
        assert float(row["epsilon_exact"]) == pytest.approx(point.changes["epsilon"], rel=1e-6)
        assert 0 <= float(row["utility"]) <= 1
        assert int(row["model_calls"]) == point.model_calls


def test_calls_are_counted_once_a_collection(record: SweepRecord) -> None:
    by_seed = {point.seed: point for point in record.points}
    used = [point.utility for point in by_seed.values()]
    assert record.model_calls == sum(p.model_calls for p in by_seed.values()) + sum(
        u.model_calls + u.reference_model_calls for u in used if u
    )
    assert record.model_calls_unshared == 2 * record.model_calls


@pytest.mark.parametrize(
    "text", ['{"schema_version": 3}', '{"schema_version": 1}', "[]", "{", '{"schema_version": 2}']
)
def test_what_is_no_sweep_is_refused_with_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(StoreError, match=r"holds no sweep\.json"):
        load_sweep(tmp_path)
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(StoreError, match="not a sweep of schema version 2"):
        load_sweep(tmp_path)
