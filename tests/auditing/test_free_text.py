"""Answers in free text: a witness learns what gives the canary away, beside the score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coins import says_yes
from leakbound_lab.planted.channels import ChannelSystem

import leakbound
from leakbound.tasks import Context

SEED = 1  # fixed: three of four such audits reject within 200 pairs, nearly all within 300
GIVEN: dict[str, Any] = {
    "query": "repeat", "epsilon": 0.25, "pairs": 300, "shots": 6, "simulations": 0,
    "stop_when_rejected": True, "state_check": 0.0,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("store_text", [pytest.param("all", marks=pytest.mark.slow), "canary_only"])
def test_refusals_give_a_canary_away(rows: Context, tmp_path: Path, store_text: Any) -> None:
    """On the old code: a bound of 0 in every run, whatever the seed."""
    system = ChannelSystem("refusal", seed=SEED)
    result = leakbound.audit(
        rows, system=system, seed=SEED, store_text=store_text, out=tmp_path, **GIVEN
    )
    assert result.verdict == "violation", str(result)
    assert (result.bound.epsilon or 0.0) > 0.25
    assert (result.estimate("clopper_pearson").epsilon or 0.0) == 0.0  # the score sees nothing


@pytest.mark.slow
def test_a_silent_system_is_not_accused(rows: Context, tmp_path: Path) -> None:
    system = ChannelSystem("refusal", seed=SEED, rates=(0.2, 0.2))
    result = leakbound.audit(rows, system=system, seed=SEED, out=tmp_path, **GIVEN)
    assert result.verdict != "violation"


class Longer:
    """Writes three sentences where the canary stands everywhere, and one where it does not stand;
    where it stands once, randomised response with epsilon log 2."""

    def answer(self, context: Context, query: str) -> str:
        quoted = query.split('"')[1]
        copies = sum(row.text.startswith(quoted) for row in context)
        three = says_yes(copies, quoted)
        return "It is noted. We will see. Best wishes." if three else "Best wishes."


@pytest.mark.slow
def test_a_control_may_be_seen_by_more_than_the_score(rows: Context, tmp_path: Path) -> None:
    given = {**GIVEN, "epsilon": 1.0, "controls": 40}
    few = leakbound.audit(rows, system=Longer(), out=tmp_path / "few", **{**given, "pairs": 24})
    assert (few.verdict, few.reason) == ("inconclusive", "too_few_trials")  # a witness has to learn
    result = leakbound.audit(rows, system=Longer(), out=tmp_path, **{**given, "pairs": 120})
    assert (result.verdict, result.reason) == ("no_violation", None)
    assert result.controls is not None
    assert (result.controls.p_value or 0.0) > 0.05
    assert (result.controls.witness or 1.0) < 0.05


class Wordy:
    """Says no to everything, and needs more tokens for it where the canary is."""

    def answer(self, context: Context, query: str) -> dict[str, object]:
        there = any(row.text == query.split('"')[1] for row in context)
        return {"text": "no", "tokens": 9 if there else 1}


@pytest.mark.slow
def test_metadata_beside_a_label_gives_a_canary_away(rows: Context, tmp_path: Path) -> None:
    """On the old code: no violation, and a bound of 0."""
    result = leakbound.audit(rows, system=Wordy(), pairs=60, shots=6, out=tmp_path, simulations=0)
    assert result.verdict == "violation", str(result)
