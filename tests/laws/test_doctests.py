"""The examples in the docstrings of the package give what they show."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "leakbound").rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_give_what_they_show(name: str) -> None:
    if name.startswith("leakbound.models.local") and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
