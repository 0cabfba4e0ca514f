"""Shards of a sweep: the same record as in one process, and a sentence for what does not fit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from sweeping.conftest import Sweeps

from leakbound.auditing.store.folder import is_run
from leakbound.cli.main import main
from leakbound.errors import StoreError, UsageError
from leakbound.sweeping import SweepRecord, load_sweep, merge_sweeps, shard_file

GRID: dict[str, Any] = {"mechanism.partitions": [2, 3, 6], "epsilon": [1, 4]}
FEW = {"pairs": 8, "controls": 2, "simulations": 0}


def run_shard(sweeps: Sweeps, number: int, total: int, out: Path, **base: Any) -> SweepRecord:
    sweep = sweeps.sweep(GRID, {**FEW, **base})
    sweep.plan, sweep.out, sweep.file = (
        sweep.plan.shard(number, total), out, shard_file(number, total),
    )  # fmt: skip
    return sweep.run()


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole sweep, and its three shards: two in folders of their own, one beside the first."""
    folder = tmp_path_factory.mktemp("sweep")
    rows = [
        f'{{"text": "row {i} of many", "label": "{("odd", "plain")[i % 2]}"}}' for i in range(40)
    ]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    whole = Sweeps(folder / "whole", folder / "rows.jsonl")
    whole.run(GRID, FEW)
    calls = whole.model.calls
    sweeps = Sweeps(folder / "none", folder / "rows.jsonl")
    for number, out in ((1, "a"), (2, "b"), (3, "a")):
        run_shard(sweeps, number, 3, folder / out)
    assert sweeps.model.calls == calls  # nothing is asked twice
    return folder


@pytest.mark.slow
def test_shards_give_the_record_of_one_process(parts: Path, tmp_path: Path) -> None:
    counts = [len(load_sweep(parts / f).points) for f in
              ("a/shard-1-of-3.json", "b/shard-2-of-3.json", "a/shard-3-of-3.json")]  # fmt: skip
    assert sorted(counts) == [2, 2, 2]  # points that share their calls stay together
    merged = merge_sweeps([parts / "b", parts / "a"], tmp_path / "merged")
    assert merged.to_json() == load_sweep(parts / "whole").to_json()
    assert load_sweep(tmp_path / "merged") == merged
    runs = [run.name for run in (tmp_path / "merged").iterdir() if is_run(run)]
    assert {point.run for point in merged.points} == set(runs)


@pytest.mark.slow
def test_the_command_merges_shards_of_a_sweep(
    parts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["merge", str(parts / "a"), str(parts / "b"), "--out", str(tmp_path / "m")])
    assert ended.value.code == 3
    assert "   points           6 " in capsys.readouterr().out
    assert (tmp_path / "m" / "sweep.html").is_file()


@pytest.mark.slow
def test_missing_and_unfinished_shards_are_named(parts: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"shard 2/3 of the sweep is missing .* --shard 2/3"):
        merge_sweeps([parts / "a"], tmp_path / "out")
    shutil.copytree(parts / "b", tmp_path / "b")
    cut = (tmp_path / "b" / "shard-2-of-3.json").read_text()
    reason = "another shard of the sweep runs it."
    (tmp_path / "b" / "shard-2-of-3.json").write_text(cut.replace(reason, "cut off.", 1))
    with pytest.raises(StoreError, match=r"shard 2/3 .* not finished"):
        merge_sweeps([parts / "a", tmp_path / "b"], tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="holds no shard of a sweep"):
        merge_sweeps([parts / "a", tmp_path / "empty"], tmp_path / "out")


@pytest.mark.parametrize(
    ("base", "text", "sentence"),
    [({"pairs": 10}, "row", "is not of the same sweep as .*: pairs differs"),
     ({}, "line", "have other data or another model")],
)  # fmt: skip
def test_shards_of_other_sweeps_and_other_data_are_refused(
    parts: Path, tmp_path: Path, base: dict[str, Any], text: str, sentence: str
) -> None:
    content = (parts / "rows.jsonl").read_text().replace("row", text)
    (tmp_path / "rows.jsonl").write_text(content)
    run_shard(Sweeps(tmp_path / "n", tmp_path / "rows.jsonl"), 2, 3, tmp_path / "b", **base)
    with pytest.raises(StoreError, match=sentence):
        merge_sweeps([parts / "a", tmp_path / "b"], tmp_path / "out")


def test_a_sweep_has_no_more_shards_than_it_asks_things(parts: Path) -> None:
    plan = Sweeps(parts / "none", parts / "rows.jsonl").sweep(GRID, FEW).plan
    with pytest.raises(UsageError, match=r"for 3 different things, .*; use at most 3 shards"):
        plan.shard(1, 4)
    numbers = [point.number for i in (1, 2, 3) for point in plan.shard(i, 3).points]
    assert sorted(numbers) == list(range(6))


def test_shards_of_another_system_at_the_same_address_are_refused(
    tmp_path: Path, data_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shards were joined, and half of the table was of another system."""
    monkeypatch.chdir(tmp_path)
    base = [
        "--system",
        "python:s.py:f",
        "--pairs",
        "4",
        "--shots",
        "2",
        "--controls",
        "0",
        "--simulations",
        "0",
    ]
    for number, said in enumerate(("yes", "no"), 1):
        Path("s.py").write_text(f"def f(context, query):\n    return {said!r}\n")
        given = ["sweep", *base, "--data", "rows.jsonl", "--grid", "shots=2,3", "--shard",
                 f"{number}/2", "--out", str(number)]  # fmt: skip
        with pytest.raises(SystemExit):
            main(given)
    with pytest.raises(StoreError, match="another model or system"):
        merge_sweeps([Path("1"), Path("2")], Path("out"))
