"""The page on the speed of influence says what was measured, and every goal that is missed."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "measured" / "speed.md").read_text()
KEPT: dict[str, Any] = json.loads((ROOT / "bench/results/influence-speed.json").read_text())
GOAL = re.compile(
    r"^\| (.+?) \| ([\d.]+) \| (?:(\d+\.\d) \| (met|missed|not decided)|not measured \| ) \|$", re.M
)


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """The module that writes the page."""
    path = ROOT / "bench" / "influence_speed_page.py"
    spec = importlib.util.spec_from_file_location("influence_speed_page", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_of_the_kept_figures(maker: ModuleType) -> None:
    write = "run `python bench/influence_speed.py --write docs/measured/speed.md`"
    assert maker.page(KEPT) == PAGE, write


def test_every_goal_stands_beside_its_figure() -> None:
    found = {name: row for name, *row in GOAL.findall(PAGE)}
    assert [float(goal) for goal, _, _ in found.values()] == [100, 1.7, 5]
    for goal, value, word in found.values():
        near = value and abs(float(value) / float(goal) - 1) < 0.15  # what scaled times may be off
        decided = "met" if float(value or 0) >= float(goal) else "missed"
        assert word in ({decided, "not decided"} if near else {decided if value else ""})
    goal = KEPT["goal"]
    assert (goal["context"], goal["answer"]) == (1024, 50)
    assert float(found["the authors' program"][1]) == pytest.approx(
        (goal["authors"] or goal["authors_scaled"]) / goal["ours"], abs=0.05
    )


def test_the_authors_program_ran_complete_at_one_size_and_gave_the_same_influence() -> None:
    small = KEPT["small"]
    assert small["authors"] > 0
    assert max(small["apart_authors"], small["apart_loop"]) < 1e-4
    assert max(KEPT["goal"]["apart_authors"], KEPT["goal"]["apart_loop"]) < 1e-4


def test_a_part_that_was_not_measured_is_said_so(maker: ModuleType) -> None:
    assert "| the authors' program | 100 | not measured |" in maker.page({})


def test_the_methods_that_approximate_the_same_are_named_with_their_figures() -> None:
    for name, figure in (("AttriBoT", "300 times"), ("FlashTrace", "130 times"), ("AT2", "on par")):
        (row,) = re.findall(rf"^\| {name} .*$", PAGE, re.M)
        assert figure in row


def test_the_profile_and_the_search_stand_beside_their_goals() -> None:
    """Where the time goes adds up, and the goal of the engine is met or missed by its figure."""
    found = KEPT["profile"]
    assert sum(found["split"].values()) == pytest.approx(1)
    word = "met" if found["share"] >= 0.8 else "missed"
    assert f"{found['share']:.0%} of the rate" in PAGE
    assert f"goal 80%: {word})" in PAGE
    for one in KEPT["top"]["found"]:
        assert one["right"] >= 0.95
        assert f"| {one['shown']['1']:.1%} | {one['shown']['3']:.1%} |" in PAGE


@pytest.mark.parametrize("name", ["docs/influence.md", "README.md"])
def test_no_other_page_has_ratios_of_its_own(name: str) -> None:
    """What is so many times faster than what stands on this page only."""
    assert not re.search(r"\d (times|×) (faster|as fast)", (ROOT / name).read_text())
