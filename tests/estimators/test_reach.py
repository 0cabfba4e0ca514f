"""What replies could certify where no score tells the contexts apart."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.estimators import EProcess, TrialDesign
from leakbound.estimators.base import Claim, ReplyPair
from leakbound.estimators.witness import reach_of_replies
from leakbound.witness import ReplyFacts

WORDS = ["open", "desk", "red", "late", "card", "note", "door", "lamp", "book", "tree"]


def shown(seed: int) -> list[tuple[ReplyPair, str]]:
    """Eight control pairs whose replies vary, and end in another way with the canary."""
    rng = np.random.default_rng(seed)

    def reply(reason: str | None) -> ReplyFacts:
        said = " ".join(rng.choice(WORDS, rng.integers(4, 12)))
        return ReplyFacts(f"{said}.", tokens=int(rng.integers(5, 9)), finish_reason=reason)

    return [((reply("error"), reply(None)), "canary") for _ in range(8)]


@pytest.mark.parametrize("seed", range(2))
def test_replies_can_certify_a_claim_of_two_with_enough_pairs(seed: int) -> None:
    """The stakes aim at the pairs that count, not at those that are left out."""
    design = TrialDesign(Claim(2.0, 1e-5), pairs=160, replies=True)
    assert reach_of_replies(design, EProcess(), 160, shown(seed)).epsilon > 2.0
    assert reach_of_replies(design, EProcess(), 40, shown(seed)).epsilon < 1.0


def test_nothing_is_certified_by_controls_that_say_nothing_or_by_too_few_pairs() -> None:
    design = TrialDesign(Claim(1.0, 1e-5), pairs=8, replies=True)
    assert reach_of_replies(design, EProcess(), 8, shown(0)).epsilon == 0
    assert reach_of_replies(design, EProcess(), 100, []).epsilon == 0
