"""What decides the answers of a Python system: its file, and the modules beside it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["source_digest", "source_files"]

DIGITS = 16


def source_files(file: Path) -> tuple[Path, ...]:
    """A Python file, and what it imports from its own folder, directly or not.

    Nothing is run: imports are read from the text, also those within functions. Modules that are
    loaded by a name made at run time are not seen, nor are installed packages and data files.

    Args:
        file: The file of a system.

    Returns:
        The file itself first, the others by path.
    """
    first = file.resolve()
    found, open_files = {first}, [first]
    while open_files:
        imported = set(_imports(open_files.pop(), first.parent)) - found
        found |= imported
        open_files += imported
    return first, *sorted(found - {first})


def source_digest(file: Path) -> str:
    """A hash that changes with a system's file, and with any module of its folder that it imports.

    Args:
        file: The file of a system.

    Returns:
        16 hexadecimal digits; those of the file alone where it imports nothing from its folder.
    """
    first, *others = source_files(file)
    digest = hashlib.sha256(first.read_bytes())
    for other in others:
        name = other.relative_to(first.parent).as_posix()
        digest.update(f"\0{name}\0{hashlib.sha256(other.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()[:DIGITS]


def _imports(file: Path, folder: Path) -> Iterator[Path]:
    """Files below the folder that a file imports; none of one that is no Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(folder, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = folder if not node.level else _above(file, node.level)
            for alias in node.names if base.is_relative_to(folder) else ():
                yield from _modules(base, f"{node.module or ''}.{alias.name}".strip("."))


def _above(file: Path, level: int) -> Path:
    return file.parents[min(level, len(file.parents)) - 1]


def _modules(base: Path, dotted: str) -> Iterator[Path]:
    """Files that an import of `a.b.c` loads: the packages on the way, and the module."""
    for part in dotted.split("."):
        base = base / part
        for found in (base / "__init__.py", base.with_name(f"{part}.py")):
            if found.is_file():
                yield found
