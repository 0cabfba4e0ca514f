"""Bounds from scores of any tool: what applies to which trials, and that bounds are bounds."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.errors import UsageError
from leakbound.estimators import ScoredTrials, score_bounds
from leakbound.estimators.base import ACCURACIES
from leakbound.estimators.random_guessing import power_against_guessing
from leakbound.estimators.score_bounds import choose_threshold
from leakbound.stats import BestOnSameData, Bonferroni, Fixed, Split, clopper_pearson
from leakbound.stats.counts.one_run import Ranked

SEEN = np.r_[np.ones(90), np.zeros(10)], np.r_[np.ones(10), np.zeros(90)]


def test_bounds_are_those_of_the_estimators_at_the_same_counts() -> None:
    found = score_bounds(ScoredTrials(*SEEN), 1e-5, rule=Fixed(0.5))
    expected = clopper_pearson(90, 10, 10, 90, 1e-5, threshold="fixed at 0.5")
    assert found.estimate("clopper_pearson") == expected
    assert found.counts["pairs"] == 100


@pytest.mark.parametrize(
    ("design", "there", "absent"),
    [
        ("unpaired", {"e_process", "clopper_pearson", "accuracy_bound"}, "one_run"),
        ("paired", {"e_process", "clopper_pearson", "gdp"}, "unconditional"),
        ("one_run", {"one_run"}, "clopper_pearson"),
    ],
)  # fmt: skip
def test_only_what_the_design_allows_is_stated(design, there, absent) -> None:  # type: ignore[no-untyped-def]
    found = score_bounds(ScoredTrials(*SEEN, design))
    assert there <= {one.method for one in found.estimates}
    assert found.left_out[absent]
    with pytest.raises(UsageError, match="does not apply to these scores"):
        found.estimate(absent)


def test_sides_of_unequal_size_keep_all_their_trials() -> None:
    found = score_bounds(ScoredTrials(np.ones(40), np.zeros(400)), rule=Fixed(0.5))
    assert found.estimate("clopper_pearson").counts == {"tp": 40, "fn": 0, "fp": 0, "tn": 400}
    assert found.counts["pairs"] == 40
    assert "accuracy_bound" in found.left_out


def test_the_trials_that_choose_a_threshold_enter_no_bound() -> None:
    trials = ScoredTrials(np.arange(50.0) + 100, np.arange(50.0), in_order=True)
    chosen, tested = choose_threshold(trials, Split(0.2))
    assert tested.member.min() == 110
    assert tested.sizes == (40, 40)
    assert chosen.tau == pytest.approx((100 + 9) / 2)
    with pytest.raises(UsageError, match="leave none to choose a threshold on"):
        choose_threshold(ScoredTrials(np.ones(3), np.zeros(3)), Split(0.2))
    with pytest.raises(UsageError, match="gives no valid bound"):
        score_bounds(trials, rule=BestOnSameData())


def test_several_thresholds_share_the_error() -> None:
    found = score_bounds(ScoredTrials(*SEEN), rule=Bonferroni((0.2, 0.5)))
    alone = clopper_pearson(90, 10, 10, 90, 0.0, 0.975).epsilon
    assert found.estimate("clopper_pearson").epsilon == alone
    assert found.largest("clopper_pearson") == clopper_pearson(100, 0, 0, 100, 0.0, 0.975).epsilon


def test_the_order_of_a_file_shows_nothing_unless_the_user_says_so() -> None:
    """Two sides that are sorted in opposite directions foretell the later pairs."""
    rng = np.random.default_rng(5)
    member, nonmember = np.sort(rng.normal(size=200))[::-1], np.sort(rng.normal(size=200))
    trusted = score_bounds(ScoredTrials(member, nonmember, in_order=True), rule=Fixed(0.0))
    assert (trusted.estimate("e_process").epsilon or 0) > 0.1
    shuffled = score_bounds(ScoredTrials(member, nonmember), rule=Fixed(0.0))
    assert shuffled.estimate("e_process").epsilon == 0


def test_equal_scores_tell_ranks_nothing() -> None:
    """Members stand first in most files; of equal scores, the first are not taken for members."""
    found = score_bounds(ScoredTrials(np.zeros(100), np.zeros(100), "one_run"), rule=Ranked(1.0))
    assert 60 < found.estimate("one_run").counts["correct"] < 140
    assert found.estimate("one_run").epsilon == 0


def test_infinite_scores_are_scores_and_nan_is_none() -> None:
    ends = np.repeat([np.inf, 0.0], 20), np.repeat([-np.inf, 0.0], 20)
    assert (score_bounds(ScoredTrials(*ends)).estimate("clopper_pearson").epsilon or 0) > 0
    with pytest.raises(UsageError, match="NaN"):
        ScoredTrials(np.array([np.nan]), np.zeros(1))


def test_the_power_against_random_guessing_grows() -> None:
    for method in ("e_process", "clopper_pearson", "one_run"):
        chances = [power.chance for _, power in power_against_guessing(method, 40)]
        assert len(chances) == len(ACCURACIES)
        assert chances == sorted(chances)
        assert chances[-1] > 0.99
    assert power_against_guessing("joint_beta", 60) == ()


@pytest.mark.parametrize("sizes", [(900, 100), (600, 400), (30, 300)])
def test_records_of_one_run_are_put_in_by_fair_coins(sizes: tuple[int, int]) -> None:
    """Always guessing the larger kind is right more often than a coin, without any leak."""
    rng = np.random.default_rng(0)
    trials = ScoredTrials(rng.normal(size=sizes[0]), rng.normal(size=sizes[1]), "one_run")
    with pytest.raises(UsageError, match="are not drawn by fair coins"):
        score_bounds(trials)
    score_bounds(ScoredTrials(rng.normal(size=520), rng.normal(size=480), "one_run"))
