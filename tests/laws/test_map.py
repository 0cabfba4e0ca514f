"""The index of files is what their first sentences say."""

from __future__ import annotations

import runpy

from sources import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "map.py"))


def test_the_map_is_of_these_files() -> None:
    assert (ROOT / "docs" / "map.md").read_text() == TOOL["index"](), "run make map"


def test_every_file_has_a_first_sentence() -> None:
    assert "| . |" not in TOOL["index"]()
