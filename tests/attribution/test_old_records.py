"""Records of every schema version load and render."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from leakbound.attribution import csv_text, load_influence, npz_bytes
from leakbound.report.influence.page import influence_page
from leakbound.report.influence.terminal import influence_summary, print_heat

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["influence-2.json"])
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
