"""A real Ray cluster of two nodes:

the bytes of one process, also when a worker is killed in the middle.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands import launch
from hypothesis import given
from hypothesis import strategies as st
from leakbound_hosts.ray import RayCluster, _sentences, _share, on_cluster, spread

from leakbound._install import install_hint
from leakbound.auditing import make_spec, prepare
from leakbound.auditing.prepare.build import Handed, open_models
from leakbound.errors import LeakboundError, TargetError, UsageError
from leakbound.models import Scripted
from leakbound.tasks import Context

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra ray)"),
]

# Workers stop at 40 of 120 calls, until three have made calls: then one was killed and replaced.
SYSTEM = """
import os, time

def waits():
    made = [line.split()[0] for line in open({log!r})]
    return len(made) >= 40 and len(set(made)) < {workers}

def answer(context, query):
    canary = query.split('"')[1]
    with open({log!r}, "a") as file:
        file.write(f"{{os.getpid()}} {{canary}}\\n")
    while waits():
        time.sleep(0.05)
    return "yes" if any(e.input == canary for e in context) else "no"
"""
PAIRS, BATCH = 60, 2
ONCE = ("--controls", "0", "--state-check", "0")  # each canary is asked about twice
ENV = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}


def start(folder: Path, out: str, *options: str) -> subprocess.Popen[str]:
    """An audit, by two workers and one in place of one of them, or by this process alone."""
    workers = 3 if "--ray" in options else 1
    text = SYSTEM.format(log=str(folder / f"{out}.txt"), workers=workers)
    (folder / "system.py").write_text(text)
    command = ("audit", "--system", "python:system.py:answer", "--pairs", str(PAIRS), *ONCE,
               "--data", "rows.jsonl", "--batch-pairs", str(BATCH), "--out", out,
               *options)  # fmt: skip
    return launch(*command, cwd=folder)


def calls(folder: Path, out: str) -> list[list[str]]:
    log = folder / f"{out}.txt"
    return [line.split(" ") for line in log.read_text().splitlines()] if log.exists() else []


def results(folder: Path, out: str) -> str:
    from leakbound.auditing import load_result

    (run,) = (folder / out).glob("*/record.json")
    with closing(sqlite3.connect(run.parent / "trials.sqlite")) as db:
        assert [row[0] for row in db.execute("SELECT pair FROM evidence ORDER BY pair")] == list(
            range(PAIRS)
        )
    return load_result(run).results()


def test_a_killed_worker_is_replaced_and_nothing_changes(
    tmp_path: Path, data_file: Path, address: str
) -> None:
    process = start(tmp_path, "spread", "--ray", address)
    while len(calls(tmp_path, "spread")) < 20 and process.poll() is None:
        time.sleep(0.1)
    os.kill(int(calls(tmp_path, "spread")[-1][0]), signal.SIGKILL)
    out, errors = process.communicate()
    assert process.returncode == 1, out + errors
    assert len({pid for pid, _ in calls(tmp_path, "spread")}) == 3, (
        "two workers, and the one that took the place of the dead one"
    )
    asked = Counter(canary for _, canary in calls(tmp_path, "spread"))
    assert len(asked) == PAIRS
    assert min(asked.values()) >= 2
    again = [canary for canary, times in asked.items() if times > 2]
    assert len(again) <= BATCH, "only the batch that died was asked again"
    assert start(tmp_path, "alone").communicate()[0]
    assert results(tmp_path, "spread") == results(tmp_path, "alone")


def test_a_sweep_on_a_cluster_gives_the_bytes_of_one_process(
    tmp_path: Path, data_file: Path, address: str
) -> None:
    """Both points in one session: the workers of the first leave room for those of the second."""
    (tmp_path / "system.py").write_text(SYSTEM.format(log="/dev/null", workers=0))
    common = ("sweep", "--system", f"python:{tmp_path}/system.py:answer", "--data", "rows.jsonl",
              "--pairs", "6", "--grid", "shots=3,4", "--batch-pairs", "2", "--simulations", "0",
              *ONCE)  # fmt: skip
    spread = launch(*common, "--out", "spread", "--ray", address, "--workers", "2", cwd=tmp_path)
    out, errors = spread.communicate()
    assert spread.returncode in (0, 1, 3), out + errors
    launch(*common, "--out", "alone", cwd=tmp_path).communicate()
    found = [(tmp_path / name / "sweep.json").read_bytes() for name in ("spread", "alone")]
    assert found[0] == found[1]


STORE = """
from leakbound.systems import Reply


class Notes:
    def __init__(self):
        self.kept = {}

    def plant(self, record):
        self.kept[str(len(self.kept))] = record.input
        return str(len(self.kept) - 1)

    def remove(self, record_id):
        del self.kept[record_id]

    def open(self, context):
        self.rows = [row.input for row in context]
        return self

    def ask(self, query):
        words = set(query.split())
        return Reply(max(self.rows, key=lambda text: len(words & set(text.split()))))

    def close(self):
        self.rows = []
