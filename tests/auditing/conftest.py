"""What tests of several files of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from loopback.nodes import two_nodes


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Of a Ray cluster of two nodes, which takes seconds to start."""
    pytest.importorskip("ray", reason="Ray is not installed (the extra ray)")
    with two_nodes() as found:
        yield found


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits without `out` write to a folder of their own."""
    monkeypatch.chdir(tmp_path)
