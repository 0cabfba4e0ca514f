"""What a bound was read from, and how an error is shared among what is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leakbound.estimators import (
    Claim,
    EProcess,
    FixedPairs,
    Observations,
    TrialDesign,
    Unconditional,
)
from leakbound.estimators.base import PairedScores
from leakbound.estimators.e_process import _weights
from leakbound.stats import BoundReading
from leakbound.witness import ReplyFacts

PAIRS = 400
SINGLE = TrialDesign(Claim(0.25, 1e-5), pairs=PAIRS, draws=1, independence="declared")


def answers(member: float, nonmember: float) -> PairedScores:
    rng = np.random.default_rng(1)
    return PairedScores(*((rng.random(PAIRS) < rate) * 1.0 for rate in (member, nonmember)))


def seen(trial: PairedScores, **more: Any) -> Observations:
    single = trial.map(lambda scores: scores[:, None])
    return Observations(0, PAIRS, trial_scores=trial, simulated_scores=single, **more)


def reading(design: TrialDesign, trial: PairedScores) -> BoundReading:
    observer = EProcess().begin(design)
    observer.observe(seen(trial))
    found = observer.bounds()[0].reading
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("rates", "leads"),
    [((0.02, 0.3), "The attack scores lower where the canary is."), ((0.3, 0.02), "")],
)
def test_answers_that_are_fewer_with_the_canary_are_said_to_be(
    rates: tuple[float, float], leads: str
) -> None:
    trial = answers(*rates)
    found = reading(SINGLE, trial)
    hits = (trial.member == 1).sum() + (trial.nonmember == 0).sum()
    assert (found.of, found.right, found.guesses) == ("score", hits // 2, PAIRS)
    assert found.leads == leads


def test_a_score_leads_where_no_code_is_quoted() -> None:
    quoting, trial = replace(SINGLE, code_chance=1e-9), answers(0.9, 0.05)
    assert reading(quoting, trial).of == "codes"
    assert reading(quoting, trial.map(lambda scores: 0.9 * scores)).of == "score"


def test_two_outputs_of_each_context_are_no_single_answers() -> None:
    trial = answers(0.9, 0.05)
    assert _weights(SINGLE, None, trial, 1).keys() == {"score", "product"}
    assert _weights(SINGLE, None, trial, 2) == {"score": 1.0}


def test_fixed_pairs_share_the_error_between_counts_and_replies() -> None:
    read = replace(SINGLE, replies=True)
    four_fifths = replace(SINGLE, confidence=0.96)
    for design, alone in ((SINGLE, SINGLE), (read, four_fifths)):
        found = FixedPairs().largest_certifiable(design, PAIRS)
        assert found == Unconditional().largest_certifiable(alone, PAIRS)


def test_fixed_pairs_read_whole_replies() -> None:
    observer = FixedPairs().begin(replace(SINGLE, replies=True))
    trial = answers(0.5, 0.5)
    replies = tuple(
        ((ReplyFacts("it is long " * 9), ReplyFacts("short")), f"canary {at}")
        for at in range(PAIRS)
    )
    observer.observe(seen(trial, reply_pairs=replies))
    best = max(observer.bounds(), key=lambda one: one.epsilon or 0.0)
    assert (best.epsilon or 0.0) > 1
    assert best.reading is not None
    assert best.reading.of == "replies"
