"""Independence of the two answers of a pair: more evidence where it is declared or assumed, and
none beside state, or below a claim of 1.
"""

from __future__ import annotations

from typing import Any

import pytest
from stores import NearestStore

from leakbound import audit, plan
from leakbound.errors import UsageError

DECLARED = {"answers_independent": True}
DENIED = {"answers_independent": False}


def leaky(context: Any, query: str) -> str:
    canary = query.split('"')[1]
    return "yes" if any(canary in row.text for row in context) else "no"


def denying(context: Any, query: str) -> str:
    return "no" if leaky(context, query) == "yes" else "yes"


class Remembering:
    """Answers yes about what it was ever shown."""

    def __init__(self) -> None:
        self.seen = ""

    def __call__(self, context: Any, query: str) -> str:
        self.seen += " ".join(row.text for row in context)
        return "yes" if query.split('"')[1] in self.seen else "no"


@pytest.mark.slow
def test_declared_independence_shows_more_and_is_listed() -> None:
    plain = audit(system=leaky, epsilon=2.0, pairs=24, seed=1, settings=DENIED)
    declared = audit(system=leaky, epsilon=2.0, pairs=24, seed=1, settings=DECLARED)
    assert declared.verdict == "violation"
    assert (declared.bound.epsilon or 0) > (plain.bound.epsilon or 0)
    assert any("declared, not tested" in one for one in declared.bound.assumptions)
    assert not any("declared" in one for one in plain.bound.assumptions)
    assert (declared.reading.right, declared.reading.guesses) == (48, 48)


@pytest.mark.parametrize(("epsilon", "most"), [(4.0, 150)])
def test_a_claim_from_single_answers_takes_fewer_pairs(epsilon: float, most: int) -> None:
    less, more = (
        plan(system=leaky, epsilon=epsilon, pairs=100, settings=one).pairs_needed
        for one in ({}, DENIED)
    )
    assert less is not None
    assert more is not None
    assert less <= most < more


@pytest.mark.parametrize(("epsilon", "assumed"), [(0.9, False), (1.0, True), (4.0, True)])
def test_it_is_assumed_of_claims_from_1_on_and_said_so(epsilon: float, assumed: bool) -> None:
    result = audit(system=leaky, epsilon=epsilon, pairs=12, seed=1)
    assert any("(assumed, not tested)" in one for one in result.bound.assumptions) == assumed


@pytest.mark.slow
def test_a_system_with_state_gets_no_evidence_from_independence() -> None:
    """The state check rejects, so the product bet is 0 and the bound is what it leaves."""
    plain = audit(system=Remembering(), epsilon=1.0, pairs=40, seed=2, settings=DENIED)
    declared = audit(system=Remembering(), epsilon=1.0, pairs=40, seed=2, settings=DECLARED)
    assert any(one.code == "stateful_system" for one in declared.findings)
    assert (declared.bound.epsilon or 0) <= (plain.bound.epsilon or 0)


def test_a_system_that_says_no_where_the_canary_is_gets_a_bound_and_its_own_words() -> None:
    result = audit(system=denying, epsilon=1.0, pairs=24, seed=1, settings=DECLARED)
    assert result.verdict == "violation"
    assert (result.reading.right, result.reading.guesses) == (48, 48)
    assert "scores lower where the canary is" in str(result)
    alone = audit(system=denying, epsilon=1.0, pairs=24, seed=1, settings=DENIED)
    assert alone.verdict == "inconclusive"


def test_it_is_declared_of_an_application_and_for_an_epsilon() -> None:
    with pytest.raises(UsageError, match="whose contexts share no store"):
        plan(system=NearestStore(), design="session", settings=DECLARED)
    with pytest.raises(UsageError, match="read for a claimed epsilon"):
        plan(system=leaky, claim="random-guessing", settings=DECLARED)
