"""CPU seconds before anything happens, beyond those of a bare interpreter, each the median of five:

of help, and of a plan and an audit of a function that always says no. With a model's address, also
of its first and second start (python bench/start.py hf/PATH/NAME.gguf).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = [sys.executable, "-m", "leakbound"]
CASES = {
    "--help": ([*HERE, "--help"], 0.150),
    "audit --help": ([*HERE, "audit", "--help"], 0.400),
    "plan": ([*HERE, "plan", "rows.csv", "app.py:answer", "--pairs", "10"], 1.0),
    "audit, 40 pairs": ([*HERE, "audit", "rows.csv", "app.py:answer", "--pairs", "40"], 2.0),
}


def spent(command: list[str]) -> float:
    """CPU seconds of a command in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        rows = (f"note {i} about topic {i * 7 % 13},{'ab'[i % 2]}\n" for i in range(40))
        Path(folder, "rows.csv").write_text("input,label\n" + "".join(rows))
        Path(folder, "app.py").write_text("def answer(context, query):\n    return 'no'\n")
        begin = os.times()
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        end = os.times()
    used = end.children_user + end.children_system
    return used - begin.children_user - begin.children_system


def main() -> int:
    late = 0
    bare = median(spent([sys.executable, "-c", "pass"]) for _ in range(5))
    for name, (command, limit) in CASES.items():
        taken = median(spent(command) for _ in range(5)) - bare
        late += taken > limit
        print(f"{name:<16} {taken:5.2f} s of CPU (limit {limit:.2f} s)")
    if len(sys.argv) > 1:
        started(sys.argv[1])
    return 1 if late else 0


def started(model: str) -> None:
    """CPU seconds of opening a model with an empty cache folder, and once more."""
    code = f"from leakbound.models import open_model; open_model({model!r})"
    with tempfile.TemporaryDirectory() as cache:
        for which in ("first", "second"):
            begin = os.times()
            environment = os.environ | {"XDG_CACHE_HOME": cache}
            subprocess.run([sys.executable, "-c", code], check=True, env=environment)
            end = os.times()
            spent = end.children_user + end.children_system
            spent -= begin.children_user + begin.children_system
            print(f"{model.rpartition('/')[2]}, {which} start: {spent:.1f} s of CPU")


if __name__ == "__main__":
    sys.exit(main())
