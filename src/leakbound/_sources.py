"""What code is made of; and names that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import os
import sys
import sysconfig
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property, reduce
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from leakbound._version import BEGAN

DIGITS = 16
HEAP = 1 << 9  # flag of a type that Python code made
INSTALLED = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib"))
STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
CLOCKS = 0.01  # seconds: those of processes count in hundredths
unnamed: dict[object, str] = {}  # names of what no file tells, in this process
_PROCESS = uuid.uuid4().hex
_loaded: dict[int, object] = {}  # what modules were loaded by, so that no other has its address
STARTED = BEGAN
with suppress(OSError, ValueError, IndexError):  # of the process, where the system tells it
    _stat, _up = (Path("/proc", name).read_text() for name in ("self/stat", "uptime"))
    if _ticks := int(_stat.rpartition(")")[2].split()[19]):
        _start = time.time() - float(_up.split()[0]) + _ticks / os.sysconf("SC_CLK_TCK")
        STARTED = min(BEGAN, _start + CLOCKS)
_read: dict[tuple[Path, bool], tuple[dict[Path, float], str]] = {}


def package_root(file: Path) -> Path:
    return next(folder for folder in file.parents if not (folder / "__init__.py").is_file())


def source_files(file: Path, roots: tuple[Path, ...] = ()) -> tuple[Path, ...]:
    """A Python file and what it imports from its own folders, directly or not, as its text says: no
    names made at run time or data files, and of an installed system its own package alone."""
    first = file.resolve()
    folders = tuple(root.resolve() for root in roots) or (package_root(first),)
    found, open_files = {first, *_packages(first, folders[0])}, [first]
    open_files += found - {first}
    while open_files:
        one = open_files.pop()
        imported = set(_imports(one, folders)) - found
        if folders[0] in INSTALLED:  # beside an installed system stand packages of others
            own = first.relative_to(folders[0]).parts[0]
            imported = {new for new in imported if new.relative_to(folders[0]).parts[0] == own}
        found |= imported
        open_files += imported
    return first, *sorted(found - {first})


def source_digest(file: Path, roots: tuple[Path, ...] = ()) -> str:
    """A hash that changes with the file of a system, and with any own module that it imports."""
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
            above = file.parents[min(node.level, len(file.parents)) - 1]
            bases = (above,) if node.level else folders
            inside = any(base.is_relative_to(root) for base in bases for root in folders)
            for alias in node.names if inside else ():
                yield from _modules(bases, f"{node.module or ''}.{alias.name}".strip("."))


def _modules(bases: tuple[Path, ...], dotted: str) -> Iterator[Path]:
    """Files that an import of `a.b.c` loads: the packages on the way, and the module."""
    for base in bases:
        for part in dotted.split("."):
            base = base / part
            for found in (base / "__init__.py", base.with_name(f"{part}.py")):
                if found.is_file():
                    yield found


def code_of(thing: object, whole: bool = True) -> str:
    """A hash of the file of a function or class, of its place and (`whole`) of what it imports; ""
    where more than a text decides: a made or replaced class, or one that no file defines."""
    if isinstance(thing, FunctionType):
        if thing.__closure__ or thing.__defaults__ or thing.__kwdefaults__:
            return ""
        places = [*thing.__code__.co_positions()]  # of two lambdas of one file
    elif isinstance(thing, type) and _stands(thing):
        places = []
    else:
        return ""
    try:
        file = Path(inspect.getsourcefile(thing) or "").resolve()
        code = digest_of(file, whole).encode()
    except (TypeError, OSError):
        # what it names elsewhere is no part of its code, as in a notebook
        return "" if isinstance(thing, type) else unnamed.setdefault(thing, uuid.uuid4().hex)
    place = repr([thing.__qualname__, *places]).encode()
    return hashlib.sha256(code + place).hexdigest()[:DIGITS]


def digest_of(file: Path, whole: bool) -> str:
    # What was changed after this process began may be loaded or not, so it is told from what any
    # other process runs, and from what this one ran before it was changed or loaded anew.
    times, digest = _read.get((file, whole), ({}, ""))
    if not times or any(time_of(one) != at for one, at in times.items()):
        files = source_files(file) if whole else (file,)
        times = {one: time_of(one) for one in files}
        digest = source_digest(file) if whole else hashlib.sha256(file.read_bytes()).hexdigest()
        _read[file, whole] = times, digest
    new = {str(one) for one, at in times.items() if at >= STARTED}
    if not new:
        return digest
    specs = [  # others after modules were loaded anew
        one.__spec__ for one in [*sys.modules.values()] if isinstance(one, ModuleType)
        and str(Path(vars(one).get("__file__") or "").resolve()) in new
    ]  # fmt: skip
    _loaded.update((id(one), one) for one in specs)
    return f"{digest} {_PROCESS} {sorted(map(id, specs))}"


def time_of(file: Path) -> float:
    found = file.stat()
    return found.st_ctime if os.name == "posix" else found.st_mtime


def _stands(kind: type) -> bool:
    with suppress(AttributeError, KeyError):
        module: object = sys.modules[kind.__module__]
        return reduce(getattr, kind.__qualname__.split("."), module) is kind
    return False


def class_source(kind: type) -> str:
    """A hash of the files of a class and its bases; "" for classes of this package, and a name of
    its own for one that no file tells."""
    own, made = kind.__module__.partition(".")[0], [*filter(is_made, kind.__mro__)]
    found = [
        code_of(one, whole=one.__module__.partition(".")[0] == own or not _is_installed(one))
        for one in made if not _is_shipped(one)
    ]  # fmt: skip
    if not found or not all(found):
        return unnamed.setdefault(kind, uuid.uuid4().hex) if found else ""
    return hashlib.sha256("".join(found).encode()).hexdigest()[:DIGITS]


def is_made(kind: type) -> bool:
    """Whether a class was made by Python code."""
    return bool(kind.__flags__ & HEAP)


def _is_shipped(kind: type) -> bool:
    """Whether a class is of this package or of Python, which have a version."""
    if not _stands(kind):  # one that `type` makes is said to be of a module that did not make it
        return False
    with suppress(TypeError, OSError):
        file = Path(inspect.getsourcefile(kind) or "/").resolve()
        if file.is_relative_to(Path(__file__).resolve().parent):
            return True
        return file.is_relative_to(STDLIB) and not _is_installed(kind)
    return False


def _is_installed(kind: type) -> bool:
    """Whether a class stands beside packages of others."""
    with suppress(TypeError, OSError):
        file = Path(inspect.getsourcefile(kind) or "/").resolve()
        return any(file.is_relative_to(one) for one in INSTALLED)
    return False


class _Face(ModuleType):
    """A package that has the names that it imports under TYPE_CHECKING, which a checker sees."""

    @cached_property
    def _homes(self) -> dict[str, str]:
        loader: Any = self.__spec__ and self.__spec__.loader
        nodes = ast.walk(ast.parse(loader.get_source(self.__name__)))
        imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
        return {one.name: str(node.module) for node in imports for one in node.names}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home = self._homes[name]
        if home == self.__name__:  # a module of this package
            return importlib.import_module(f"{home}.{name}")
        found = getattr(importlib.import_module(home), name)
        super().__setattr__(name, found)
        return found

    def __setattr__(self, name: str, value: object) -> None:
        """Of one name, `compose` is the function, and not the module that has it."""
        if name not in self.__dict__.get("__all__", ()) or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)


def import_when_used(package: str) -> None:
    """Import the names of a package when they are first used, and not with the package."""
    sys.modules[package].__class__ = _Face
