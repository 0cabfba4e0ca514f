"""Utility on real rows is computed again from stored label probabilities, without model or rows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[2]
STORE = ROOT / "evidence" / "utility"
PAGE = ROOT / "docs" / "measured" / "utility.md"


def check(store: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "bench" / "real_model" / "utility.py"
    return subprocess.run([sys.executable, script, store], capture_output=True, text=True)


def copied(to: Path) -> Path:
    return Path(shutil.copytree(STORE, to / "utility"))


@pytest.mark.slow
def test_every_number_is_that_of_the_store() -> None:
    done = check(STORE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "computed again from the store, are the same" in done.stdout


@pytest.mark.slow
def test_an_edited_score_or_number_ends_with_1(tmp_path: Path) -> None:
    store = copied(tmp_path)
    scores = store / "scores.jsonl"
    first, *others = scores.read_text().splitlines()
    line = json.loads(first)
    line["scores"][0][0] = -0.5
    scores.write_text("\n".join([json.dumps(line), *others]) + "\n")
    done = check(store)
    assert (done.returncode, "line 1" in done.stdout) == (1, True)

    shutil.rmtree(store)
    numbers = copied(tmp_path) / "numbers.json"
    found = json.loads(numbers.read_text())
    found["tasks"]["trec"]["cells"]["few_shot"]["right"] += 1
    numbers.write_text(json.dumps(found))
    done = check(store)
    assert (done.returncode, "tasks/trec/cells/few_shot/right" in done.stdout) == (1, True)


@pytest.mark.slow
def test_a_dropped_line_ends_with_1(tmp_path: Path) -> None:
    store = copied(tmp_path)
    scores = store / "scores.jsonl"
    scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:-1]))
    assert check(store).returncode == 1


@pytest.mark.parametrize("name", ["design.json", "numbers.json", "embeddings.json"])
def test_a_store_that_lacks_a_file_ends_with_2(name: str, tmp_path: Path) -> None:
    store = copied(tmp_path)
    (store / name).unlink()
    assert check(store).returncode == 2


def test_the_page_has_the_numbers_and_the_store_no_text() -> None:
    """Each count of the page is one of the store; rows are named by place and hash."""
    tasks = json.loads((STORE / "numbers.json").read_text())["tasks"]
    section = PAGE.read_text().split("## Real rows and a real model\n")[1]
    shown = re.findall(r"· (\d+)/(\d+) \[", section)
    stored = [
        (str(cell["right"]), str(task["queries"]))
        for task in tasks.values()
        for cell in task["cells"].values()
    ]
    assert sorted(shown) == sorted(stored)
    for name, cell in ((n, c) for task in tasks.values() for n, c in task["cells"].items()):
        stated = float(name.rpartition(" at ")[2]) if " at " in name else 0.0
        assert cell.get("true_epsilon", 0.0) <= stated + 1e-6
    design = (STORE / "design.json").read_text()
    words = set(re.findall(r'"([^"]*)"', design))
    assert all(len(word) <= 20 and " " not in word for word in words)
