"""Two sweeps side by side: common points, joint intervals, and what cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sweeping.conftest import Sweeps

import leakbound
from leakbound.cli.main import main
from leakbound.errors import StoreError, UsageError
from leakbound.models import Counted, Scripted
from leakbound.sweeping import compare_sweeps, load_sweep

BASE: dict[str, Any] = {"mechanism": "few_shot", "labels": "odd,plain", "controls": 2,
                        "pairs": 40, "simulations": 0}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that finds every canary and one that finds none; one grid has a point more."""
    folder = tmp_path_factory.mktemp("compared")
    rows = [{"text": f"row {i} of many", "label": ("odd", "plain")[i % 2]} for i in range(40)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, shots in (("leaky", [5, 6]), ("blind", [5, 6, 7])):
        sweeps = Sweeps(folder / name, folder / "rows.jsonl")
        sweeps.base = {"data": str(folder / "rows.jsonl"), **BASE}
        if name == "blind":
            sweeps.model = Counted(Scripted(complete=lambda prompt: "no", name="blind"))
        sweeps.run({"shots": shots})
    return folder


@pytest.mark.slow
def test_common_points_are_compared_with_joint_intervals(folder: Path) -> None:
    found = leakbound.compare([folder / "leaky", str(folder / "blind")])
    assert [point.changes for point in found.points] == [{"shots": 5}, {"shots": 6}]
    assert found.only_second == ("shots=7, seed 0",)
    assert not found.only_first
    assert found.confidence == 0.95
    for point in found.points:
        one = next(c for c in point.comparison.contrasts if c.rate == "tpr")
        assert (one.difference, one.significant) == (-1.0, True)
        assert not next(c for c in point.comparison.contrasts if c.rate == "fpr").significant
        runs = [folder / n / load_sweep(folder / n).points[0].run for n in ("leaky", "blind")]
        single = leakbound.compare(runs)
        wide = next(c for c in single.contrasts if c.rate == "tpr")
        assert one.low <= wide.low
        assert wide.high < one.high  # both points hold together
    assert compare_sweeps(folder / "leaky", folder / "blind").to_json() == found.to_json()


def test_the_command_prints_a_line_for_each_point(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ((), ("-v",), ("--json",)):
        with pytest.raises(SystemExit) as ended:
            main(["compare", str(folder / "leaky"), str(folder / "blind"), *option])
        assert ended.value.code == 0
    said = capsys.readouterr().out
    assert " only in B\n" in said
    assert "-1.000 [-1.000, -" in said
    assert "Only in B: shots=7, seed 0." in said
    assert '"kind": "sweeps"' in said


def test_what_cannot_be_compared_gets_a_sentence(folder: Path, tmp_path: Path) -> None:
    run = folder / "leaky" / load_sweep(folder / "leaky").points[0].run
    with pytest.raises(UsageError, match="two sweeps or two influence records"):
        leakbound.compare([folder / "leaky", run])
    with pytest.raises(UsageError, match="compare got 3 records of sweep"):
        leakbound.compare([folder / "leaky"] * 3)
    (tmp_path / "sweep.json").write_text((folder / "leaky" / "sweep.json").read_text())
    with pytest.raises(StoreError, match="holds 0 runs named few_shot"):
        leakbound.compare([tmp_path, folder / "blind"])
    (tmp_path / "sweep.json").write_text(
        (folder / "leaky" / "sweep.json").read_text().replace('"seed": 0', '"seed": 7')
    )
    with pytest.raises(UsageError, match="have no point in common"):
        leakbound.compare([tmp_path, folder / "blind"])
