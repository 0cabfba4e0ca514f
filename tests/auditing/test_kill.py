"""kill -9 at random moments:

the same command goes on, and ends with the same bytes as an uninterrupted run.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

SYSTEM = """
import time

def answer(context, query):
    canary = query.split('"')[1]
    with open("calls.txt", "a") as file:
        file.write(canary + "\\n")
    time.sleep(0.01)
    return "yes" if any(e.input == canary for e in context) else "no"
"""
PAIRS, BATCH, KILLS = 100, 2, 10


def start(folder: Path, out: str) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "leakbound",
        "audit",
        "--system",
        "python:system.py:answer",
        "--pairs",
        str(PAIRS),
    ]
    command += ["--data", "rows.jsonl", "--batch-pairs", str(BATCH), "--out", out]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_killed_runs_resume_to_the_same_record(tmp_path: Path, data_file: Path) -> None:
    (tmp_path / "system.py").write_text(SYSTEM)
    killed = kill_several_times(tmp_path)
    assert finish(start(tmp_path, "killed")) == 1
    asked = Counter((tmp_path / "calls.txt").read_text().split())
    assert finish(start(tmp_path, "whole")) == 1
    (one,), (other,) = (list((tmp_path / out).glob("*/record.json")) for out in ("whole", "killed"))
    assert one.read_bytes() == other.read_bytes()
    with closing(sqlite3.connect(other.parent / "trials.sqlite")) as db:
        assert [row[0] for row in db.execute("SELECT pair FROM evidence ORDER BY pair")] == list(
            range(PAIRS)
        )
    assert killed >= 5
    assert len(asked) == PAIRS
    assert min(asked.values()) == 2
    assert sum(asked.values()) <= 2 * PAIRS + 2 * BATCH * killed, (
        "a kill repeats at most the batch that it interrupted"
    )


def finish(process: subprocess.Popen[str]) -> int:
    process.communicate()
    return process.returncode


def kill_several_times(folder: Path) -> int:
    rng, killed = random.Random(3), 0
    for _ in range(KILLS):
        process = start(folder, "killed")
        time.sleep(rng.uniform(0.5, 1.5))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
    return killed


def test_interrupting_ends_with_130(tmp_path: Path, data_file: Path) -> None:
    (tmp_path / "system.py").write_text(SYSTEM)
    process = start(tmp_path, "stopped")
    while not list((tmp_path / "stopped").glob("*/trials.sqlite")) and process.poll() is None:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on" in errors
    assert "Traceback" not in errors
