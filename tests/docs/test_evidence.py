"""What the stored evidence of a known model says, without it and without the rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands import cli

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
STORE = ROOT / "evidence" / "subj"


@pytest.mark.slow
def test_bounds_are_computed_again_from_the_store() -> None:
    runs = len([*STORE.glob("*/record.json")])
    done = cli("verify", "evidence/subj", cwd=ROOT)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("computed again from the stored trials, are the same") == runs >= 4


@pytest.mark.slow
def test_the_table_of_the_readme_is_that_of_the_store() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "bench" / "real_model" / "subj.py", "table"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert made.stdout in (ROOT / "README.md").read_text()


@pytest.mark.slow
def test_recipes_on_the_real_model_are_those_of_the_store() -> None:
    """Tables, tests and outcomes, without the model and the rows."""
    script = ROOT / "bench" / "real_model" / "recipes.py"
    assert subprocess.run([sys.executable, script, "--check"]).returncode == 0


def test_the_store_holds_no_row() -> None:
    """Rows are SUBJ's, which may not be passed on; canaries are random."""
    for record in STORE.glob("*/record.json"):
        text = record.read_text()
        assert "[private" in text
        assert " the film " not in text
