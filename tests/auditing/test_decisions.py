"""How bounds, controls and replies become a verdict: tables of cases, and what must hold of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import leakbound
from leakbound.auditing.decide.decide import (
    largest_of,
    largest_seen,
    must_learn,
    reach_sentence,
)
from leakbound.auditing.decide.obstacles import (
    above_zero,
    blindness,
    channels_untested,
    conclude,
    controls_lost,
    noise_obstacles,
    obstacles,
    score_reading,
    sees_something,
    state_sentence,
    unread,
    unshown_sentence,
    without_blindness,
)
from leakbound.auditing.observe.controls import (
    ControlCheck,
    channels_shown,
    check_controls,
    of_all_channels,
    p_values_of,
)
from leakbound.auditing.observe.one_pass import Tally
from leakbound.auditing.observe.rejections import IN_ORDER, as_tested, rejections
from leakbound.auditing.observe.reply_separation import SeparationTest
from leakbound.errors import TargetError
from leakbound.estimators import (
    Bounds,
    Claim,
    ClopperPearson,
    EProcess,
    Exact,
    PairedScores,
    TrialDesign,
)
from leakbound.estimators.e_process import channel_design
from leakbound.estimators.error_counts import AccuracyBound
from leakbound.estimators.witness import reach_of_replies
from leakbound.privacy import Gaussian, NonPrivate, PureDP, gdp_epsilon
from leakbound.stats import Estimate, noise_goodness_of_fit, rank_test
from leakbound.tasks import Context
from leakbound.witness import ReplyFacts

IMPLIES, WEAK = Gaussian(1.0, 4.0), Gaussian(1.0, 1.0)  # of claim (1, 1e-5): implied, and not
ORDERED, TOGETHER = EProcess(), ClopperPearson()


def bound(
    epsilon: float | None, mu: float | None = None, kind: Any = "lower_bound", method: str = "m"
) -> Estimate:
    return Estimate(method, kind, epsilon, 1e-5, 0.95, {"pairs": 9}, (), mu=mu)


NONE = NonPrivate()


def design(guarantee: Any = NONE, **values: Any) -> TrialDesign:
    return TrialDesign(Claim(1.0, 1e-5), guarantee, **values)


# What bounds reject


@pytest.mark.parametrize(
    ("guarantee", "estimator", "epsilon", "mu", "rejected"),
    [
        (NonPrivate(), ORDERED, 1.0, 9.0, []),
        (NonPrivate(), ORDERED, 1.001, 0.0, ["claim"]),
        (IMPLIES, ORDERED, 1.5, 0.25, []),  # the guarantee comes first, and stands
        (IMPLIES, ORDERED, 0.5, 0.26, ["guarantee"]),
        (IMPLIES, ORDERED, 1.5, 0.26, ["guarantee", "claim"]),
        (WEAK, ORDERED, 0.5, 1.5, []),  # the claim comes first, and stands
        (WEAK, ORDERED, 1.5, 0.5, ["claim"]),
        (WEAK, ORDERED, 1.5, 1.5, ["claim", "guarantee"]),
        (IMPLIES, TOGETHER, 1.5, 0.25, ["claim"]),
        (WEAK, TOGETHER, 0.5, 1.5, ["guarantee"]),
        (IMPLIES, ORDERED, 1.5, None, ["claim"]),
        (PureDP(0.5), ORDERED, 0.6, 0.0, ["stated"]),
        (PureDP(0.5), ORDERED, 0.5 * (1 + 1e-7), 0.0, []),
        (PureDP(0.5), ORDERED, 0.5 * (1 + 1e-5), 0.0, ["stated"]),
        (PureDP(0.5), ORDERED, 1.1, 0.0, ["claim", "stated"]),
        (PureDP(1.0), ORDERED, 1.1, 0.0, ["claim"]),  # the claim itself, stated again
        (PureDP(1.0 + 1e-8), ORDERED, 1.1, 0.0, ["claim"]),
        (PureDP(1.0 - 1e-3), ORDERED, 1.1, 0.0, ["claim", "stated"]),
        (PureDP(2.0), ORDERED, 1.5, 0.0, ["claim"]),
    ],
)
def test_bounds_reject_what_is_tested_and_nothing_else(
    guarantee: Any, estimator: Any, epsilon: float, mu: float | None, rejected: Sequence[str]
) -> None:
    """In order, where bounds hold one by one; and, where they do so, none is above what stands."""
    made = design(guarantee)
    bounds = (bound(epsilon), *([] if mu is None else [bound(None, mu)]))
    words = {
        "claim": "exceeds the claimed epsilon",
        "guarantee": "the noise of the mechanism guarantees",
        "stated": "which the declared guarantee",
    }
    found = rejections(made, estimator, bounds)
    assert len(found) == len(rejected)
    assert all(words[what] in said for what, said in zip(rejected, found, strict=True))
    shown = as_tested(made, estimator, bounds)
    assert rejections(made, estimator, shown) == found
    if mu is None or estimator is TOGETHER or made.guarantee_mu is None:
        assert shown == bounds
        return
    last = made.hypotheses[1]
    stands = made.hypotheses[0] not in rejected
    assert shown[0].epsilon == (min(epsilon, 1.0) if stands and last == "claim" else epsilon)
    most = made.guarantee_mu or 0.0
    capped = stands and last == "guarantee" and mu > most
    assert shown[1].mu == (most if capped else mu)
    if capped:
        assert shown[1].details["implied_epsilon"] == gdp_epsilon(most, 1e-5)
    for one, other in zip(shown, bounds, strict=True):
        assert (IN_ORDER in one.assumptions) == ((one.epsilon, one.mu) != (other.epsilon, other.mu))


def test_random_guessing_is_rejected_by_any_bound_above_0() -> None:
    guess = TrialDesign(Claim(0.0, 0.0))
    assert rejections(guess, ORDERED, (bound(0.0),)) == []
    (said,) = rejections(guess, ORDERED, (bound(0.01),))
    assert "as random guessing does not" in said
    assert "at most 5%" in said


# The conclusion


@pytest.mark.parametrize(
    ("guarantee", "exact", "said"),
    [
        (PureDP(2.0), 1.01, "1 is claimed"),
        (PureDP(0.5), 0.51, "0.5 is guaranteed by the mechanism"),
        (PureDP(0.5), 0.5 * (1 + 1e-7), None),
        (NonPrivate(), 9.0, None),
        (PureDP(2.0), None, None),
        (PureDP(1.0), 1.2, "1 is claimed"),
    ],
)
def test_an_exact_loss_is_a_violation_of_what_is_stated(
    guarantee: Any, exact: float | None, said: str | None
) -> None:
    loss = None if exact is None else bound(exact, method="exact")
    found = conclude(design(guarantee), ORDERED, (bound(0.2),), loss, 40, Bounds(9.0, 9.0))
    assert found.verdict == ("no_violation" if said is None else "violation")
    assert found.by_exact == (said is not None)
    assert said is None or said in found.sentences[0]
    both = conclude(design(guarantee), ORDERED, (bound(1.5),), loss, 40, Bounds(9.0, 9.0))
    assert both.verdict == "violation"
    assert not both.by_exact


@pytest.mark.parametrize(
    ("guarantee", "largest", "by_replies", "said"),
    [
        (
            NonPrivate(),
            Bounds(1.0, 9.0),
            False,
            "can show at most ε = 1.00, even with a perfect attack; the claim is 1",
        ),
        (NonPrivate(), Bounds(0.9, None), True, "can show at most ε = 0.90, by whole replies"),
        (IMPLIES, Bounds(9.0, 0.25), False, "even with a perfect attack"),
        (NonPrivate(), Bounds(1.1, None), False, "the claim; 40 tested pairs could have certified"),
        (IMPLIES, Bounds(0.1, 0.3), False, "no bound is above the guarantee, which is stricter"),
        (WEAK, Bounds(1.1, 0.3), False, "no bound is above the claim; 40 tested pairs could"),
    ],
)
def test_no_violation_takes_pairs_that_could_have_shown_one(
    guarantee: Any, largest: Bounds, by_replies: bool, said: str
) -> None:
    given = (design(guarantee), ORDERED, (bound(0.0), bound(None, 0.0)), None, 40, largest)
    found = conclude(*given, (), by_replies)
    assert said in found.sentences[0]
    few = "perfect attack" in said or "at most" in said
    assert (found.verdict, found.reason) == (
        ("inconclusive", "too_few_trials") if few else ("no_violation", None)
    )
    assert few or ("mu" in found.sentences[0]) == (largest.mu is not None)
    if not by_replies:
        assert conclude(*given) == found
    why = ("stateful_system", "it remembers")
    against = conclude(*given, (why,), by_replies)
    assert (against.verdict, against.reason) == ("inconclusive", "stateful_system")
    assert against.sentences == ("it remembers", *(found.sentences if few else ()))
    one = conclude(*given[:4], 1, largest, (), by_replies).sentences[0]
    assert "1 tested pair" in one


BLIND, STATE = ("attack_blind", "blind"), ("stateful_system", "state")


@pytest.mark.parametrize(
    ("against", "kept"),
    [
        ((), ()),
        ((STATE,), (STATE,)),
        ((BLIND,), ("SOME",)),
        ((STATE, BLIND, BLIND), (STATE, "SOME", BLIND, BLIND)),
        ((STATE, "SOME", BLIND), (STATE, "SOME", "SOME", BLIND)),
        ((BLIND, "SOME", STATE), ("SOME", BLIND, STATE)),
    ],
)
def test_beside_a_bound_above_0_trials_are_too_few_and_no_attack_is_blind(
    against: Any, kept: Any
) -> None:
    some = sees_something(bound(0.3))
    given, wanted = (tuple(some if one == "SOME" else one for one in of) for of in (against, kept))
    assert without_blindness(None, given) == given
    if BLIND in given:
        found = without_blindness(bound(0.3), given)
        first = given.index(BLIND)
        assert found[: first + 1] == (*given[:first], some)
        assert set(given) <= {*found, some}
        assert found.count(some) - given[:first].count(some) == 1
    else:
        assert without_blindness(bound(0.3), given) == wanted


def test_the_first_lower_bound_above_0_is_that_of_epsilon() -> None:
    zero, mu, epsilon = bound(0.0, 0.0), bound(None, 0.4), bound(0.3)
    assert above_zero([zero, mu, epsilon]) == epsilon
    assert above_zero([zero, mu]) == mu
    assert above_zero([zero, bound(2.0, 2.0, "point_estimate"), bound(None)]) is None
    assert sees_something(mu)[1].startswith("mu is at least 0.40 (m)")
    exact = sees_something(bound(0.3, 0.1, method="exact"))[1]
    assert exact.startswith("epsilon is at least 0.30 (exact, if outputs are distributed")


def test_guesses_are_counted_where_a_method_counts_them() -> None:
    counted = Estimate(
        "clopper_pearson", "lower_bound", 1.0, 0.0, 0.95, {"tp": 5, "fn": 2, "fp": 1, "tn": 4}, ()
    )
    one = Estimate(
        "one_run", "lower_bound", 1.0, 0.0, 0.95, {"canaries": 9, "guesses": 7, "correct": 6}, ()
    )
    found = [score_reading(some) for some in ([counted], [counted, one], [bound(1.0)])]
    assert [(r.right, r.guesses) for r in found] == [(9, 12), (6, 7), (0, 0)]


@pytest.mark.parametrize(
    ("powers", "told"),
    [
        ([(0.6, 0.3), (0.7, 0.79), (0.8, 0.9), (0.9, 0.95)], ["70% 0.79", "80% 0.90"]),
        ([(0.6, 0.8), (0.7, 0.9)], ["60% 0.80"]),
        ([(0.6, 0.1), (0.7, 0.2)], ["70% 0.20"]),
    ],
)
def test_what_a_test_leaves_open_is_the_strongest_weak_and_the_weakest_strong_attack(
    powers: Any, told: list[str]
) -> None:
    words = "an attack that is right {} of the time with a probability of at least {}"
    wanted = ", and ".join(words.format(*one.split()) for one in told)
    assert unshown_sentence(powers).endswith(f": so many trials reject {wanted}.")
    assert "is not known for this design" in unshown_sentence([])


# Obstacles


def attack(query: str = "membership", free: bool = False, score: str | None = "label") -> Any:
    return SimpleNamespace(
        query=SimpleNamespace(name=query, free=free),
        score=None
        if score is None
        else SimpleNamespace(name=score, counts_unreadable=score == "unanswered"),
    )


SEEN, BLIND_CHECK = ControlCheck(8, 0.001, single=0.01), ControlCheck(8, 0.9)


@pytest.mark.parametrize(
    ("there", "elsewhere", "score", "apart"),
    [
        (2, 3, "label", None),  # a twentieth of all
        (3, 3, "label", False),
        (6, 0, "label", True),
        (0, 6, "label", True),
        (5, 1, "label", False),
        (50, 50, "unanswered", None),  # which reads them
        (50, 50, None, False),
    ],
)
def test_unreadable_answers_hide_a_leak_or_are_one(
    there: int, elsewhere: int, score: str | None, apart: bool | None
) -> None:
    tally = Tally()
    tally.answers, tally.unreadable = [50, 50], [there, elsewhere]
    found = obstacles(attack(score=score), tally, SEEN, None)
    assert [code for code, _ in found] == ([] if apart is None else ["unreadable_answers"])
    assert obstacles(attack(score=score), tally, ControlCheck(0, None, exempt=True), None) == ()
    if apart is None:
        return
    p = rank_test(*([1.0] * k + [0.0] * (50 - k) for k in (there, elsewhere)), two_sided=True)
    assert apart == (p <= 0.05)
    where = (
        f"{there} answers could not be read where the canary was in the context, and {elsewhere} "
        f"where it was not (p = {p:.2g})"
    )
    assert (where if apart else f"{there + elsewhere} of 100 answers") in found[0][1]


@pytest.mark.parametrize(
    ("check", "single_bound", "code", "said"),
    [
        (SEEN, None, None, ""),
        (ControlCheck(8, 0.06), None, "attack_blind", "(8 of each, p = 0.06)"),
        (ControlCheck(8, 0.06), 0.3, "too_few_trials", "epsilon is at least 0.30"),
        (ControlCheck(0, None), None, "attack_blind", "no control was asked"),
        (ControlCheck(0, None, exempt=True), None, None, ""),
        (replace(SEEN, late=0.05), None, None, ""),
        (replace(SEEN, late=0.06), None, "attack_blind", "no evidence that the system changed"),
        (replace(SEEN, late=0.06, changed=0.05), None, "stateful_system", "the system changed"),
        (replace(SEEN, late=0.06, changed=0.06), None, "attack_blind", "do not differ clearly"),
        (replace(SEEN, late=0.9, exempt=True), None, None, ""),
    ],
)
def test_an_attack_has_to_see_its_controls_at_first_and_at_last(
    check: ControlCheck, single_bound: float | None, code: str | None, said: str
) -> None:
    above = None if single_bound is None else bound(single_bound)
    found = [*controls_lost(check), *blindness(attack(), check, above, True)]
    assert [one for one, _ in found] == ([] if code is None else [code])
    assert code is None or said in found[0][1]


@pytest.mark.parametrize(
    ("check", "shown", "query", "said"),
    [
        (SEEN, False, "membership", None),
        (replace(SEEN, single=0.06), False, "membership", "Try --query recall --canary coded"),
        (replace(SEEN, single=0.06), False, "recall", "Try another --query, or --canary"),
        (replace(SEEN, single=None), False, "recall", "(p = 1;"),
        (replace(SEEN, single=0.06), True, "recall", None),
        (replace(SEEN, single=None, exempt=True), False, "recall", None),
        (ControlCheck(8, 0.5), False, "recall", None),  # which is blind, and says so
    ],
)
def test_an_attack_has_to_see_a_single_canary(
    check: ControlCheck, shown: bool, query: str, said: str | None
) -> None:
    found = [
        one for one in blindness(attack(query), check, None, shown) if one[0] != "attack_blind"
    ]
    assert [code for code, _ in found] == ([] if said is None else ["seen_only_in_bulk"])
    assert said is None or said in found[0][1]


@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("query", ["input_output", "membership"])
def test_advice_fits_the_query(free: bool, query: str) -> None:
    said = next(blindness(attack(query, free), ControlCheck(8, 0.5), None))[1]
    words = "try another --query" if free else {
        "input_output": "try --query membership", "membership": "--query input_output",
    }[query]  # fmt: skip
    assert words in said


def test_a_system_that_remembers_is_named_with_its_test() -> None:
    test = SimpleNamespace(name="order", p_value=0.0012)
    state: Any = SimpleNamespace(found=test, tests=[test] * 3, level=0.001)
    said = state_sentence(state) or ""
    assert "remembers: order (p = 0.0012; 3 tests, 0.001 for all)" in said
    assert "replicas that differ take turns" in said
    (found,) = obstacles(attack(), Tally(), SEEN, state)
    assert found[0] == "stateful_system"
    assert said in found[1]
    for nothing in (None, SimpleNamespace(found=None, tests=[], level=0.001)):
        assert state_sentence(nothing) is None  # type: ignore[arg-type]
        assert obstacles(attack(), Tally(), SEEN, nothing) == ()  # type: ignore[arg-type]


TOLD = SeparationTest(shown=[], in_pairs=False)
PAIRED = SeparationTest(shown=None, in_pairs=True)


@pytest.mark.parametrize(
    ("told", "estimator", "replies", "enough", "said"),
    [
        ({}, ORDERED, False, True, []),
        ({"answer": TOLD}, ORDERED, True, True, []),
        ({"answer": TOLD}, ORDERED, False, True, ["audit with --query recall"]),
        ({"answer": TOLD}, TOGETHER, True, True, ["clopper_pearson reads scores alone"]),
        ({"answer": PAIRED}, ORDERED, True, False, ["in one direction in more pairs"]),
        ({"a": replace(TOLD, in_pairs=True)}, ORDERED, True, False, []),
        ({"a": replace(TOLD, in_pairs=True)}, ORDERED, True, True, ["Compare the replies"]),
        ({"a": PAIRED, "b": TOLD}, TOGETHER, True, False, ["in one direction", "scores alone"]),
    ],
)
def test_replies_that_tell_more_than_what_is_read_are_an_obstacle(
    told: Any, estimator: Any, replies: bool, enough: bool, said: list[str]
) -> None:
    design = TrialDesign(Claim(0.0, 0.0), replies=replies)
    found = list(unread(told, estimator, design, enough))
    assert [code for code, _ in found] == ["attack_blind"] * len(said)
    assert all(words in one for words, (_, one) in zip(said, found, strict=True))
    if told == {"answer": PAIRED}:  # where a coin drew the order, it is read
        ((code, why),) = unread(told, estimator, replace(design, isolation=True), enough)
        assert code == "too_few_trials"
        assert "Use more --pairs" in why


@pytest.mark.parametrize(
    ("verdict", "by_replies", "told", "start"),
    [
        ("violation", True, {"a": TOLD}, None),
        ("inconclusive", True, {}, "only measurements of whole replies"),
        ("no_violation", False, {"a": TOLD}, "measurements of whole replies"),
        ("no_violation", False, {"a": PAIRED}, None),
    ],
)
def test_a_verdict_says_that_replies_show_more(
    verdict: Any, by_replies: bool, told: Any, start: str | None
) -> None:
    check = ControlCheck(8, 0.5, witness=0.001) if by_replies else SEEN
    found = reach_sentence(verdict, check, told)
    assert [one.startswith(str(start)) for one in found] == ([] if start is None else [True])


def test_channels_that_no_control_had_are_untested_if_all_are_wanted() -> None:
    assert list(channels_untested(("all",), ("a",), {"a"})) == []
    assert list(channels_untested(("a",), ("a",), {"a", "b"})) == []
    assert list(channels_untested(None, ("a",), {"a", "b"})) == []
    ((code, said),) = channels_untested(("all",), ("a",), {"c", "a", "b"})
    assert code == "untested_channels"
    assert "(b, c)" in said


def test_declared_noise_is_an_obstacle_to_what_takes_it_as_declared() -> None:
    made = design(WEAK, sigma=1.0)
    good = noise_goodness_of_fit(np.random.default_rng(0).normal(size=100), 1.0)
    bad = noise_goodness_of_fit(np.random.default_rng(0).normal(size=100) / 3, 1.0)
    rejecting: Any = {ORDERED: (bound(3.0), bound(None, 3.0))}
    fixed: Any = {TOGETHER: (bound(3.0), bound(None, 3.0)), ORDERED: ()}
    cases: list[tuple[Any, Any, list[str]]] = [
        (good, {}, []),
        (None, {}, ["could not be tested"]),
        (bad, {}, ["does NOT follow"]),
        (good, rejecting, ["e_process, which reads the outputs, rejects"]),
        (good, fixed, []),
        (bad, rejecting, ["does NOT follow", "e_process, which reads"]),
    ]
    for noise, found, said in cases:
        seen = noise_obstacles(made, Exact(), found, noise)
        assert [code for code, _ in seen] == ["declared_noise"] * len(said)
        assert all(words in one for words, (_, one) in zip(said, seen, strict=True))
        assert noise_obstacles(made, ORDERED, found, noise) == ()
    assert noise_obstacles(replace(made, sigma=None), Exact(), {}, None) == ()


# Controls

P = st.one_of(st.none(), st.sampled_from([0.01, 0.024, 0.026, 0.04, 0.05, 0.08, 0.3, 1.0]))


@given(P, P, P, P, st.booleans())
def test_a_control_is_seen_where_its_least_p_value_pays_for_their_number(
    score: float | None, witness: float | None, single: float | None, late: float | None,
    exempt: bool,
) -> None:  # fmt: skip
    check = ControlCheck(8, score, exempt, witness, late, single)
    known = [p for p in (score, witness) if p is not None]
    least = min(1.0, len(known) * min(known)) if known else None
    assert check.combined == least
    assert check.seen == (exempt or (least is not None and least <= 0.05))
    assert check.seen_once == (exempt or (single is not None and single <= 0.05))
    assert check.seen_late == (late is None or late <= 0.05)
    by_score = score is not None and score <= 0.025  # a half, as there are two tests
    alone = check.seen and not exempt and witness is not None and not by_score
    assert check.by_replies_alone == alone
    assert ControlCheck(8, score, changed=witness).shows_change == (
        witness is not None and witness <= 0.05
    )


CHANCES = st.sampled_from([0.01, 0.02, 0.03, 0.2, 1.0])


@given(P, P, CHANCES, CHANCES, st.sampled_from([None, 0.04, 0.3]))
def test_one_canary_is_seen_by_controls_or_by_trials(
    score: float | None, witness: float | None, trials: float, more: float, late: float | None
) -> None:
    single, throughout = ControlCheck(8, score, witness=witness), max(trials, more)
    first = replace(SEEN, late=late)
    unseen = ControlCheck(8, 0.5, late=late)
    if single.combined is None:
        assert first.beside(single, trials, throughout) == first
        return
    found = first.beside(single, trials, throughout)
    assert found.single == min(1.0, 2 * min(single.combined, trials))
    assert found.seen_late == (late != 0.3 or throughout <= 0.025)
    alone = unseen.beside(single, trials, throughout)
    assert alone.single == min(1.0, 2 * throughout)
    assert alone.shown == (throughout <= 0.025)


@pytest.mark.parametrize(
    ("first", "late", "wanted"),
    [
        ((0.01, None), [(0.04, None)], 0.04),
        ((0.01, None), [(0.07, 0.001)], 0.07),  # of a test that was not asked at first: none
        ((0.01, 0.02), [(0.03, 0.9)], 0.06),  # the better of two, and paid for
        ((0.02, 0.01), [(0.9, 0.03)], 0.06),
        ((None, 0.01), [(0.9, 0.03)], 0.03),
        ((0.01, 0.02), [(0.8, 0.9)], 1.0),
        ((0.01, None), [(None, 0.001)], 1.0),
        ((0.01, None), [], None),
        ((0.01, None), [(0.04, None), (0.02, None)], 0.04),
        ((0.01, None), [(0.11, None), (0.001, None)], 0.11),
        # two shards, one of them unsure: Fisher's combination
        ((0.01, None), [(0.1, None), (0.02, None)], chi2.sf(-2 * math.log(0.1 * 0.02), 4)),
        ((0.01, None), [(0.06, None), (0.06, None)], chi2.sf(-4 * math.log(0.06), 4)),
        ((0.01, None), [(0.06, None)], 0.06),
    ],
)
def test_late_controls_repeat_the_test_that_saw_the_canary(
    first: Any, late: Any, wanted: float | None
) -> None:
    check = ControlCheck(8, first[0], witness=first[1])
    found = check.followed_by([ControlCheck(8, p, witness=w) for p, w in late])
    assert found.late == (None if wanted is None else pytest.approx(wanted))
    assert found.changed is None


def test_gaps_of_late_controls_are_compared_with_those_of_the_first() -> None:
    first = ControlCheck(4, 0.01, gaps=(1.0, 1.0, 0.9, 1.0))
    late = [ControlCheck(4, 0.01, gaps=(0.0, 0.1)), ControlCheck(4, 0.01, gaps=(0.0, 0.2))]
    found = first.followed_by(late)
    assert found.changed == rank_test(first.gaps, [0.0, 0.1, 0.0, 0.2], True)
    unsure = first.followed_by([replace(one, p_value=0.06) for one in late])
    assert unsure.changed == found.changed
    assert unsure.late != found.late
    assert replace(first, gaps=()).followed_by(late).changed is None


def test_controls_compare_scores_and_gaps() -> None:
    scores = PairedScores(np.array([1.0, 1.0, 0.5]), np.array([0.0, 0.25, 0.5]))
    found = check_controls(scores, False)
    assert found.p_value == rank_test([1.0, 1.0, 0.5], [0.0, 0.25, 0.5])
    assert (found.pairs, found.gaps, found.witness) == (3, (1.0, 0.75, 0.0), None)
    two = check_controls(scores, False, two_sided=True)
    assert two.p_value == rank_test([1.0, 1.0, 0.5], [0.0, 0.25, 0.5], True)
    for nothing in (None, PairedScores(np.zeros(0), np.zeros(0))):
        assert check_controls(nothing, True) == ControlCheck(0, None, True)


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_every_measurement_is_compared_and_so_is_where_it_lacks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    member, nonmember = rng.integers(0, 3, (2, 6, 4)).astype(float)
    member[rng.random((6, 4)) < 0.3], nonmember[rng.random((6, 4)) < 0.3] = math.nan, math.nan
    member[:, 3], nonmember[:, 2] = math.nan, 1.0
    numbers, shown = p_values_of(member, nonmember)
    for at in range(4):
        both = [
            (a, b) for a, b in zip(member[:, at], nonmember[:, at], strict=True)
            if not (math.isnan(a) or math.isnan(b))
        ]  # fmt: skip
        high, low = [a for a, _ in both], [b for _, b in both]
        if len({*high, *low}) > 1:
            assert numbers[at] == rank_test(high, low, True)
        else:
            assert math.isnan(numbers[at])
        lacks = [np.isnan(side[:, at]).astype(float).tolist() for side in (member, nonmember)]
        somewhere, everywhere = any(map(any, lacks)), all(map(all, lacks))
        never = not any(a == b == 0 for a, b in zip(*lacks, strict=True)) and everywhere
        if somewhere and not never:
            both_lack = all(a and b for a, b in zip(*lacks, strict=True))
            if not both_lack:
                assert shown[at] == rank_test(*lacks, True)
        else:
            assert math.isnan(shown[at])


def test_channels_are_those_of_control_replies_in_a_fixed_order() -> None:
    def row(*names: str) -> Any:
        both = [SimpleNamespace(channels=dict.fromkeys(names)), SimpleNamespace(channels={})]
        return SimpleNamespace(both=both)

    seen = [row("zeta", "seconds"), row("alpha")]
    assert channels_shown(("all",), seen) == ("answer", "seconds", "alpha", "zeta")
    assert channels_shown(("zeta", "answer"), seen) == ("zeta", "answer")
    assert channels_shown(("none_yet",), []) == ("none_yet",)
    with pytest.raises(TargetError, match="has the channel 'beta'"):
        channels_shown(("alpha", "beta"), seen)


def test_all_channels_together_pay_for_their_number() -> None:
    checks = {
        "a": ControlCheck(8, 0.01, witness=0.3, late=0.2, single=0.02, changed=0.04),
        "b": ControlCheck(6, 0.5, late=0.9, single=0.5, changed=0.001),  # which did not see it
        "c": ControlCheck(8, 0.02, late=0.3, changed=0.5),
        "d": ControlCheck(8, None, witness=0.004),
    }
    found = of_all_channels(checks)
    assert (found.pairs, found.late) == (8, 0.3)
    assert found.p_value == pytest.approx(5 * 0.004)
    assert found.single == pytest.approx(2 * 0.02)
    assert found.changed == pytest.approx(2 * 0.04)
    assert of_all_channels({}) == ControlCheck(0, None)


# What could have been certified


def test_a_bound_is_never_above_what_could_have_been_certified() -> None:
    made: Any = SimpleNamespace(
        control_batch=lambda: [], design=design(pairs=30), seen=30,
        prepared=SimpleNamespace(estimator=ORDERED),
    )  # fmt: skip
    perfect = ORDERED.largest_certifiable(made.design, 30)
    assert largest_of(made, SEEN, {}, [bound(0.1), bound(None, 0.1)]) == perfect
    assert largest_of(made, SEEN, {}, [bound(9.0), bound(None, 7.0)]) == Bounds(9.0, 7.0)
    made.prepared.estimator = AccuracyBound()
    assert largest_of(made, SEEN, {}, [bound(9.0)]) == Bounds(9.0, None)
    channels = replace(made.design, channels=("answer", "log"))
    made.design, made.control_batch = channels, lambda: [()]
    for checks, wanted in (
        ({"answer": SEEN, "log": BLIND_CHECK}, channel_design(channels)),
        ({"answer": BLIND_CHECK, "log": SEEN}, channel_design(channels, "log")),
    ):
        made.channel_controls = lambda checks=checks: checks
        assert largest_of(made, SEEN, {}, []) == ORDERED.largest_certifiable(wanted, 30)
        assert must_learn(made, SEEN) is False
    made.channel_controls = lambda: {"answer": BLIND_CHECK, "log": BLIND_CHECK}
    assert largest_of(made, SEEN, {}, [bound(0.3)]) == Bounds(0.3, 0.0)
    made.channel_controls = lambda: {"answer": SEEN, "log": replace(BLIND_CHECK, witness=0.001)}
    assert must_learn(made, SEEN)


def bulk(context: Context, query: str) -> str:
    """Says more where an example stands twice, as the canary does in a control context."""
    many = len({row.text for row in context}) < len(context)
    return "The desk is open, and so is every door." if many else "Closed."


def test_trials_are_too_few_by_what_replies_tell_where_no_score_saw_the_controls(
    rows: Context, tmp_path: Path
) -> None:
    result = leakbound.audit(
        rows, system=bulk, query="repeat", pairs=10, shots=6, out=tmp_path, simulations=0
    )
    assert result.controls is not None
    assert result.controls.by_replies_alone
    assert result.verdict == "inconclusive"
    assert any(", by whole replies; the claim is" in one for one in result.sentences)


def replies(number: int) -> Any:
    """Pairs whose replies end in another way with the canary."""
    one, other = ReplyFacts("open desk.", finish_reason="error"), ReplyFacts("red card.")
    return [((one, other), "canary")] * number


@pytest.mark.slow
def test_replies_certify_what_they_could_have_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pairs that differ as the controls do, or, of those that are told apart, half as many."""
    made, pairs = design(pairs=80, replies=True), 80
    monkeypatch.setattr(
        "leakbound.auditing.decide.decide.replies_in", lambda batch, name: replies(8)
    )
    perfect = ORDERED.largest_certifiable(made, pairs)
    by_controls = reach_of_replies(made, ORDERED, 80, replies(8))
    by_half = reach_of_replies(replace(made, pairs=40), ORDERED, 40, replies(8))
    assert 0 < by_half.epsilon < by_controls.epsilon < perfect.epsilon
    told = {"answer": SeparationTest(replies(8), False)}
    for score, shown, wanted in (
        (0.001, {}, perfect),
        (0.001, told, by_half),
        (0.5, {}, by_controls),
        (0.5, told, by_half),
    ):
        check = ControlCheck(8, score, witness=0.001)
        assert largest_seen(made, ORDERED, pairs, check, [], shown) == wanted
        unread_replies = replace(made, replies=False)
        found = largest_seen(unread_replies, ORDERED, pairs, check, [], shown)
        assert found == ORDERED.largest_certifiable(unread_replies, pairs)
