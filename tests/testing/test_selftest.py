"""The auditor finds every known defect and rejects no correct reference."""

import pytest

from leakbound.testing import DEFECTS, passed, selftest
from leakbound.testing.leaks import EVENTS

pytest.importorskip("torch")


def test_every_defect_is_found_with_at_most_5_percent_of_false_alarms() -> None:
    rows = list(selftest(seed=1))
    missed = [(row.id, row.finding.evidence) for row in rows if not row.finding.rejected]
    assert not missed
    assert sum(row.reference_runs for row in rows) >= 200
    assert passed(rows)


def test_ids_are_unique_and_described() -> None:
    assert len({d.id for d in DEFECTS}) == len(DEFECTS)
    assert all(d.what.endswith(".") for d in DEFECTS)
    assert {d.id for d in DEFECTS} >= set(EVENTS)


def test_a_miss_fails_the_self_test() -> None:
    rows = list(selftest(defects=tuple(d for d in DEFECTS if d.id == "delta-once")))
    assert passed(rows)
    broken = [type(rows[0])(rows[0].id, rows[0].what, type(rows[0].finding)(False, 0, ""), 0, 1)]
    assert not passed(broken)
