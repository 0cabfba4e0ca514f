"""Applications of bench/retrieval_app.py, set up by `init` alone: each gets the right verdict.

    python bench/retrieval_verdicts.py ROWS [--pairs 100] [NAME ...]

ROWS is a file of documents. For each application, `init ROWS python:FILE:NAME` writes a
configuration, `audit` runs it as it stands, and `gate` decides. Ends with 1 if an application that
quotes passes its gate, or one that filters does not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

APP = Path(__file__).with_name("retrieval_app.py")
PARTS = ("tfidf", "ngrams", "bm25", "faiss", "chroma")
NAMES = [f"{what}_{part}" for part in PARTS for what in ("quoting", "filtered")]
WANTED = {"quoting": ("violation", 1), "filtered": ("no_violation", 0)}


def leakbound(*options: str, where: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "leakbound", *options]
    return subprocess.run(command, cwd=where, capture_output=True, text=True)


def judged(name: str, rows: Path, pairs: int, folder: Path) -> tuple[str, int, str]:
    """The verdict of `audit`, the exit code of `gate`, and what attack `init` wrote down."""
    made = leakbound("init", str(rows), f"python:{APP}:{name}", f"--pairs={pairs}", where=folder)
    if made.returncode:
        raise SystemExit(f"init {name} ended with {made.returncode}: {made.stderr}{made.stdout}")
    leakbound("audit", "--config=audit.yaml", "--out=run", "--quiet", where=folder)
    record = json.loads(next(folder.glob("run/*/record.json")).read_text())
    gate = leakbound("gate", "run", "--max-epsilon=1", where=folder)
    tried = [line for line in made.stdout.splitlines() if line.startswith("Tried")]
    by = record["decided_by"]
    bounds = [one["epsilon"] for one in record["estimates"] if one["method"] in by]
    bound = max(filter(None, bounds), default=0.0)
    return record["verdict"], gate.returncode, f"ε ≥ {bound:.2f}; {' '.join(tried)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--pairs", type=int, default=100)
    given = parser.parse_args()
    wrong = 0
    for name in given.names:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            verdict, code, more = judged(name, given.rows.resolve(), given.pairs, Path(folder))
        right = (verdict, code) == WANTED[name.partition("_")[0]]
        wrong += not right
        took = time.perf_counter() - start
        print(f"{name:16} {verdict:13} gate {code}  {took:5.0f} s  {more}", flush=True)
        print("" if right else f"{name}: WRONG", end="" if right else "\n", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
