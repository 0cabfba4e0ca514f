"""How long a newcomer waits: from the wheel to the first verdict on an own system, and from a clone
to the report of the demo.

python bench/first_result.py [--only wheel|demo] [--torch OPTIONS]: of the last commit, in folders
that it removes. Run it twice: the first run fills pip's cache. Seconds of the clock, and of CPU in
brackets; ends with 1 if a goal is missed. OPTIONS: of pip, for torch.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOALS = {"wheel": 60.0, "demo": 120.0}
AUDIT = ("audit", "--system", "python:user_system.py:answer", "--pairs", "40")
Step = tuple[str, list[str], tuple[int, ...]]  # name, command, exit codes that it may end with


def steps(way: str, folder: Path, torch: str) -> list[Step]:
    """What a newcomer types, one after the other, in a folder."""
    clone = ["git", "clone", "--quiet", str(ROOT), str(folder / "leakbound")]
    if way == "demo":
        make = ["make", "-C", str(folder / "leakbound"), "demo", f"TORCH_PIP={torch}"]
        return [("clone", clone, (0,)), ("make demo", make, (0,))]
    programs = folder / "env" / "bin"
    (wheel,) = (folder / "dist").glob("*.whl")
    return [
        ("environment", [sys.executable, "-m", "venv", str(folder / "env")], (0,)),
        ("install", [str(programs / "pip"), "install", "--quiet", str(wheel)], (0,)),
        ("audit", [str(programs / "leakbound"), *AUDIT], (1,)),
    ]


def build(folder: Path) -> None:
    """The wheel of the last commit, and an own system; not counted."""
    source = folder / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder / "dist"), str(source)]
    subprocess.run([sys.executable, *words], check=True)
    system = (source / "examples" / "user_system.py").read_text()
    (folder / "user_system.py").write_text(system)


def spent(step: Step, folder: Path) -> tuple[float, float]:
    """Seconds of the clock and of CPU."""
    name, command, codes = step
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    kept = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True)
    if done.returncode not in codes:
        raise SystemExit(f"{name}: {shlex.join(command)} ended with {done.returncode}: "
                         f"{(done.stderr or done.stdout)[-600:]}")  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - begin, cpu


def measure(way: str, torch: str) -> bool:
    """Prints a line for each step; is the goal met?"""
    with tempfile.TemporaryDirectory() as name:
        folder, clock, cpu = Path(name), 0.0, 0.0
        if way == "wheel":
            build(folder)
        for step in steps(way, folder, torch):
            seconds, busy = spent(step, folder)
            clock, cpu = clock + seconds, cpu + busy
            print(f"{way:<6} {step[0]:<12} {seconds:7.1f} s ({busy:.1f} s of CPU)", flush=True)
    goal = f"goal {GOALS[way]:.0f} s: {'met' if clock <= GOALS[way] else 'missed'}"
    print(f"{way:<6} {'together':<12} {clock:7.1f} s ({cpu:.1f} s of CPU), {goal}", flush=True)
    return clock <= GOALS[way]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--only", choices=GOALS)
    parser.add_argument("--torch", default=os.environ.get("TORCH_PIP", ""), help="options of pip")
    given = parser.parse_args()
    met = [measure(way, given.torch) for way in ([given.only] if given.only else GOALS)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
