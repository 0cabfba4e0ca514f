"""The self-test: every defect audited, and its sound twin over many seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from leakbound.testing.auditor import Finding
from leakbound.testing.defects import DEFECTS, Defect

__all__ = ["Row", "passed", "selftest"]

ALLOWED = 0.05


@dataclass(frozen=True, slots=True)
class Row:
    """One defect: was it found, on what evidence; how many audits of its sound twin accused it."""

    id: str
    what: str
    finding: Finding
    accused: int
    sound_runs: int


def selftest(seed: int = 0, defects: tuple[Defect, ...] = DEFECTS) -> Iterator[Row]:
    """Audit each defect and its twin; rows come as they are done."""
    for index, defect in enumerate(defects):
        finding = defect.check(True, np.random.default_rng([seed, index, 0]))
        accused = sum(
            defect.check(False, np.random.default_rng([seed, index, 1, run])).rejected
            for run in range(defect.repeats)
        )
        yield Row(defect.id, defect.what, finding, accused, defect.repeats)


def passed(rows: list[Row]) -> bool:
    """All defects found, and at most 5 % of the sound runs accused."""
    return all(row.finding.rejected for row in rows) and sum(
        r.accused for r in rows
    ) <= ALLOWED * sum(r.sound_runs for r in rows)
