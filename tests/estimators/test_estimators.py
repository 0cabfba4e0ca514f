"""Estimators as values: what they refuse, what they could certify, and their power."""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.auditing import make_spec
from leakbound.errors import UsageError
from leakbound.estimators import (
    ESTIMATORS,
    REPORTED,
    Claim,
    ClopperPearson,
    EProcess,
    Exact,
    Observations,
    TrialDesign,
    Unconditional,
    require_deciding,
)
from leakbound.estimators.error_counts import AccuracyBound, AccuracyLogOdds, JointBeta
from leakbound.privacy import Gaussian
from leakbound.stats import BestOnSameData, Bonferroni, Split

PLAIN = TrialDesign(Claim(1.0, 1e-5), pairs=60)


def changed(design: TrialDesign, **values: Any) -> TrialDesign:
    from dataclasses import replace

    return replace(design, **values)


def test_the_catalogue_holds_what_may_decide() -> None:
    assert list(ESTIMATORS) == [
        "e_process", "clopper_pearson", "unconditional", "fixed_pairs",
    ]  # fmt: skip
    assert [one.name for one in REPORTED] == [
        "e_process", "clopper_pearson", "accuracy_bound", "joint_beta", "accuracy_log_odds",
        "exact",
    ]  # fmt: skip
    assert all(kind() == kind() for kind in ESTIMATORS.values())


def test_an_unknown_name_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="Did you mean 'e_process'"):
        make_spec({"estimator": "e_proces"})


@pytest.mark.parametrize(
    ("estimator", "values", "sentence"),
    [
        (ClopperPearson(), {"early_stop": True}, "stop_when_rejected needs an anytime-valid"),
        (Unconditional(), {"early_stop": True}, "stop_when_rejected needs an anytime-valid"),
        (ClopperPearson(), {"rule": BestOnSameData()}, "gives no valid bound; use --threshold"),
        (Exact(), {"answers": 2}, "exact needs one output per trial; use --answers 1"),
        (AccuracyBound(), {"rule": Bonferroni()}, "accuracy_bound needs a single threshold"),
        (AccuracyBound(), {"rule": BestOnSameData()}, "gives no valid bound; use --threshold"),
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


def test_pairs_that_choose_a_threshold_or_teach_the_score_enter_no_bound() -> None:
    design = changed(PLAIN, rule=Split(0.25), pilot=6)
    assert ClopperPearson().tested_pairs(design, 60) == 45
    assert EProcess().tested_pairs(design, 60) == 54
    assert Exact().tested_pairs(design, 60) == 60
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
