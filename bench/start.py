"""How long a user waits before anything happens:

best of several fresh processes, and with a model's address the CPU seconds of its first and second
start (python bench/start.py hf/PATH/NAME.gguf). Targets: import 150 ms, --help 300 ms. The help of
`audit` lists the options of every component, so it loads all their classes, and numpy and pydantic
with them. `scipy.special`, which takes as long as these together, is loaded at its first call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

CASES = {
    "import leakbound": ([sys.executable, "-c", "import leakbound"], 0.150),
    "leakbound --help": ([sys.executable, "-m", "leakbound", "--help"], 0.300),
    "leakbound audit --help": ([sys.executable, "-m", "leakbound", "audit", "--help"], 1.000),
}


def best(command: list[str], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> int:
    late = 0
    bare = best([sys.executable, "-c", "pass"])
    for name, (command, limit) in CASES.items():
        spent = best(command)
        late += spent > limit
        print(
            f"{name:<22} {spent * 1000:6.0f} ms (a bare interpreter: {bare * 1000:.0f} ms; limit "
            f"{limit * 1000:.0f} ms)"
        )
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
