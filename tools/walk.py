"""How often the way of one run leaves a file and comes back to it, measured by a profile.

    python tools/walk.py [audit rows influence sweep]

Each entry point runs once on a small fixed case. Counted are calls of functions of this package,
at most LEVELS calls below the entry point; a call that the same function made before (a loop) is
counted once. A *stay* is a run of such calls into one file, a *return* is a stay in a file that was
left before, a *name* is a distinct function that was called.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

SOURCE = str(Path(__file__).resolve().parents[1] / "src") + "/"
LEVELS = 3


class Walk(NamedTuple):
    """The way of one run."""

    stays: int
    files: int
    returns: int
    names: int
    path: tuple[str, ...]


def walk(entry: str, run: Callable[[], object]) -> Walk:
    """Profile `run` below the first call of the function `entry`, `file:function`."""
    seen: dict[tuple[CodeType, CodeType], None] = {}
    stack: list[CodeType] = []
    file, function = entry.split(":")

    def on_event(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE) or code.co_name.startswith("<"):
            return
        begins = code.co_filename == SOURCE + file and code.co_name == function
        if event == "call" and (stack or begins):
            if 0 < len(stack) <= LEVELS:
                seen.setdefault((stack[-1], code))
            stack.append(code)
        elif event == "return" and stack and stack[-1] is code:
            stack.pop()

    sys.setprofile(on_event)
    try:
        run()
    finally:
        sys.setprofile(None)
    files = [callee.co_filename.removeprefix(SOURCE) for _, callee in seen]
    path = [one for i, one in enumerate(files) if i == 0 or one != files[i - 1]]
    names = {callee for _, callee in seen}
    return Walk(len(path), len(set(path)), len(path) - len(set(path)), len(names), tuple(path))


def audit() -> None:
    import leakbound

    rows = [(f"row {i} is {i * i}", "ab"[i % 2]) for i in range(40)]
    with tempfile.TemporaryDirectory() as out:
        leakbound.audit(
            rows, system=lambda context, query: "no", pairs=8, shots=4, simulations=10, out=out
        )


def influence() -> None:
    import leakbound

    leakbound.influence("The code is seven. The door is red.", "What is the code?", model="pocket")


def sweep() -> None:
    import leakbound

    rows = [(f"row {i} is {i * i}", "ab"[i % 2]) for i in range(40)]
    with tempfile.TemporaryDirectory() as out:
        grid = {"shots": [2, 4]}
        leakbound.sweep(
            grid, rows=rows, model=leakbound.Scripted(lambda prompt: "a"), pairs=8,
            simulations=10, out=out,
        )  # fmt: skip


CASES = {
    "run_audit": ("leakbound/auditing/audit.py:run_audit", audit),
    "rows": ("leakbound/api/audits.py:audit", audit),
    "influence": ("leakbound/api/influences.py:influence", influence),
    "sweep": ("leakbound/sweeping/plan.py:run", sweep),
}


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        found = walk(*CASES[name])
        print(f"{name}: {found.stays} stays in {found.files} files, {found.returns} returns, "
              f"{found.names} names")  # fmt: skip