"""


def test_two_nodes_audit_a_store_in_a_paired_design_and_refuse_a_shared_one(
    tmp_path: Path, data_file: Path, address: str
) -> None:
    """Each worker builds the store for each context; a shared store lives in one process."""
    (tmp_path / "notes.py").write_text(STORE)
    common = ("audit", "--system", f"python:{tmp_path}/notes.py:Notes", "--data", "rows.jsonl",
              "--query", "recall", "--canary", "coded", "--pairs", "12", "--shots", "4",
              "--batch-pairs", "2", *ONCE)  # fmt: skip
    spread = launch(*common, "--out", "spread", "--ray", address, "--workers", "2", cwd=tmp_path)
    out, errors = spread.communicate()
    assert spread.returncode in (0, 1, 3), out + errors
    launch(*common, "--out", "alone", cwd=tmp_path).communicate()
    from leakbound.auditing import load_result

    found = [
        load_result(next((tmp_path / name).glob("*/record.json"))) for name in ("spread", "alone")
    ]
    assert found[0].results() == found[1].results()
    for design, sentence in (("session", "a store lives in one process"),
                             ("one_run", "queries one store from one process")):  # fmt: skip
        refused = launch(*common[:5], "--design", design, "--ray", address, cwd=tmp_path)
        _, errors = refused.communicate()
        assert refused.returncode == 2
        assert sentence in errors


def test_items_come_once_and_errors_as_sentences(address: str) -> None:
    """In a process of its own: workers ask real tools, and what they raise is told."""
    code = f"""
import os, sys
from leakbound.errors import TargetError
from leakbound_hosts.ray import RayCluster, spread

def broken(tool, item):
    raise ValueError("private text")

def refused(tool, item):
    raise TargetError("a sentence.")

cluster = RayCluster({address!r}, workers=2)
found = dict(spread(cluster, os.getpid, lambda pid, item: (pid, item * item), range(40)))
assert sorted(found) == list(range(40)) and all(found[k][1] == k * k for k in found)
assert len({{pid for pid, _ in found.values()}}) == 2
for work in (broken, refused):
    try:
        list(spread(cluster, os.getpid, work, [1]))
    except TargetError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "a worker raised ValueError; run without --ray to see why.",
        "a sentence.",
    ]
    assert "private text" not in done.stderr


def test_more_workers_than_processors_share_them(address: str) -> None:
    """Three workers on two nodes with a CPU each: every one finds a place."""
    code = f"""
from leakbound_hosts.ray import RayCluster, spread
cluster = RayCluster({address!r}, workers=3)
print(sorted(item for item, _ in spread(cluster, int, lambda tool, item: item, range(12))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=ENV)
    assert done.stdout.strip() == str(list(range(12))), done.stderr


@given(st.integers(1, 64), st.integers(1, 400))
def test_shares_of_workers_fill_processors_one_by_one(units: int, size: int) -> None:
    share = Fraction(round(_share(units, size) * 10_000), 10_000)  # as Ray counts
    assert 0 < share <= 1
    assert units * (1 // share) >= size


def test_whatever_ends_workers_gets_a_sentence() -> None:
    """A machine that runs out of memory raises another error than a worker that dies; its text is
    not repeated.
    """
    ray = importlib.import_module("ray")
    for error in (
        ray.exceptions.OutOfMemoryError("private text"),
        ray.exceptions.RaySystemError("private text"),
    ):
        with (
            pytest.raises(TargetError, match="workers of the cluster 'local' die") as told,
            _sentences(ray, RayCluster()),
        ):
            raise error
        assert "private text" not in str(told.value)


def test_a_cluster_that_is_not_there_gets_a_sentence(tmp_path: Path, data_file: Path) -> None:
    for address, code, sentence in (
        ("127.0.0.1:1", 4, "cannot be reached"),
        ("nobody", 2, "must be local, auto, or host:port"),
    ):
        process = start(tmp_path, "none", "--ray", address)
        _, errors = process.communicate()
        assert process.returncode == code
        assert sentence in errors
        assert "Traceback" not in errors


def test_what_has_no_address_cannot_be_spread(rows: Context) -> None:
    from leakbound.systems import SystemMechanism

    made = prepare(
        make_spec({"pairs": 2}),
        rows=rows,
        handed=Handed(mechanism=SystemMechanism(lambda context, query: "no")),
    )
    with pytest.raises(UsageError, match="workers open a system at its address"):
        on_cluster(made, RayCluster(), open_models)


def test_ray_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LeakboundError, match=re.escape(install_hint("ray"))):
        list(spread(RayCluster(), Scripted, lambda tool, item: item, [1]))
