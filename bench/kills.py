"""kill -9 at random moments of a real audit, again and again: is anything lost, repeated or
changed?

Each life of the process ends after a random time; the same command then goes on. At the end the
record is compared, byte for byte,
with that of a run that nobody touched; every trial must be stored once, and the system itself
counts how often it was asked: each
kill may repeat at most the batch that it interrupted. Exits with 1 if any of it fails.
"""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from leakbound.auditing import load_result

SYSTEM = """
import time

def answer(context, query):
    canary = query.split('"')[1]
    with open({log!r}, "a") as file:
        file.write(canary + "\\n")
    time.sleep({seconds})
    return "yes" if any(e.input == canary for e in context) else "no"
"""
BATCH = 2


def start(folder: Path, out: str, pairs: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "leakbound",
        "audit",
        "--system",
        "python:system.py:answer",
        "--pairs",
        str(pairs),
        "--controls",
        "0",
        "--state-check",
        "0",
    ]
    command += ["--batch-pairs", str(BATCH), "--out", out]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def killed(folder: Path, pairs: int, kills: int, rng: random.Random) -> list[int]:
    """Kill so many lives of one run; trials stored after each."""
    stored: list[int] = []
    while len(stored) < kills:
        process = start(folder, "killed", pairs)
        time.sleep(rng.uniform(0.05, 2.5))
        if process.poll() is not None:
            break  # the run is finished: nothing is left to kill
        process.send_signal(signal.SIGKILL)
        process.wait()
        stored.append(len(trials(folder)))
    return stored


def trials(folder: Path) -> list[int]:
    """Pairs in the store of the killed run."""
    found = list((folder / "killed").glob("*/trials.sqlite"))
    if not found:
        return []
    with closing(sqlite3.connect(found[0])) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'evidence'").fetchone():
            return []
        return [row[0] for row in db.execute("SELECT pair FROM evidence ORDER BY pair")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=2500)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "system.py").write_text(
            SYSTEM.format(log=str(folder / "calls.txt"), seconds=0.02)
        )
        stored = killed(folder, given.pairs, given.kills, random.Random(0))
        start(folder, "killed", given.pairs).wait()
        asked = Counter((folder / "calls.txt").read_text().split())
        start(folder, "whole", given.pairs).wait()
        one, other = (
            load_result(next((folder / out).glob("*/record.json"))).results()
            for out in ("whole", "killed")
        )
        grew = sum(b > a for a, b in zip([0, *stored], stored, strict=False))
        repeated = sum(times - 2 for times in asked.values())
        held = {
            f"{len(stored)} kills, in {grew} lives trials were stored": len(stored) == given.kills,
            f"{given.pairs} trials stored, each once": trials(folder) == list(range(given.pairs)),
            f"{repeated} calls repeated, at most {2 * BATCH} a kill": 0
            <= repeated
            <= 2 * BATCH * len(stored),
            "the results have the bytes of an uninterrupted run": one == other,
        }
    for what, good in held.items():
        print(f"{'yes' if good else 'NO':>4}  {what}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
