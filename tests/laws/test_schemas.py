"""The shipped JSON Schemas are those of the records."""

from __future__ import annotations

import runpy
from pathlib import Path

import pydantic
import pytest
from sources import ROOT

TOOL = runpy.run_path(str(ROOT / "tools" / "schemas.py"))


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 13), reason="it writes other schemas"
)
@pytest.mark.parametrize("file", TOOL["SHIPPED"], ids=lambda file: f"{file.parent.name}")
def test_the_shipped_schema_is_that_of_the_record(file: Path) -> None:
    text = TOOL["schema_text"](TOOL["SHIPPED"][file])
    assert file.read_text() == text, "run make schemas"
