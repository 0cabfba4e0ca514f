"""The page about other tools agrees with README, and says where each of its facts comes from."""

from __future__ import annotations

import re
from pathlib import Path

from leakbound.mechanisms import MECHANISMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "other-tools.md").read_text()
NO_GUARANTEE = {
    "answer_probabilities", "few_shot", "prompt_defense", "judge_defense",
    "context_influence_decoding",
}  # fmt: skip
NUMBERS = {"9": "nine"}


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


def test_each_tool_has_a_version_and_a_section_with_sources() -> None:
    tools = table(PAGE, "| | leakbound | garak |")
    assert list(table(PAGE, "| tool | made for |"))[1:] == tools[""]
    assert len(tools["version"]) == len(tools[""]) == 7
    sections = dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", PAGE, flags=re.M | re.S))
    assert list(sections) == tools[""]
    for name in tools[""][1:]:
        assert re.search(r"[Cc]ommit \[?`[0-9a-f]{8}`", sections[name]), name
        assert len(table(sections[name], "| fact | where |")) >= 6, name


def test_a_row_has_a_cell_for_each_tool() -> None:
    rows = table(PAGE, "| | leakbound | garak |")
    assert {len(cells) for cells in rows.values()} == {7}
    assert all(cell for cells in rows.values() for cell in cells)


def test_the_number_of_private_mechanisms_is_the_catalogue_s() -> None:
    """Of those that read private rows."""
    private = {*MECHANISMS} - NO_GUARANTEE - {"zero_shot"}
    (cell, *_) = table(PAGE, "| | leakbound | garak |")["private in-context learning"]
    assert cell.split()[0] == str(len(private))
    assert f"one of {NUMBERS[cell.split()[0]]} mechanisms with a guarantee" in README
