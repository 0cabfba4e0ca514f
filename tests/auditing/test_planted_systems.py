"""Whole systems with a known fault get the right verdict at claim 1 in 60 pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
from leakbound_lab.planted.whole_audits import PLANTED, PlantedSystem

import leakbound
from leakbound.tasks import Context


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.id)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_known_fault_gets_the_right_verdict(
    planted: PlantedSystem, seed: int, rows: Context, tmp_path: Path
) -> None:
    result = leakbound.audit(
        rows, system=planted.make(), pairs=60, epsilon=1.0, seed=seed, out=tmp_path,
        simulations=0, query=planted.query, canary=planted.canary,
    )  # fmt: skip
    assert {result.reason, result.verdict} & planted.allowed, str(result)
