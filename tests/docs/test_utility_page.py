"""The page on utility shows every mechanism, with its noise off too, and what was to be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leakbound.mechanisms import MECHANISMS

PAGE = (Path(__file__).parents[2] / "docs" / "measured" / "utility.md").read_text()
NO_GUARANTEE = {
    "answer_probabilities", "few_shot", "prompt_defense", "judge_defense",
    "context_influence_decoding",
}  # fmt: skip
PRIVATE = sorted({*MECHANISMS} - NO_GUARANTEE - {"zero_shot"})
LABELS_ONLY = {"report_noisy_max", "subsample_average"}  # they choose among given answers
NUMBER = re.compile(r"(\d+\.\d) ± \d+\.\d( °)?")


def tables(section: str) -> list[dict[str, list[str]]]:
    """Cells of each table of a section by mechanism: ε = 1, 2, 4, 8 and no noise."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    found = []
    for table in re.findall(r"(?:^\|.*\n?)+", text, flags=re.M):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")]
        found.append({row[0]: row[1:] for row in rows[2:] if row[0]})
    return found


@pytest.mark.parametrize("name", PRIVATE)
def test_every_mechanism_is_measured_with_and_without_its_noise(name: str) -> None:
    sections = ("Labels",) if name in LABELS_ONLY else ("Labels", "Free answers")
    for section in sections:
        for table in tables(section):
            assert [bool(NUMBER.fullmatch(cell)) for cell in table[name]] == [True] * 5, section


def test_the_page_says_where_a_mechanism_is_no_better_than_zero_shot() -> None:
    """Every cell that is marked is named in the list, and no other."""
    listed = PAGE.split("## No better than zero-shot\n")[1].split("\n## ")[0]
    marked = {
        name
        for section in ("Labels", "Free answers")
        for table in tables(section)
        for name, cells in table.items()
        if any(cell.endswith("°") for cell in cells)
    }
    assert set(re.findall(r"`([^`]+)`", listed)) == marked


def test_every_goal_is_met() -> None:
    goals = [line for line in PAGE.split("## Goals\n")[1].splitlines() if line.startswith("- ")]
    assert len(goals) == 4
    assert all(goal.startswith("- met: ") for goal in goals)
