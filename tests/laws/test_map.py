"""The index of files is what their first sentences say."""

from __future__ import annotations

import re
import runpy

from sources import CORE, ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "map.py"))


def test_the_map_is_of_these_files() -> None:
    assert (ROOT / "docs" / "map.md").read_text() == TOOL["index"](), "run make map"


def test_every_file_has_a_first_sentence() -> None:
    assert "| . |" not in TOOL["index"]()


def test_the_architecture_is_one_page() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(re.findall(r"[^\s|`]*\w[^\s|`]*", page)) <= 900
    assert max(map(len, page.splitlines())) <= 100
    folders = re.findall(r"`((?:\w+/)+)`", page)
    here = [ROOT, CORE, CORE / "auditing"]
    assert not [one for one in folders if not any((root / one).is_dir() for root in here)]
