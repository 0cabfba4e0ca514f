"""Memory of commands that read a million rows (goal: 300 MB).

python bench/million_rows.py

Rows of nine words with a label of two, in one file of JSON lines. Each command is a process of its
own; its largest resident size is that of the system's account of ended processes.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROWS, MOST = 1_000_000, 300
FUNCTION = "def answer(context, query):\n    return 'no'\n"
COMMANDS = {
    "plan of a function": ["plan", "rows.jsonl", "python:app.py:answer"],
    "audit of a function": ["audit", "rows.jsonl", "python:app.py:answer", "--pairs", "16"],
}


def write_rows(file: Path) -> None:
    draws = random.Random(1)
    words = [f"w{number}" for number in range(5000)]
    with file.open("w", encoding="utf-8") as out:
        for _ in range(ROWS):
            text, label = " ".join(draws.choices(words, k=9)), draws.choice(["billing", "shipping"])
            out.write(json.dumps({"text": text, "label": label}) + "\n")


def main() -> int:
    above = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("app.py").write_text(FUNCTION, encoding="utf-8")
        write_rows(Path("rows.jsonl"))
        size = Path("rows.jsonl").stat().st_size
        print(f"{ROWS} rows, {size / 1e6:.0f} MB")
        for name, command in COMMANDS.items():
            process = subprocess.Popen(
                [sys.executable, "-m", "leakbound", *command],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            peak = used.ru_maxrss / 1024
            above += peak > MOST
            print(f"{name:<20} exit {process.returncode}, {peak:5.0f} MB, "
                  f"{used.ru_utime + used.ru_stime:4.1f} s of CPU", flush=True)  # fmt: skip
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
