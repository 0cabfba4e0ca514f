"""What the security tests share:

rows with a secret to search for, commands run as a user runs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SECRET = "zanzibar"
Run = Callable[..., subprocess.CompletedProcess[str]]


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


ALL = """
import json, sys
from leakbound.cli import main
for args in json.loads(sys.argv[1]):
    try:
        main(args)
    except SystemExit as end:
        print("CODE", end.code, file=sys.stderr, flush=True)
"""


@pytest.fixture
def run(desk: Path) -> Run:
    """Runs commands in the folder, all in one new process.

    codes: what they must end with; first: code that runs before them.
    """
    pytest.importorskip("torch")

    def call(
        *commands: list[str], codes: list[int], first: str = "", umask: int = -1
    ) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", first + ALL, json.dumps(commands)],
            cwd=desk, capture_output=True, text=True, umask=umask, env=env,
        )  # fmt: skip
        assert [
            int(line[5:]) for line in done.stderr.splitlines() if line.startswith("CODE ")
        ] == codes, done.stderr
        assert "Traceback" not in done.stderr
        return done

    return call
