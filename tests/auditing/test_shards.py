"""Shards: parts of one run, collected by processes of their own, joined to the results of an
unsharded run.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import cli, launch
from hypothesis import given
from hypothesis import strategies as st

from leakbound.auditing import load_result, make_spec, prepare, run_audit
from leakbound.auditing.collect.collect import Batches, CollectionPlan, run_serial
from leakbound.auditing.receipts import verify_run
from leakbound.auditing.shards import merge, run_shard
from leakbound.auditing.store.run_store import RunStore
from leakbound.errors import StoreError, UsageError
from leakbound.models import Model
from leakbound.tasks import Votes

pytestmark = pytest.mark.process

SYSTEM = """
import time

def answer(context, query):
    time.sleep(0.005)
    return "yes" if any(e.input == query.split('"')[1] for e in context) else "no"
"""


AUDIT = ("audit", "--system", "python:system.py:answer", "--data", "rows.jsonl", "--pairs", "21",
         "--batch-pairs", "2")  # fmt: skip


def spec(folder: Path, **values: Any) -> Any:
    (folder / "system.py").write_text(SYSTEM)
    known = {"data": str(folder / "rows.jsonl"), "system": f"python:{folder / 'system.py'}:answer"}
    return make_spec({**known, "pairs": 21, "batch_pairs": 2, **values})


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return launch(*AUDIT, *options, cwd=folder)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, errors = process.communicate()
    return process.returncode, out + errors


@pytest.mark.slow
def test_processes_side_by_side_give_the_bytes_of_one(tmp_path: Path, data_file: Path) -> None:
    (tmp_path / "system.py").write_text(SYSTEM)
    running = [start(tmp_path, "--shard", f"{i}/2", "--out", f"part{i}") for i in (1, 2)]
    assert cli(*AUDIT, "--out", "whole", cwd=tmp_path).returncode == 1
    for i, process in enumerate(running, 1):
        code, said = ended(process)
        assert code == 0, said
        assert f"Shard {i}/2 is collected" in said
        assert not list((tmp_path / f"part{i}").glob("*/record.json")), "a shard has no verdict"
    parts = map(str, tmp_path.glob("part*/*"))
    merged = cli("merge", *parts, "--out", "merged", cwd=tmp_path)
    assert merged.returncode == 1, "the verdict of the whole"
    (one,), (other,) = (list((tmp_path / out).glob("*/record.json")) for out in ("whole", "merged"))
    assert load_result(one).results() == load_result(other).results()


@pytest.mark.slow
def test_shards_may_share_a_folder(tmp_path: Path, data_file: Path) -> None:
    """Two processes write one store at once; the plain command then only makes the record."""
    (tmp_path / "system.py").write_text(SYSTEM)
    for process in [start(tmp_path, "--shard", f"{i}/2", "--out", "shared") for i in (1, 2)]:
        assert ended(process)[0] == 0
    assert cli(*AUDIT, "--out", "shared", "--replay", cwd=tmp_path).returncode == 1


def test_a_store_that_another_process_makes_meanwhile_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called damaged where the other came between two looks at the folder."""
    folder, identity = tmp_path / "run", {"spec": {}, "data": "d"}
    made, asked = Path.exists, list[Path]()

    def exists(path: Path, **options: Any) -> bool:
        found = made(path, **options)
        if path.name == "manifest.json" and not asked:
            asked.append(path)
            RunStore(folder, identity)
        return found

    monkeypatch.setattr(Path, "exists", exists)
    assert not RunStore(folder, identity).batches()
    assert asked


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 7))
def test_shards_part_the_batches(pairs: int, size: int, total: int) -> None:
    asked = CollectionPlan(None, None, range(pairs), size)  # type: ignore[arg-type]
    parts = [asked.batches((number, total)) for number in range(1, total + 1)]
    assert sorted(first for part in parts for first in part) == list(asked.batches())
    assert sum(map(asked.pairs_in, parts)) == pairs


def unreadable(plan: CollectionPlan, model: Model, missing: Sequence[int]) -> Batches:
    """What the canary-in context of pair 2 answers cannot be read."""
    for batch in run_serial(plan, model, missing):
        rows = [replace(r, member=Votes((0, 0, 1))) if r.pair == 2 else r for r in batch.rows]
        yield replace(batch, rows=tuple(rows))


