"""The examples of docs/gates.md:

the pytest file, and the steps of the workflow, each in processes of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import MODULE, forked

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@pytest.mark.slow
def test_the_pytest_example_fails_live_and_from_stored_trials(tmp_path: Path) -> None:
    for name in ("test_privacy.py", "user_system.py"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    for flags in (["--privacy-live"], []):
        done = forked(MODULE.format("pytest"), "pytest", "-m", "privacy", *flags, cwd=tmp_path)
        assert done.returncode == 1, done.stdout
        assert "✗ VIOLATION   answer" in done.stdout


def test_the_page_shows_the_example_as_it_is() -> None:
    (shown,) = re.findall(
        r"^```py\n(.*?)^```", (ROOT / "docs" / "gates.md").read_text(), flags=re.M | re.S
    )
    assert (EXAMPLES / "test_privacy.py").read_text().endswith(shown)


SYSTEM = """
from hashlib import sha256


def answer(context, query):
    copies = sum(row.input in query for row in context)
    right = int(sha256(query.encode()).hexdigest(), 16) % 10 > 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param(
            "'yes' if copies > 2 or (copies > 0) == right else 'no'",
            0,
            marks=pytest.mark.slow,
        ),
        ("'yes' if copies else 'no'", 1),
        pytest.param("'yes' if copies > 2 else 'no'", 3, marks=pytest.mark.slow),
        pytest.param("'no'", 3, marks=pytest.mark.slow),
    ],
)
def test_the_steps_of_the_action(tmp_path: Path, answer: str, code: int) -> None:
    """Audit, gate, SARIF and summary, as GitHub runs them; the example gives what it needs."""
    workflow = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())
    steps = {step["name"]: step for step in workflow["jobs"]["audit"]["steps"] if "name" in step}
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert steps["Audit and gate"]["uses"] == "./leakbound"
    (tmp_path / "app.py").write_text(f"{SYSTEM}    return {answer}\n")
    rates = "assume_hit: 0.99\nassume_false_alarm: 0.001\n"
    (tmp_path / "audit.yaml").write_text(f"system: python:app.py:answer\npairs: 60\n{rates}")
    inputs = {name: one["default"] for name, one in action["inputs"].items()}
    inputs |= steps["Audit and gate"]["with"]
    ends = [ended(action, name, inputs, tmp_path) for name in ("Audit", "Gate", "Outcome")]
    assert ends == [0, 0, code]
    for pattern in steps["Keep the report"]["with"]["path"].split():
        assert list(tmp_path.glob(pattern)), pattern
    log = json.loads((tmp_path / "gate.sarif").read_text())
    levels = {0: [], 1: ["error"], 3: ["warning"]}[code]
    assert [one["level"] for one in log["runs"][0]["results"]] == levels
    assert "## leakbound: " in (tmp_path / "summary").read_text()


def test_every_action_is_named_by_its_commit() -> None:
    """A tag may be moved to other code."""
    files = [ROOT / "action.yml", EXAMPLES / "github-actions.yml", *ROOT.glob(".github/*/*.yml")]
    used = re.findall(r"uses: (\S+)( # v[\d.]+)?\n", "".join(file.read_text() for file in files))
    assert len(used) > 10
    for action, version in used:
        assert action.startswith("./") or (re.search(r"@[0-9a-f]{40}$", action) and version), action


@pytest.mark.slow
def test_an_audit_that_cannot_run_ends_the_action(tmp_path: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    assert ended(action, "Audit", {"config": "audit.yaml", "out": "runs"}, tmp_path) == 2


def ended(action: dict[str, Any], name: str, inputs: dict[str, str], folder: Path) -> int:
    """The exit code of one step of an action with these inputs."""
    (step,) = [step for step in action["runs"]["steps"] if step["name"] == name]
    outputs = folder / "outputs"
    made = dict(line.split("=", 1) for line in outputs.read_text().split()) if outputs.exists(
        ) else {}  # fmt: skip
    given = {
        key: re.sub(r"\$\{\{ (?:inputs|steps\.gate\.outputs)\.([\w-]+) \}\}",
                    lambda match: {**inputs, **made}[match[1]], value)
        for key, value in step.get("env", {}).items()
    }  # fmt: skip
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    files = {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path, **files, **given}
    ).returncode
