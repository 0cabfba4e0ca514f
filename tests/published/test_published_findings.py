"""Findings about installed packages are found again; skipped where a package is not installed."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.hosts

ROOT = Path(__file__).parents[2]
KEPT = {
    (found["package"], found["what"]): found
    for found in json.loads((ROOT / "bench" / "results" / "published.json").read_text("utf-8"))[
        "findings"
    ]
}
QUICK = {  # no model is loaded for these
    "dp_fusion_lib": ("clamped", "first_token", "order_above_four", "replaced", "recommended"),
    "invink": ("zeroed_out", "replaced"),
    "privfill": ("shared_noise", "sensitivity", "analytic"),
    "diffpriv_pure": ("count", "composed", "gaussian", "laplace"),
}


@pytest.fixture(autouse=True)
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of bench/published, by their names."""
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "published"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("target", "name"), [(target, name) for target, names in QUICK.items() for name in names]
)
def test_a_finding_is_found_again(target: str, name: str) -> None:
    if target == "invink" and sys.version_info < (3, 12):
        pytest.skip("invink needs Python 3.12")
    pytest.importorskip(target)
    module: Any = import_module(f"target_{target}")
    found = getattr(module, name)().record()
    kept = KEPT[found["package"], found["what"]]
    assert found["exceeds"] == kept["exceeds"]
    assert not found["reference_exceeds"]
    assert float(found["found"]) == pytest.approx(float(kept["found"]), rel=1e-3)
