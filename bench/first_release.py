"""Is anything slower than in the first release? The same commands by both, in turns.

python bench/first_release.py CLONE [--rounds 3] [--write PAGE]: CLONE is a checkout of the first
release, whose package was called contextleak. CPU seconds of a process and its children, the least
of the rounds (other work on the machine only adds), and the ratio of the two. An audit of today
asks more than the first release did (controls, first queries asked again), so commands that audit
also show how often each asked, and the ratio of CPU seconds a call.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = {  # "{release}": the side's package; "{folder}": an empty folder of the round
    "import": ("-c", "import {release}"),
    "--help": ("--help",),
    "list mechanisms": ("list", "mechanisms"),
    "audit, few-shot, 40 pairs": ("audit", "--pairs", "40"),
    "audit, private voting, 20 pairs": (
        "audit", "--mechanism", "report_noisy_max", "--epsilon", "4", "--pairs", "20",
    ),
    "audit, product of experts, 6 pairs": (
        "audit", "--mechanism", "product_of_experts", "--epsilon", "2", "--pairs", "6",
    ),
    "audit, own system, 2,000 pairs": (
        "audit", "--system", "python:{root}/examples/user_system.py:answer", "--pairs", "2000",
    ),
    "influence, n-grams of 8": (
        "influence", "--model", "pocket", "--context", "{root}/examples/note.txt",
        "{question}", "What is the door code of Marta?", "--ngram", "8",
    ),
    "reproduce contextleak/table1": ("reproduce", "contextleak/table1", "--quick"),
}  # fmt: skip


def arguments(words: tuple[str, ...], release: str, root: Path) -> list[str]:
    """The words of one side's interpreter."""
    question = "--question" if release == "leakbound" else "--query"
    filled = [word.format(release=release, root=root, question=question) for word in words]
    return [sys.executable, *(filled if words[0] == "-c" else ["-m", release, *filled])]


def spent(command: list[str], source: Path) -> tuple[float, int]:
    """CPU seconds of a command in a new folder, and the calls of its audit."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        records = [json.loads(path.read_text()) for path in Path(folder).glob("runs/*/record.json")]
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{command[2:]} ended with {done.returncode}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, sum(record.get("counts", {}).get("model_calls", 0) for record in records)


def row(name: str, old: tuple[float, int], new: tuple[float, int]) -> str:
    """One line of the table."""
    ratio = new[0] / old[0]
    a_call = f"{old[1]:7} {new[1]:7} {ratio * old[1] / new[1]:6.2f}" if old[1] and new[1] else ""
    return f"{name:<36} {old[0]:7.2f} {new[0]:7.2f} {ratio:6.2f} {a_call}"


def measure(clone: Path, rounds: int) -> None:
    """A line for each command, the least seconds of each side."""
    sides = (("contextleak", clone), ("leakbound", ROOT))
    for name, words in COMMANDS.items():
        taken = [
            [spent(arguments(words, release, root), root / "src") for release, root in sides]
            for _ in range(rounds)
        ]
        print(row(name, min(old for old, _ in taken), min(new for _, new in taken)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("clone", type=Path, help="a checkout of the first release")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"{'CPU seconds':<36} {'first':>7} {'now':>7}  ratio   calls     now  ratio a call")
    measure(given.clone.resolve(), given.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
