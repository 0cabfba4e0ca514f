"""Estimators as values: what they refuse, what they could certify, and their power."""

from __future__ import annotations

import math
from typing import Any

import pytest

from leakbound.auditing import make_spec
from leakbound.errors import UsageError
from leakbound.estimators import (
    ESTIMATORS,
    REPORTED,
    AccuracyLogOdds,
    Claim,
    ClopperPearson,
    EProcess,
    JointBeta,
    Observations,
    TrialDesign,
    VoteBand,
    require_deciding,
)
from leakbound.mechanisms import ReportNoisyMax
from leakbound.privacy import Gaussian
from leakbound.stats import BestOnSameData, Bonferroni, Split
from leakbound.stats.noise.votes import epsilon_in_reach

PLAIN = TrialDesign(Claim(1.0, 1e-5), pairs=60)


def votes(epsilon: float, partitions: int, pairs: int) -> TrialDesign:
    made = ReportNoisyMax.calibrated(epsilon, 1e-5, partitions)
    claim = Claim(epsilon, 1e-5)
    return TrialDesign(claim, made.guarantee, pairs=pairs, sigma=made.sigma, voters=partitions)


def changed(design: TrialDesign, **values: Any) -> TrialDesign:
    from dataclasses import replace

    return replace(design, **values)


def test_the_catalogue_holds_what_may_decide() -> None:
    assert list(ESTIMATORS) == [
        "e_process", "clopper_pearson", "vote_band", "unconditional",
    ]  # fmt: skip
    assert [one.name for one in REPORTED] == [
        "e_process", "clopper_pearson", "accuracy_bound", "joint_beta", "accuracy_log_odds",
        "vote_band", "exact",
    ]  # fmt: skip
    assert all(kind() == kind() for kind in ESTIMATORS.values())


def test_an_unknown_name_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="Did you mean 'e_process'"):
        make_spec({"estimator": "e_proces"})


@pytest.mark.parametrize(
    ("estimator", "values", "sentence"),
    [
        (ClopperPearson(), {"early_stop": True}, "stop_when_rejected needs an anytime-valid"),
        (VoteBand(), {"early_stop": True}, "stop_when_rejected needs an anytime-valid"),
        (ClopperPearson(), {"rule": BestOnSameData()}, "gives no valid bound; use --threshold"),
        (VoteBand(), {}, "vote_band needs votes under Gaussian noise and a query with two answers"),
        (VoteBand(), {"answers": 2}, "vote_band needs one output per trial; use --answers 1"),
        (JointBeta(), {}, "joint_beta gives a credible bound, and only a lower bound decides"),
        (AccuracyLogOdds(), {}, "accuracy_log_odds gives a point estimate, and only a lower bound"),
        (EProcess(), {"claim": Claim(800.0, 1e-5)}, "states nothing that a trial could reject"),
    ],
)
def test_what_cannot_decide_is_refused_before_any_call(
    estimator: Any, values: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        require_deciding(estimator, changed(PLAIN, **values))


@pytest.mark.parametrize("pairs", [1, 3])
def test_a_design_needs_pairs_to_choose_on_and_to_test(pairs: int) -> None:
    with pytest.raises(UsageError, match="leave none to choose a threshold on, or none to test"):
        changed(PLAIN, pairs=pairs, rule=Split(0.2)).require_pairs()
    with pytest.raises(UsageError, match="use at least 2 pairs"):
        changed(PLAIN, pairs=pairs, pilot=pairs).require_pairs()


@pytest.mark.parametrize("estimator", [VoteBand()], ids=lambda one: one.name)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
@pytest.mark.parametrize("partitions", [2, 10])
def test_votes_that_keep_the_guarantee_are_not_inconclusive_for_ever(
    estimator: VoteBand, epsilon: float, partitions: int
) -> None:
    """One vote moves in every pair, all that a correct mechanism allows.

    Its bounds tend to the guarantee from below, and so did what was said to be certifiable.
    """
    design = votes(epsilon, partitions, 60)
    estimator.check(design)
    largest = estimator.largest_certifiable(design, 60)
    assert (largest.mu or 0.0) > (design.guarantee_mu or math.inf)
    needed = estimator.pairs_needed(design)
    assert needed is not None
    assert needed <= 60


def test_one_voter_is_all_that_the_guarantee_allows() -> None:
    with pytest.raises(UsageError, match="no vote of 1 can exceed the guarantee"):
        VoteBand().check(votes(1.0, 1, 60))
    too_much = changed(votes(1.0, 1, 60), claim=Claim(0.5, 1e-5))  # the claim can be rejected
    VoteBand().check(too_much)


@pytest.mark.parametrize(("sigma", "epsilon"), [(3.0, 4.0), (30.0, 1.0)])
def test_at_delta_0_a_claim_beyond_the_last_threshold_is_refused(
    sigma: float, epsilon: float
) -> None:
    """It was accepted, and inconclusive for ever: more pairs certified 2.098 of 4 at most."""
    design = changed(
        votes(1.0, 1, 60), claim=Claim(epsilon, 0.0), sigma=sigma,
        guarantee=Gaussian(math.sqrt(2), sigma),
    )  # fmt: skip
    with pytest.raises(UsageError, match="at delta 0 under this noise, with any number of pairs"):
        VoteBand().check(design)
    limit = epsilon_in_reach(math.sqrt(2) / sigma)
    largest = VoteBand().largest_certifiable(design, 2**18).epsilon
    assert largest < limit
    assert largest == pytest.approx(limit, rel=1e-3)
    VoteBand().check(changed(design, claim=Claim(0.99 * limit, 0.0)))


def test_pairs_that_choose_a_threshold_or_teach_the_score_enter_no_bound() -> None:
    design = changed(PLAIN, rule=Split(0.25), pilot=6)
    assert ClopperPearson().tested_pairs(design, 60) == 45
    assert EProcess().tested_pairs(design, 60) == 54
    assert VoteBand().tested_pairs(design, 60) == 60
    assert AccuracyLogOdds().tested_pairs(changed(design, rule=BestOnSameData()), 60) == 60


def test_limits_at_several_thresholds_share_the_error() -> None:
    design = changed(PLAIN, rule=Bonferroni((0.2, 0.5)))
    alone = ClopperPearson().largest_certifiable(PLAIN, 60)
    assert ClopperPearson().largest_certifiable(design, 60).epsilon < alone.epsilon


def test_power_and_pairs_needed_know_a_gaussian_guarantee() -> None:
    design = changed(PLAIN, guarantee=Gaussian(0.25, 1.0), levels=tuple(range(9)))
    chances = [EProcess().power(design, 60, leak).chance for leak in (1.0, 4.0, 20.0)]
    assert chances[0] < 0.1
    assert chances[1] < chances[2] == 1.0
    needed = EProcess().pairs_needed(design) or 0
    assert 2 < needed < 60
    assert (EProcess().largest_certifiable(design, 60).mu or 0.0) > 0.25


def test_power_of_many_pairs_costs_little_memory() -> None:
    """Audits that have rejected are dropped: 20,000 pairs are simulated to the end by none."""
    assert EProcess().power(changed(PLAIN, pairs=20_000), 20_000, 2.0).chance == 1.0


def test_an_estimator_that_reads_what_it_does_not_list_gets_a_sentence() -> None:
    seen = Observations(first=0, pairs=2)
    for part, word in (("trials", "trials"), ("votes", "votes"), ("texts", "text")):
        with pytest.raises(UsageError, match=f"add '{word}' to its reads"):
            getattr(seen, part)
