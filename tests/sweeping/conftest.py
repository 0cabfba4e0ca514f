"""A model that finds every canary, and counts what it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakbound.auditing.spec.audit_spec import AuditSpec, flat_keys, merge_keys
from leakbound.models import Counted, Scripted
from leakbound.sweeping import CachingOpener, Sweep, SweepRecord, merge_grids, plan_sweep


def said(prompt: str) -> str:
    parts = prompt.split('"')
    if len(parts) < 3:
        return "plain" if len(prompt) % 2 else "odd"
    return "yes" if prompt.count(parts[-2]) > 1 else "no"


class Sweeps:
    """Sweeps over the rows of a file with a counting model."""

    def __init__(self, out: Path, data: Path) -> None:
        self.out, self.model, self.opened = out, Counted(Scripted(complete=said, name="leaky")), 0
        self.base: dict[str, Any] = {
            "data": str(data), "mechanism": "report_noisy_max", "pairs": 8, "shots": 6,
            "mechanism.partitions": 3, "simulations": 200, "labels": "odd,plain",
        }  # fmt: skip

    def opener(self, spec: AuditSpec) -> Counted:
        self.opened += 1
        return self.model

    def sweep(
        self, grid: dict[str, Any], base: dict[str, Any] | None = None, **options: Any
    ) -> Sweep:
        opens = CachingOpener(self.opener)
        keys = merge_keys(flat_keys(self.base), flat_keys(base or {}))
        return Sweep(plan_sweep(keys, merge_grids(grid), opens, **options), self.out, opens)

    def run(
        self, grid: dict[str, Any], base: dict[str, Any] | None = None, **options: Any
    ) -> SweepRecord:
        return self.sweep(grid, base, **options).run()


@pytest.fixture
def sweeps(tmp_path: Path, data_file: Path) -> Sweeps:
    return Sweeps(tmp_path / "sweep", data_file)
