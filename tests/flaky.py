"""Repeat tests in random order beside a load, and count the failures of each: `make flaky`.

python tests/flaky.py [--runs 10] [--load 2] [--workers 3] [--seed 1] [paths or options of pytest]

A run ends when its tests have ended; nothing stops the next one. Ends with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

PYTEST = (sys.executable, "-m", "pytest", "-q", "--dist", "loadfile", "-p", "randomly")
BUSY = "while True: pass"


@contextmanager
def load(processes: int) -> Iterator[None]:
    """So many processes that never rest."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def failures(
    seed: int, workers: int, options: list[str], folder: Path
) -> tuple[int, dict[str, str]]:
    """How many tests one run had, and which failed with which message."""
    report = folder / f"{seed}.xml"
    order = f"--randomly-seed={seed}"
    command = [*PYTEST, f"-n{workers}", order, f"--junitxml={report}", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    print(f"seed {seed}: {done.stdout.rstrip().rpartition(chr(10))[2]}", flush=True)
    if not report.is_file():
        return 0, {"pytest itself": f"exit code {done.returncode}"}
    cases = list(ElementTree.parse(report).iter("testcase"))
    return len(cases), {
        f"{case.get('classname')}::{case.get('name')}": what.get("message", "")
        for case in cases
        for what in case
        if what.tag in ("failure", "error")
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--load", type=int, default=2, help="busy processes beside the tests")
    parser.add_argument("--workers", type=int, default=3, help="processes that run tests")
    parser.add_argument("--seed", type=int, default=1, help="of the first run's order")
    given, options = parser.parse_known_args()
    seeds, total = range(given.seed, given.seed + given.runs), 0
    found: dict[str, list[int]] = defaultdict(list)
    messages: dict[str, str] = {}
    with load(given.load), tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            count, failed = failures(seed, given.workers, options, Path(folder))
            total += count
            for name, message in failed.items():
                found[name].append(seed)
                messages[name] = message
    for name, where in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{name} failed in {len(where)} of {len(seeds)} runs, with the seeds {where}:")
        print(f"    {messages[name][:500]}")
    print(f"flaky: {len(seeds)} runs, {total} tests in random order beside {given.load} busy "
          f"processes, {sum(map(len, found.values()))} failures of {len(found)} tests")  # fmt: skip
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
