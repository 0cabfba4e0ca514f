"""The page about other tools agrees with README, and says where each of its facts comes from."""

from __future__ import annotations

import re
from pathlib import Path

from leakbound.mechanisms import MECHANISMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "other-tools.md").read_text()
FACTS = (ROOT / "docs" / "measured" / "other-tools.md").read_text()
NO_GUARANTEE = {
    "answer_probabilities", "few_shot", "prompt_defense", "judge_defense",
    "context_influence_decoding",
}  # fmt: skip
NUMBERS = {"9": "nine"}
HAS = "| tool | release |"  # the head of the table of what each has


def table(text: str, head: str) -> dict[str, list[str]]:
    """Cells of each row of the first table that begins so, by the first cell."""
    lines = text[text.index(head) :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0]: row[1:] for row in rows if set(row[0]) != {"-"}}


def test_readme_says_of_each_tool_what_the_page_says() -> None:
    short = table(README.replace("(docs/", "("), "| tool | made for |")
    assert short == table(PAGE, "| tool | made for |")
    assert "(docs/other-tools.md)" in README


def test_readme_has_what_a_stranger_looks_for() -> None:
    """Ways to install, a table of contents, a result as text, papers, citation and contact."""
    for line in ("`pipx install .`", "`pipx install '.[local]'`", "uvx --from . leakbound"):
        assert line in README
    anchors = set(re.findall(r"\]\(#([a-z-]+)\)", README))
    heads = {head.lower().replace(" ", "-") for head in re.findall(r"^## (.+)$", README, re.M)}
    assert len(anchors) >= 8
    assert anchors <= heads
    assert "```text\n✗ VIOLATION   few_shot on pocket" in README
    assert len(set(re.findall(r"arxiv\.org/abs/\d{4}\.\d{5}|arXiv:\d{4}\.\d{5}", README))) >= 4
    for name in ("CITATION.cff", "LICENSE", "SECURITY.md"):
        assert f"({name})" in README
        assert (ROOT / name).is_file()


def test_each_tool_has_a_release_and_a_section_with_sources() -> None:
    tools = list(table(PAGE, "| tool | made for |"))[1:]
    releases = table(PAGE, HAS)
    assert list(releases)[1:] == tools
    assert len(tools) == 11
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^## |^### |\Z)", FACTS, flags=re.M | re.S))
    assert ["leakbound", *sections] == tools
    for name, text in sections.items():
        assert f"Release {releases[name][0]}" in text, name
        assert len(table(text, "| fact | where |")) >= 5, name


def test_a_row_has_a_cell_for_each_column() -> None:
    rows = table(PAGE, HAS)
    assert {len(cells) for cells in rows.values()} == {6}
    assert all(cell for cells in rows.values() for cell in cells)
    assert list(table(PAGE, "| tool | what it adds |"))[1:] == list(rows)[2:]


def test_the_number_of_private_mechanisms_is_the_catalogue_s() -> None:
    """Of those that read private rows."""
    private = {*MECHANISMS} - NO_GUARANTEE - {"zero_shot"}
    (number,) = re.findall(r"leakbound has (\d) mechanisms with a guarantee", PAGE)
    assert number == str(len(private))
    assert f"one of {NUMBERS[number]} mechanisms with a guarantee" in README
