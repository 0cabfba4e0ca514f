"""Whatever a command writes can be read by its owner only, also where the process is told to be
generous (umask 0).
"""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROWS = ["--data", "rows.jsonl", "--shots", "10"]
FEW = [*ROWS, "--pairs", "2", "--controls", "1"]
NOISY = ["--labels", "odd,plain", "--mechanism", "report_noisy_max", "--ledger",
         "book/ledger.sqlite"]  # fmt: skip


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.process
@pytest.mark.torch
def test_files_are_0600_and_their_folders_0700(desk: Path, run: Callable[..., Any]) -> None:
    (desk / "book").mkdir(mode=0o700)
    before = set(desk.rglob("*"))
    run(
        ["audit", *FEW], ["audit", *FEW, "--store-text", "all",
                                           "--out", "deep/er/runs"],
        ["influence", "--context", "note.txt", "--question", "What code?", "--max-tokens", "4"],
        ["tune", *ROWS, "--max-calls", "60", "--pilot-pairs", "2", "--reflection-model", "none",
         "--out", "tuned"],
        ["answer", *ROWS, *NOISY, "a kite"],
        ["report", "runs/*", "deep/er/runs/*", "--html", "pages/both.html"],
        codes=[3, 3, 0, 0, 0, 0], umask=0,
    )  # fmt: skip
    files = [path for path in desk.rglob("*") if path.is_file() and path not in before]
    tops = {path.relative_to(desk).parts[0] for path in files}
    assert tops >= {"runs", "deep", "influence", "tuned", "book", "pages", "attack.yaml"}
    assert {str(f.relative_to(desk)): oct(mode(f)) for f in files if mode(f) != 0o600} == {}
    folders = {f.parent for f in files} - {desk}
    assert {str(f.relative_to(desk)): oct(mode(f)) for f in folders if mode(f) != 0o700} == {}
