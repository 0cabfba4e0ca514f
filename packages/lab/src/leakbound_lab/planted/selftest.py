"""The self-test: every known defect is audited, and its correct reference over many seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from leakbound_lab.planted.auditor import AuditorFinding
from leakbound_lab.planted.defects import DEFECTS, Defect

ALLOWED = 0.05  # share of false alarms that audits at 95 % confidence may raise


@dataclass(frozen=True, slots=True)
class Row:
    """One defect in the self-test.

    Attributes:
        id: Its short name.
        what: What is wrong, in a sentence.
        finding: What the audit of the broken fixture found.
        false_alarms: Audits of the correct reference that rejected it.
        reference_runs: Audits of the correct reference.
    """

    id: str
    what: str
    finding: AuditorFinding
    false_alarms: int
    reference_runs: int


def selftest(seed: int = 0, defects: tuple[Defect, ...] = DEFECTS) -> Iterator[Row]:
    """Audit each defect and its correct reference.

    Args:
        seed: Root of all randomness.
        defects: What is audited.

    Yields:
        One row for each defect, as soon as it is done.
    """
    for index, defect in enumerate(defects):
        finding = defect.check(True, np.random.default_rng([seed, index, 0]))
        false_alarms = sum(
            defect.check(False, np.random.default_rng([seed, index, 1, run])).rejected
            for run in range(defect.repeats)
        )
        yield Row(defect.id, defect.what, finding, false_alarms, defect.repeats)


def passes(rows: list[Row]) -> bool:
    """Whether the auditor passes its self-test.

    Args:
        rows: All rows.

    Returns:
        True if all defects are found, and at most 5 % of the reference runs are false alarms.
    """
    runs, alarms = sum(r.reference_runs for r in rows), sum(r.false_alarms for r in rows)
    return all(row.finding.rejected for row in rows) and alarms <= ALLOWED * runs
