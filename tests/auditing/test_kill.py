"""kill -9 at random moments:

the same command goes on, and ends with the results of an uninterrupted run.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from commands import cli, launch

from leakbound.auditing import load_result

pytestmark = pytest.mark.process

# LAST: after so many calls, a timer of DELAY seconds kills the process; until then it goes on.
KILLED = """
import os, signal, threading, time

left = int(os.environ.get("LAST", 10_000))

def answer(context, query):
    global left
    left -= 1
    if left == 0:
        end = lambda: os.kill(os.getpid(), signal.SIGKILL)
        threading.Timer(float(os.environ["DELAY"]), end).start()
    canary = query.split('"')[1]
    with open("calls.txt", "a") as file:
        file.write(canary + "\\n")
    time.sleep(0.002)
    return "yes" if any(e.input == canary for e in context) else "no"
"""
HELD = """
import time

def answer(context, query):
    open("held", "w").close()
    time.sleep(600)
"""
PAIRS, BATCH, KILLS = 48, 2, 4
ONCE = ("--controls", "0", "--state-check", "0")  # each canary is asked about twice
AUDIT = ("audit", "--system", "python:system.py:answer", "--pairs", str(PAIRS), *ONCE, "--data",
         "rows.jsonl", "--batch-pairs", str(BATCH), "--out")  # fmt: skip


@pytest.mark.slow
def test_killed_runs_resume_to_the_same_record(tmp_path: Path, data_file: Path) -> None:
    (tmp_path / "system.py").write_text(KILLED)
    rng = random.Random(3)
    for _ in range(KILLS):  # together far less than the 96 calls of the audit
        moment = {"LAST": str(rng.randint(4, 10)), "DELAY": str(rng.uniform(0, 0.006))}
        assert cli(*AUDIT, "killed", cwd=tmp_path, **moment).returncode == -signal.SIGKILL
    assert cli(*AUDIT, "killed", cwd=tmp_path).returncode == 1
    asked = Counter((tmp_path / "calls.txt").read_text().split())
    assert cli(*AUDIT, "whole", cwd=tmp_path).returncode == 1
    (one,), (other,) = (list((tmp_path / out).glob("*/record.json")) for out in ("whole", "killed"))
    assert load_result(one).results() == load_result(other).results()
    with closing(sqlite3.connect(other.parent / "trials.sqlite")) as db:
        assert [row[0] for row in db.execute("SELECT pair FROM evidence ORDER BY pair")] == list(
            range(PAIRS)
        )
    assert len(asked) == PAIRS
    assert min(asked.values()) == 2
    assert sum(asked.values()) <= 2 * PAIRS + 2 * BATCH * KILLS, (
        "a kill repeats at most the batch that it interrupted"
    )


@pytest.mark.slow
def test_interrupting_ends_with_130(tmp_path: Path, data_file: Path) -> None:
    (tmp_path / "system.py").write_text(HELD)
    process = launch(*AUDIT, "stopped", cwd=tmp_path)
    while not (tmp_path / "held").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "the same command resumes" in errors
    assert "Traceback" not in errors
