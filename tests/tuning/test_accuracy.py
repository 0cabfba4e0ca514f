"""What the pilot of a tuning reads: the audit's own score, at one threshold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from leakbound_lab.tuning import open_pilot, tune_spec
from leakbound_lab.tuning.pilot import right_shares

from leakbound.attacks import SCORES
from leakbound.auditing import make_spec
from leakbound.auditing.prepare.build import Handed
from leakbound.models import Counted, Scripted
from leakbound.tasks import Context

MARGIN, PREDICTED = SCORES["label_margin"](), SCORES["predicted_member"]()
SCORED = arrays(float, (3, 4), elements=st.integers(-3, 3).map(float))


@given(SCORED, SCORED)
def test_no_threshold_is_right_more_often(member: np.ndarray, nonmember: np.ndarray) -> None:
    """The slow twin tries every threshold there is."""
    found = sum(share.mean() for share in right_shares(member, nonmember, MARGIN)) / 2
    tried = [
        ((member >= at).mean() + (nonmember < at).mean()) / 2
        for at in (*np.unique([*member.ravel(), *nonmember.ravel()]), np.inf)
    ]
    assert found == pytest.approx(max(tried))
    assert found >= 0.5


@given(SCORED, SCORED)
def test_what_noise_adds_to_both_changes_nothing(member: np.ndarray, nonmember: np.ndarray) -> None:
    moved = right_shares(member + 2, nonmember + 2, MARGIN)
    for one, other in zip(right_shares(member, nonmember, MARGIN), moved, strict=True):
        np.testing.assert_array_equal(one, other)


def test_released_answers_have_a_fixed_threshold() -> None:
    ones, zeros = np.ones((2, 1)), np.zeros((2, 1))
    assert [s.tolist() for s in right_shares(ones, ones, PREDICTED)] == [[1, 1], [0, 0]]
    assert [s.tolist() for s in right_shares(zeros, zeros, PREDICTED)] == [[0, 0], [1, 1]]


def answers_one_wording(prompt: str) -> str:
    """Finds the canary if it is told to compare every example, and else says no."""
    asked = prompt.rpartition("Compare every example above with the text")[2]
    canary = asked.split('"')[1] if '"' in asked else ""
    return "yes" if canary and prompt.count(canary) > 1 else "no"


def test_one_vote_of_ten_is_enough_to_choose_a_query(rows: Context, tmp_path: Path) -> None:
    """No answer that is released shows it: nine partitions say no, whatever is asked."""
    spec = {
        "mechanism": "report_noisy_max", "mechanism.partitions": 10, "labels": ["odd", "plain"],
        "shots": 10, "epsilon": 8, "pairs": 20, "background_copies": 0,
    }  # fmt: skip
    given = Handed(model=Scripted(complete=answers_one_wording, name="comparing"), rows=rows)
    found = {
        access: tune_spec(
            make_spec(spec | {"access": access}), max_calls=2000, pairs=6, reflection="none",
            start="Think about {canary}: {member} or {nonmember}?", out=tmp_path / access,
            handed=given,
        )
        for access in ("white_box", "black_box")
    }  # fmt: skip
    white, black = found["white_box"], found["black_box"]
    assert white.best.startswith("Compare every example")
    assert white.after > white.before + 0.1
    assert black.after - black.before < 0.1


def test_wordings_are_compared_on_the_same_pairs(rows: Context, tmp_path: Path) -> None:
    """What is known of other pairs moves no threshold; one pair alone is read among all."""
    spec = {
        "mechanism": "report_noisy_max", "mechanism.partitions": 5, "labels": ["odd", "plain"],
        "shots": 10, "epsilon": 1, "pairs": 20, "access": "white_box",
    }  # fmt: skip
    model = Counted(Scripted(complete=answers_one_wording, name="comparing"))
    start = 'Compare every example above with the text "{canary}": {member} or {nonmember}?'
    pilot = open_pilot(
        make_spec(spec), start, 8, 2000, tmp_path, handed=Handed(model=model, rows=rows)
    )
    three = pilot.outcomes(start, [0, 1, 2])
    before = model.calls
    one = pilot.outcome(start, 0)
    assert model.calls > before  # the other five
    assert pilot.outcomes(start, range(8))[0] == one
    assert pilot.outcomes(start, [0, 1, 2]) == three
