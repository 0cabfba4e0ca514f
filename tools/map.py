"""The index of files, from the first lines of their docstrings.

python tools/map.py docs/map.md
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [ROOT / "src", *sorted((ROOT / "packages").glob("*/src"))]
HEAD = """# Map of the files

Each file by its first sentence, folder by folder; ARCHITECTURE.md says how they go together. This
page is written by `make map`.
"""


def first_sentence(path: Path) -> str:
    """The first paragraph of a module's docstring, to its first full stop."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    line = " ".join(text.split("\n\n")[0].split())
    sentence = line.partition(". ")[0].rstrip(".:")
    return sentence if sentence.endswith("?") else f"{sentence}."


def index() -> str:
    lines = [HEAD]
    for source in SOURCES:
        for face in sorted(source.rglob("__init__.py")):
            folder = face.parent
            lines.append(f"## `{folder.relative_to(source).as_posix()}/`\n")
            lines.append(f"{first_sentence(face)}\n")
            files = [one for one in sorted(folder.glob("*.py")) if one != face]
            if files:
                lines += ["| file | what it holds |", "| --- | --- |"]
                shown = [(one.name, first_sentence(one).replace("|", "\\|")) for one in files]
                lines += [f"| `{name}` | {text} |" for name, text in shown]
                lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(index())
