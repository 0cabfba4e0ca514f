"""What is said of the controls agrees with what decided."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import leakbound
from leakbound.auditing import AuditResult
from leakbound.auditing.observe.controls import ControlCheck
from leakbound.report.audit.words import check_sentence


@pytest.mark.parametrize("bound", [0.0, 1.5])
@pytest.mark.parametrize("single", [1.0, 0.001])
@pytest.mark.parametrize("full", [1.0, 0.001])
def test_what_the_bound_shows_is_never_denied(bound: float, single: float, full: float) -> None:
    """A violation by whole replies said "and not clearly a single canary (p = 1)"."""
    checks = ControlCheck(8, full, single=single)
    result = SimpleNamespace(
        controls=checks, state=None, spec={}, bound=SimpleNamespace(epsilon=bound),
        counts={"pairs": 60},
    )  # fmt: skip
    said = check_sentence(cast(AuditResult, cast(Any, result)))
    seen = bound > 0 or single < 0.05
    assert ("not clearly detected" in said) == (not seen and "One copy" in said)
    if bound and full < 0.05:
        alone = "detected in the paired trials, but not clearly in its controls (p = 1)"
        assert (alone in said) == (single == 1.0)
        assert "although" not in said


def test_a_trial_says_how_much_of_a_reply_is_kept_and_not_how_long_it_was(tmp_path: Path) -> None:
    """A reply of 26 characters was shown as one of 1."""
    rows = [(f"note {at} of client {at * 7}", "") for at in range(60)]
    asked: dict[str, Any] = {"query": "recall", "canary": "coded", "task": "generation"}
    found = leakbound.audit(
        rows, system=lambda context, query: "x" * 26, pairs=8, out=tmp_path, **asked
    )
    assert all(" of it kept]" in text for one in found.trials for text in one.answers)
