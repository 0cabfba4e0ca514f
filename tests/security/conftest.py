"""What the security tests share:

rows with a secret to search for, commands run as a user runs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from commands import batch

SECRET = "zanzibar"


class Said(NamedTuple):
    """What commands wrote."""

    stdout: str
    stderr: str


Run = Callable[..., Said]


@pytest.fixture
def secret() -> str:
    """Stands in every row of `desk`, and in no label."""
    return SECRET


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with private rows and a private note; runs are kept there."""
    rows = [
        {"text": f"{SECRET} kite, number {i}", "label": ("plain", "odd")[i % 2]} for i in range(40)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "note.txt").write_text(
        f"The gate was painted. The door code of {SECRET} is 48213. A dog slept.\n"
    )
    return tmp_path


@pytest.fixture
def run(desk: Path) -> Run:
    """Runs commands in the folder, all in one new process, with torch.

    codes: what they must end with; first: code that runs before them.
    """

    def call(*commands: list[str], codes: list[int], first: str = "", umask: int = -1) -> Said:
        found, out, errors = batch(*commands, cwd=desk, first=first, umask=umask)
        assert found == codes, errors
        assert "Traceback" not in errors
        return Said(out, errors)

    return call
