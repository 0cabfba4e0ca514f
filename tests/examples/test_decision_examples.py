"""The examples of docs/gates.md:

the pytest file, and the steps of the workflow, each in processes of their own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import MODULE, forked

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def test_the_pytest_example_fails_live_and_from_stored_trials(tmp_path: Path) -> None:
    for name in ("test_privacy.py", "user_system.py"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    for flags in (["--privacy-live"], []):
        done = forked(MODULE.format("pytest"), "pytest", "-m", "privacy", *flags, cwd=tmp_path)
        assert done.returncode == 1, done.stdout
        assert "VIOLATION: answer" in done.stdout


def test_the_page_shows_the_example_as_it_is() -> None:
    (shown,) = re.findall(
        r"^```py\n(.*?)^```", (ROOT / "docs" / "gates.md").read_text(), flags=re.M | re.S
    )
    assert (EXAMPLES / "test_privacy.py").read_text().endswith(shown)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(
            "'yes' if sum(r.input in query for r in context) > 2 else 'no'",
            0,
            marks=pytest.mark.slow,
        ),
        ("'yes' if any(r.input in query for r in context) else 'no'", 1),
        pytest.param("'no'", 3, marks=pytest.mark.slow),
    ],
)
def test_the_steps_of_the_workflow(tmp_path: Path, answer: str, code: int) -> None:
    workflow = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())
    steps = {step["name"]: step for step in workflow["jobs"]["audit"]["steps"] if "name" in step}
    (tmp_path / "app.py").write_text(f"def answer(context, query):\n    return {answer}\n")
    rates = "assume_hit: 0.99\nassume_false_alarm: 0.001\n"
    (tmp_path / "audit.yaml").write_text(f"system: python:app.py:answer\npairs: 48\n{rates}")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ends = [
        subprocess.run(
            ["bash", "-eo", "pipefail", "-c", steps[name]["run"]],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
        ).returncode
        for name in ("Audit", "Gate")
    ]
    assert ends == [0, code]
    for pattern in steps["Keep the report"]["with"]["path"].split():
        assert list(tmp_path.glob(pattern)), pattern


def test_an_audit_that_cannot_run_ends_the_workflow(tmp_path: Path) -> None:
    workflow = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())
    (step,) = [step for step in workflow["jobs"]["audit"]["steps"] if step.get("name") == "Audit"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 2
