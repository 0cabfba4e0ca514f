"""The sources of a Python system: its file, and what it imports from its folders."""

from __future__ import annotations

import ast
import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path

DIGITS = 16
INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib"))


def package_root(file: Path) -> Path:
    """The folder that holds the package of a file."""
    return next(folder for folder in file.parents if not (folder / "__init__.py").is_file())


def source_files(file: Path, roots: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    """A Python file, and what it imports from its own folders, directly or not.

    Nothing is run: imports are read from the text, also those within functions. Modules that are
    loaded by a name made at run time are not seen, nor are installed packages and data files; of a
    system that is installed itself, its own package is.
    """
    first = file.resolve()
    folders = tuple(root.resolve() for root in roots) or (package_root(first),)
    found, open_files = {first, *_packages(first, folders[0])}, [first]
    open_files += found - {first}
    while open_files:
        one = open_files.pop()
        imported = {new for new in _imports(one, folders) if _is_own(new, first, folders)} - found
        found |= imported
        open_files += imported
    return first, *sorted(found - {first})


def source_digest(file: Path, roots: tuple[Path, ...] = ()) -> str:
    """A hash that changes with a system's file, and with any module of its folders that it
    imports.
    """
    first, *others = source_files(file, roots)
    folders = tuple(root.resolve() for root in roots) or (package_root(first),)
    digest = hashlib.sha256(first.read_bytes())
    for other in others:
        root = next((folder for folder in folders if other.is_relative_to(folder)), other.parent)
        name = other.relative_to(root).as_posix()
        digest.update(f"\0{name}\0{hashlib.sha256(other.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()[:DIGITS]


def _packages(file: Path, root: Path) -> Iterator[Path]:
    """What runs before a module does: the packages that it stands in."""
    for folder in file.parents:
        if folder == root or not folder.is_relative_to(root):
            return
        if (start := folder / "__init__.py").is_file():
            yield start


def _is_own(new: Path, file: Path, folders: tuple[Path, ...]) -> bool:
    """Whether a file is the user's: beside an installed system stand packages of others."""
    root = folders[0]
    if root not in INSTALLED:
        return True
    return new.relative_to(root).parts[0] == file.relative_to(root).parts[0]


def _imports(file: Path, folders: tuple[Path, ...]) -> Iterator[Path]:
    """Files below the folders that a file imports; none of one that is no Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(folders, alias.name)
        elif isinstance(node, ast.ImportFrom):
            bases = folders if not node.level else (_above(file, node.level),)
            inside = any(base.is_relative_to(root) for base in bases for root in folders)
            for alias in node.names if inside else ():
                yield from _modules(bases, f"{node.module or ''}.{alias.name}".strip("."))


def _above(file: Path, level: int) -> Path:
    return file.parents[min(level, len(file.parents)) - 1]


def _modules(bases: tuple[Path, ...], dotted: str) -> Iterator[Path]:
    """Files that an import of `a.b.c` loads: the packages on the way, and the module."""
    for base in bases:
        for part in dotted.split("."):
            base = base / part
            for found in (base / "__init__.py", base.with_name(f"{part}.py")):
                if found.is_file():
                    yield found
