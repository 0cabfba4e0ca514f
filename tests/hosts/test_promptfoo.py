"""promptfoo asks a system over private rows, and holds a finished audit against a gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from coins import says_yes
from leakbound_hosts.difference.files import columns_of

import leakbound

ROOT = Path(__file__).parents[2]
PLACE = Path(sys.executable).parents[1] / "promptfoo" / "node_modules" / ".bin"
PROGRAM = shutil.which("promptfoo", path=str(PLACE)) or shutil.which("promptfoo")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.skipif(PROGRAM is None, reason="promptfoo is not installed"),
]

ROWS = [(f"message {i}", "ab"[i % 2]) for i in range(40)]


def careful(context: tuple[leakbound.Example, ...], query: str) -> str:
    """Sees a context that is full of the canary; of a single one, randomised response."""
    copies = sum(str(row.input) in query for row in context)
    return "yes" if says_yes(copies, query) else "no"


def leaks(context: tuple[leakbound.Example, ...], query: str) -> str:
    return "yes" if any(str(row.input) in query for row in context) else "no"


def evaluated(folder: Path, config: dict[str, Any]) -> list[dict[str, Any]]:
    (folder / "c.yaml").write_text(yaml.safe_dump(config))
    quiet = {"PROMPTFOO_CONFIG_DIR": str(folder / "config"), "PROMPTFOO_PYTHON": sys.executable,
             **{f"PROMPTFOO_DISABLE_{one}": "1" for one in
                ("TELEMETRY", "UPDATE", "REMOTE_GENERATION", "SHARING")}}  # fmt: skip
    words = [str(PROGRAM), "eval", "-c", "c.yaml", "--no-cache", "--no-write", "-o", "out.json"]
    subprocess.run(words, cwd=folder, env={**os.environ, **quiet}, capture_output=True, timeout=300)
    found: list[dict[str, Any]] = json.loads((folder / "out.json").read_text())["results"][
        "results"
    ]
    return sorted(found, key=lambda one: one["testIdx"])


def test_provider_and_assertion(tmp_path: Path) -> None:
    (tmp_path / "leak.py").write_text(
        "from leakbound_hosts.promptfoo import call_api, get_assert\n"
    )
    (tmp_path / "rows.csv").write_text("input,label\nmy parcel is late,delivery\nhello,other\n")
    shutil.copy(ROOT / "examples" / "user_system.py", tmp_path)
    audits = [leakbound.audit(ROWS, system=one, pairs=100, simulations=0, out=tmp_path / "runs")
              for one in (leaks, careful)]  # fmt: skip
    gates = [{"type": "python", "value": "file://leak.py", "config": {"run": f"runs/{one.name}"}}
             for one in audits]  # fmt: skip
    system = {"system": "python:user_system.py:answer", "data": "rows.csv"}
    found = evaluated(tmp_path, {
        "prompts": ["{{query}}"],
        "providers": [{"id": "file://leak.py", "config": system}],
        "tests": [
            {"vars": {"query": "where is my parcel"},
             "assert": [{"type": "equals", "value": "delivery"}]},
            {"vars": {"query": 'is "hello" there'}, "assert": [gates[0]]},
            {"vars": {"query": 'is "nobody" there'}, "assert": [gates[1]]},
        ],
    })  # fmt: skip
    assert [one["success"] for one in found] == [True, False, True]
    assert columns_of(tmp_path / "out.json")["success"].values.tolist() == [1, 0, 1]
    assert [one["response"]["output"] for one in found] == ["delivery", "yes", "no"]
    assert found[1]["namedScores"]["leakbound_epsilon"] == audits[0].bound.epsilon
    assert "exceeds the claimed epsilon" in found[1]["gradingResult"]["reason"]


def test_a_mistake_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    from leakbound_hosts.promptfoo import call_api, get_assert

    assert "system is None" in str(call_api("x", {}, {})["error"])
    missing = get_assert("x", {"config": {"run": str(tmp_path)}})
    assert missing["pass"] is False
    assert "no record.json" in str(missing["reason"])
