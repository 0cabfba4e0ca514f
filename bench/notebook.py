"""Execute the notebook of the examples and keep its outputs.

python bench/notebook.py [OUT]: executes examples/audit.ipynb with a kernel of this Python, in an
empty folder, and writes it to OUT, or in place. In place, docs/notebook.md is made of it as well.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "examples" / "audit.ipynb"
PAGE = ROOT / "docs" / "notebook.md"
SHOWN = ("text/html", "image/png", "text/plain")
ABOUT = (
    "<!-- Made of examples/audit.ipynb by `make notebook`. -->\n\n"
    "This page shows the notebook `examples/audit.ipynb` with its outputs."
)


def executed(path: Path) -> Any:
    """The notebook with the outputs of a fresh kernel, and without what differs from run to run."""
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        run = NotebookClient(book, timeout=300, resources={"metadata": {"path": folder}})
        run.execute()
    for number, cell in enumerate(book.cells):
        cell.metadata.clear()
        cell.id = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    book.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    return book


def page(book: Any) -> str:
    """The notebook as a page of the documentation."""
    title, *parts = [_cell(cell) for cell in book.cells]
    return "\n\n".join([title, ABOUT, *parts]).replace("](../docs/", "](") + "\n"


def _cell(cell: Any) -> str:
    if cell.cell_type == "markdown":
        return str(cell.source)
    code = f"```py\n{cell.source}\n```"
    return "\n\n".join([code, *filter(None, map(_output, cell.outputs))])


def _output(output: Any) -> str:
    """Cards stand as they are, on one line, so that Markdown leaves them alone."""
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    kind = next(one for one in SHOWN if one in output.data)
    text = output.data[kind]
    if kind == "image/png":
        return f'<img alt="bounds beside the claim" src="data:{kind};base64,{text.strip()}">'
    return " ".join(text.split()) if kind == "text/html" else f"```text\n{text}\n```"


def main(out: str = "") -> int:
    book = executed(NOTEBOOK)
    (Path(out) if out else NOTEBOOK).write_text(nbformat.writes(book) + "\n", encoding="utf-8")
    if not out:
        PAGE.write_text(page(book), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
