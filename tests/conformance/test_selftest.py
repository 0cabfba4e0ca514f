"""The auditor finds every known defect and rejects no correct reference."""

import re
from pathlib import Path

import pytest
from commands import cli
from leakbound_lab.planted import DEFECTS, passes, selftest
from leakbound_lab.planted.defects import EVENTS

pytest.importorskip("torch")

pytestmark = [pytest.mark.process, pytest.mark.torch]


@pytest.mark.slow
def test_every_defect_is_found_with_at_most_5_percent_of_false_alarms(tmp_path: Path) -> None:
    done = cli("selftest", "--seed", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, last = done.stdout.splitlines()
    assert all(row.startswith("found ") for row in rows), rows
    assert [any(f"  {defect.id} " in row for row in rows) for defect in DEFECTS].count(False) == 0
    found, of, alarms, runs = map(int, re.findall(r"\d+", last))
    assert found == of == len(DEFECTS)
    assert runs >= 200
    assert alarms <= 0.05 * runs


def test_ids_are_unique_and_described() -> None:
    assert len({d.id for d in DEFECTS}) == len(DEFECTS)
    assert all(d.what.endswith(".") for d in DEFECTS)
    assert {d.id for d in DEFECTS} >= set(EVENTS)


SECOND = {
    "order-round-robin", "memory-of-uploads", "blind-classifier", "claim-not-tested",
    "constant-seed", "cached-noise", "reused-noise", "unnoised-majority", "stale-reuse",
    "shadowed-option", "free-text-channel",
}  # fmt: skip


def test_faults_of_whole_systems_are_audited_too() -> None:
    assert {d.id for d in DEFECTS} >= SECOND


def test_a_miss_fails_the_self_test() -> None:
    rows = list(selftest(defects=tuple(d for d in DEFECTS if d.id == "delta-once")))
    assert passes(rows)
    broken = [type(rows[0])(rows[0].id, rows[0].what, type(rows[0].finding)(False, 0, ""), 0, 1)]
    assert not passes(broken)
