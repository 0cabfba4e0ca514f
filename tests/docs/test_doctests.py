"""The examples in docstrings show what really happens."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest
from sources import SOURCES, module_of

SHOWN = [path for path in SOURCES if ">>> " in path.read_text()]
LOCAL = {path for path in SHOWN if "models/local" in path.as_posix()}


def name_of(path: Path) -> str:
    return module_of(path).removesuffix(".__init__")


@pytest.mark.parametrize(
    "path",
    [pytest.param(one, marks=pytest.mark.torch) if one in LOCAL else one for one in SHOWN],
    ids=name_of,
)
def test_examples(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(name_of(path)), verbose=False)
    assert found.attempted
    assert not found.failed


def test_examples_are_found() -> None:
    assert len(SHOWN) > 20
