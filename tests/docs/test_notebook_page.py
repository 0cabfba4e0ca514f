"""The notebook of the examples holds its outputs, and the page is made of it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "audit.ipynb"
RUN = re.compile(r"-[0-9a-f]{10}\b|\b[0-9a-f]{16}\b")


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else "".join(value)


def outputs(path: Path) -> list[str]:
    """The words of each output: no figures, no names of runs, and numbers cut to whole ones."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = [one for cell in cells for one in cell.get("outputs", ())]
    shown = [one["text"] if "text" in one else one["data"].get("text/html", "") for one in found]
    texts = [re.sub(r"<svg.*?</svg>|<[^>]*>", " ", text_of(one), flags=re.S) for one in shown]
    return [re.sub(r"(\d)\.\d+", r"\1", " ".join(RUN.sub("", one).split())) for one in texts]


def test_ten_cells_show_what_a_reviewer_of_a_paper_would_run() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert len(cells) == 10
    code = "\n".join(text_of(cell["source"]) for cell in cells)
    for call in ("pd.DataFrame(", ".audit(", ".epsilon", ".to_frame()", ".plot()", ".bounds(",
                 ".compare(", ".influence(", "compare_scores("):  # fmt: skip
        assert call in code, call
    shown = "\n".join(outputs(NOTEBOOK))
    for words in ("VIOLATION: helpdesk", "2 runs compared", "Influence of 1 context", "pairs, ",
                  "violation with epsilon at least 2", "McNemar's exact test"):  # fmt: skip
        assert words in shown, words
    assert [one for one in cells[5]["outputs"] if "image/png" in one["data"]]


def test_the_notebook_holds_no_path_and_loads_nothing() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert NOTEBOOK.stat().st_size < 250_000
    assert not re.search(r"/(home|root|tmp|Users)/|<script|src=\\?\"https?:|@import", text)
    for card in re.findall(r"48213[^\"]*", "".join(outputs(NOTEBOOK))):
        raise AssertionError(f"a card shows the text of the context: {card[:60]}")


def test_the_page_is_made_of_the_notebook() -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    spec = importlib.util.spec_from_file_location("notebook_bench", ROOT / "bench" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    made = bench.page(nbformat.read(NOTEBOOK, as_version=4))
    assert (ROOT / "docs" / "notebook.md").read_text() == made, "run `make notebook`"


@pytest.mark.process
@pytest.mark.slow
def test_executed_again_it_shows_the_same(tmp_path: Path) -> None:
    for name in ("torch", "nbclient", "ipykernel", "pandas"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    again = tmp_path / "again.ipynb"
    command = [sys.executable, str(ROOT / "bench" / "notebook.py"), str(again)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert outputs(again) == outputs(NOTEBOOK)
