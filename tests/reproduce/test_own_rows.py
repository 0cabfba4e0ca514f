"""Recipes on rows of the user's own: their labels are named, and known before any model call."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process import run
from leakbound_lab.reproduce import RecipeContext

from leakbound.errors import UsageError


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "own.jsonl"
    lines = (f'{{"text": "note {at}", "label": "{"ab"[at % 2]}"}}\n' for at in range(40))
    file.write_text("".join(lines))
    return file


@pytest.mark.parametrize("name", ["contextleak/fig8", "tight/fig13", "poetry/table1"])
def test_rows_without_labels_are_refused_before_anything_is_asked(rows: Path, name: str) -> None:
    """Before, the first private audit refused them, after minutes of calls."""
    told = run("reproduce", name, "--data", str(rows), "--out", str(rows.parent / "out"))
    assert isinstance(told.exception, UsageError)
    assert "--labels work,home" in str(told.exception)
    assert not (rows.parent / "out").exists()


def test_named_labels_reach_the_audits_of_a_recipe(rows: Path) -> None:
    context = RecipeContext(rows.parent, ("pocket",), {"data": str(rows), "labels": "a,b"})
    spec = context.spec({"mechanism": "report_noisy_max", "shots": 4})
    assert spec.design.labels == ("a", "b")
    assert context.rows({"shots": 4})[1].labels == ("a", "b")


def test_labels_of_contexts_are_refused(rows: Path) -> None:
    given = ("--data", str(rows), "--labels", "a,b", "--out", str(rows.parent / "out"))
    told = run("reproduce", "influence/fig2", *given)
    assert isinstance(told.exception, UsageError)
    assert "without --labels" in str(told.exception)
