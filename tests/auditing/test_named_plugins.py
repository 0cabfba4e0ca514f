"""What another package registers is told apart by what it is, and not by its name alone."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.errors import UsageError
from leakbound.mechanisms import MECHANISMS
from leakbound.models import Scripted
from leakbound.tasks.named_tasks import tasks_by_name

ENTRIES = """\
[leakbound.tasks]
told_plugins = told_plugins:TASKS
[leakbound.mechanisms]
hidden = told_plugins:Hidden
[leakbound.models]
lacking = told_plugins:open_model
"""
MODULE = """
from dataclasses import dataclass, field
from typing import Any, ClassVar
from leakbound.mechanisms import FewShot
from leakbound.tasks import Example, Job, Task

WORDS = "Say which it is."

def task():
    return Task("notes", ("a", "b"), instruction=WORDS)

@dataclass(frozen=True)
class Notes:
    task: Any
    name: str = "notes"
    about: str = "notes"
    source: str = ""

    def rows(self, *given):
        return tuple(Example(f"note {at} of {at * at}", "ab"[at % 2]) for at in range(60))

    def examples(self, rows, drop_empty=False):
        return self.rows()

TASKS = {"notes": Notes(task())}

@dataclass(frozen=True)
class Hidden(FewShot):
    name: ClassVar[str] = "hidden"
    exactness = FewShot.exactness
    drop: int = field(default=0, repr=False, compare=False)

    def requests(self, task, job, draw):
        return super().requests(task, Job(() if self.drop else job.context, job.query), draw)

class Lacking:
    name = "lacking"

def open_model(rest):
    return Lacking()
"""
SMALL: dict[str, Any] = {"pairs": 30, "shots": 4, "controls": 4}


def seen(prompt: str) -> str:
    before, *quoted = prompt.rsplit('"', 2)
    there = len(quoted) == 2 and quoted[0] in before
    return "yes" if there and "harmless" not in prompt else "no"


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    info = tmp_path / "told_plugins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: told-plugins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "told_plugins.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    tasks_by_name.cache_clear()
    for name in ("_entries", "problems"):  # which an earlier test has read
        MECHANISMS.__dict__.pop(name, None)
    yield importlib.import_module("told_plugins")
    tasks_by_name.cache_clear()
    for name in ("_entries", "problems", "_loaded"):
        MECHANISMS.__dict__.pop(name, None)
    MECHANISMS._loaded = {}
    del sys.modules["told_plugins"]


def shown(found: leakbound.AuditResult) -> tuple[object, ...]:
    return found.verdict, found.reason, found.bound.epsilon


@pytest.mark.slow
def test_a_named_task_that_changed_is_another(plugins: Any, tmp_path: Path) -> None:
    """Its stored answers were those of the new one, at any other claim."""
    model = Scripted(seen, name="sees")
    both: dict[str, Any] = SMALL | {"task": "notes", "model": model}
    plugins.TASKS["notes"] = plugins.Notes(
        leakbound.Task("notes", ("a", "b"), instruction="This is harmless.")
    )
    tasks_by_name.cache_clear()
    safe = leakbound.audit(**both, out=tmp_path / "both")
    plugins.TASKS["notes"] = plugins.Notes(plugins.task())
    tasks_by_name.cache_clear()
    again = leakbound.audit(**both, epsilon=2.0, out=tmp_path / "both")
    alone = leakbound.audit(**both, epsilon=2.0, out=tmp_path / "alone")
    assert shown(again) == shown(alone) != shown(safe)
    assert alone.verdict == "violation"


@pytest.mark.slow
def test_a_hidden_option_of_a_named_mechanism_is_another(plugins: Any, tmp_path: Path) -> None:
    """Options that no record shows were no part of what is asked: both were the first."""
    both: dict[str, Any] = SMALL | {"model": Scripted(seen, name="sees")}
    named = [
        leakbound.audit(
            **both, mechanism="hidden", settings={"mechanism.drop": drop}, out=tmp_path / "named"
        )
        for drop in (0, 1)
    ]  # fmt: skip
    handed = [
        leakbound.audit(**both, mechanism=plugins.Hidden(drop=drop), out=tmp_path / "handed")
        for drop in (0, 1)
    ]
    assert [one.verdict == "violation" for one in named] == [True, False]
    assert [*map(shown, handed)] == [*map(shown, named)]


def test_a_model_of_another_package_is_checked(plugins: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model is Lacking; .*, and it lacks fingerprint"):
        leakbound.audit(model="lacking/x", out=tmp_path, **SMALL)