def all_but_one(plan: CollectionPlan, model: Model, missing: Sequence[int]) -> Batches:
    return run_serial(plan, model, [first for first in missing if first != 6])


@pytest.mark.slow
def test_what_cannot_be_merged_gets_a_sentence(tmp_path: Path, data_file: Path) -> None:
    made = prepare(spec(tmp_path))
    one, two = (run_shard(made, (i, 2), tmp_path / f"s{i}") for i in (1, 2))
    with pytest.raises(StoreError, match=r"5 of 19 batches are missing, of shard 2/2"):
        merge([one], tmp_path / "out")
    other = run_shard(prepare(spec(tmp_path, seed=1)), (2, 2), tmp_path / "other")
    with pytest.raises(StoreError, match=r"is not of the same run as .*: seed differs"):
        merge([one, other], tmp_path / "out2")
    with pytest.raises(StoreError, match="is not a run folder"):
        merge([one, tmp_path], tmp_path / "out3")
    twice, _ = merge([one, two, one], tmp_path / "out4")
    assert twice.counts["pairs"] == 21
    changed = run_shard(made, (2, 2), tmp_path / "changed", ask=unreadable)
    with pytest.raises(StoreError, match="both hold pair 2, with different answers"):
        merge([one, two, changed], tmp_path / "out5")
    (tmp_path / "rows.jsonl").write_text(
        (tmp_path / "rows.jsonl").read_text().replace("kite", "kites")
    )
    with pytest.raises(StoreError, match="data is not what it was"):
        merge([one, two], tmp_path / "out6")


@pytest.mark.slow
def test_a_shard_that_was_cut_short_is_named(tmp_path: Path, data_file: Path) -> None:
    made = prepare(spec(tmp_path))
    one = run_shard(made, (1, 2), tmp_path / "s1")
    two = run_shard(made, (2, 2), tmp_path / "s2", ask=all_but_one)
    with pytest.raises(StoreError, match="1 of 19 batches are missing, of shard 2/2"):
        merge([one, two], tmp_path / "out")
    run_shard(made, (2, 2), tmp_path / "s2")
    merged, whole = merge([one, two], tmp_path / "out")[0], run_audit(made, tmp_path / "whole")[0]
    assert merged.results() == whole.results()


def test_an_early_stop_has_no_shards(tmp_path: Path, data_file: Path) -> None:
    with pytest.raises(UsageError, match="a shard sees every Nth batch"):
        run_shard(prepare(spec(tmp_path, stop_when_rejected=True)), (1, 2), tmp_path / "out")


@pytest.mark.slow
def test_a_merged_run_is_a_run(tmp_path: Path, data_file: Path) -> None:
    """It resumes as others do, and its manifest is that of a whole run."""
    made = prepare(spec(tmp_path))
    folders = [run_shard(made, (i, 2), tmp_path / f"s{i}") for i in (1, 2)]
    record, folder = merge(folders, tmp_path / "out")
    again, same = run_audit(made, tmp_path / "out")
    assert (again, same) == (record, folder)
    assert json.loads((folder / "manifest.json").read_text())["spec"]["pairs"] == 21
    assert len(CollectionPlan.of(made).batches()) == 11 + 8


def files(folder: Path) -> dict[str, bytes]:
    with closing(sqlite3.connect(folder / "trials.sqlite")) as db:
        stored = "\n".join(db.iterdump()).encode()
    return {"trials": stored, "record": (folder / "record.json").read_bytes()}


@pytest.mark.slow
def test_a_finished_run_is_not_changed_by_a_merge(tmp_path: Path, data_file: Path) -> None:
    """Batches were added to it before they were checked, and then its hashes fitted nothing."""
    made = prepare(spec(tmp_path))
    parts = [run_shard(made, (i, 2), tmp_path / f"s{i}") for i in (1, 2)]
    alone = run_audit(made, tmp_path / "alone")[1]
    before = files(alone)
    with pytest.raises(StoreError, match="holds the finished run of this command already"):
        merge(parts, tmp_path / "alone")  # every shard checks the system after its last pair
    assert files(alone) == before
    assert not verify_run(alone).problems
    merged = merge(parts, tmp_path / "merged")
    assert merge(parts, tmp_path / "merged") == merged
    assert not verify_run(merged[1]).problems
