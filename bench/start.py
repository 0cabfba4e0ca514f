"""How long a user waits before anything happens:

best of several fresh processes. Targets: import 150 ms, --help 300 ms. The help of `audit` lists
the options of every component, so it loads all their classes, and numpy and pydantic with them.
`scipy.special`, which takes as long as numpy and pydantic together, is loaded at its first call.
"""

from __future__ import annotations

import subprocess
import sys
import time

CASES = {
    "import leakbound": ([sys.executable, "-c", "import leakbound"], 0.150),
    "leakbound --help": ([sys.executable, "-m", "leakbound", "--help"], 0.300),
    "leakbound audit --help": ([sys.executable, "-m", "leakbound", "audit", "--help"], 0.800),
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
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
