"""The auditor finds every known defect and leaves the sound twins alone."""

import pytest

from leakbound.testing import DEFECTS, passed, selftest

pytest.importorskip("torch")


def test_every_defect_is_found_and_at_most_5_percent_of_sound_runs_accused() -> None:
    rows = list(selftest(seed=1))
    missed = [(row.id, row.finding.evidence) for row in rows if not row.finding.rejected]
    assert not missed
    assert sum(row.sound_runs for row in rows) >= 200
    assert passed(rows)


def test_ids_are_unique_and_described() -> None:
    assert len({d.id for d in DEFECTS}) == len(DEFECTS)
    assert all(d.what for d in DEFECTS)


def test_a_miss_fails_the_self_test() -> None:
    rows = list(selftest(defects=tuple(d for d in DEFECTS if d.id == "delta-once")))
    assert passed(rows)
    broken = [type(rows[0])(rows[0].id, rows[0].what, type(rows[0].finding)(False, 0, ""), 0, 1)]
    assert not passed(broken)
