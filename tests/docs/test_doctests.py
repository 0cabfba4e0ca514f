"""The examples in docstrings show what really happens."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "leakbound"
SHOWN = [path for path in sorted(PACKAGE.rglob("*.py")) if ">>> " in path.read_text()]


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", SHOWN, ids=name_of)
def test_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if "models/local" in path.as_posix():
        pytest.importorskip("torch")
    found = doctest.testmod(importlib.import_module(name_of(path)), verbose=False)
    assert found.attempted
    assert not found.failed


def test_examples_are_found() -> None:
    assert len(SHOWN) > 20
