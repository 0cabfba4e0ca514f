"""Schedules of spends on SQLite: nothing overspends, no answer is lost, and defects are found."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from ledger_schedules import SETTINGS, Schedule

from leakbound.serving.ledger.storage import KeyFile


@pytest.mark.slow
def test_no_schedule_overspends_or_loses_an_answer() -> None:
    run_state_machine_as_test(Schedule, settings=SETTINGS)


def _forget(self: KeyFile, mark: Any) -> None:
    """No high-water mark."""


PLANTED: dict[str, tuple[str, Any]] = {
    "a mark is never raised": ("leakbound.serving.ledger.storage.KeyFile.raise_to", _forget),
    "an edit is not seen": ("leakbound.serving.ledger.tables.changes", lambda *args: iter(())),
}


@pytest.mark.slow
@pytest.mark.parametrize("defect", PLANTED)
def test_the_simulation_finds_a_planted_defect(
    monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    monkeypatch.setattr(*PLANTED[defect])
    with pytest.raises(BaseException, match=r"DID NOT RAISE|old copy|lost|<=|==|restored"):
        run_state_machine_as_test(Schedule, settings=settings(SETTINGS, phases=[Phase.generate]))
