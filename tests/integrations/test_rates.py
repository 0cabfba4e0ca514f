"""Anytime-valid bounds on a rate, and e-BH."""

from __future__ import annotations

import numpy as np
import pytest
from leakbound_hosts.rates import RateTest, e_benjamini_hochberg, plan_rate, rate_bounds

from leakbound.errors import UsageError
from leakbound.stats import binomial_lower


def test_a_true_claim_is_hardly_ever_rejected_by_looking_after_every_sample() -> None:
    """200 series at the limit itself; more than 28 rejections at 5 % have a chance below 1e-6."""
    rng, rejected = np.random.default_rng(0), 0
    for _ in range(200):
        test = RateTest(0.5)
        test.observe(rng.integers(0, 2, 100).astype(float))
        rejected += test.rejected
    assert rejected <= 28


def test_the_two_sides_mirror_each_other() -> None:
    scores = np.random.default_rng(1).random(80)
    above, below = RateTest(0.4), RateTest(0.6, "below")
    above.observe(scores)
    below.observe(1 - scores)
    assert above.log_e_values == pytest.approx(below.log_e_values)
    assert above.limit_beyond() == pytest.approx(1 - below.limit_beyond())


def test_bounds_hold_the_rate_and_cost_little() -> None:
    """Beside the exact bound for a number of samples that is fixed beforehand."""
    found = rate_bounds([1.0, 0.0, 1.0, 1.0, 1.0] * 100)
    assert found.lower < 0.8 < found.upper
    assert binomial_lower(400, 500, 0.025) - found.lower < 0.035
    empty = rate_bounds([])
    assert (empty.lower, empty.upper, empty.samples) == (0, 1, 0)


def test_one_look_says_what_many_say() -> None:
    scores = np.random.default_rng(2).random(60)
    one, many = RateTest(0.3), RateTest(0.3)
    one.observe(scores)
    for score in scores:
        many.observe([score])
    assert one.log_e_values == pytest.approx(many.log_e_values)


def test_a_plan_has_its_power() -> None:
    """400 other series; fewer than 320 rejections at a power of 0.9 have a chance below 1e-7."""
    planned, rng, rejected = plan_rate(0.9, 0.8, simulations=1000), np.random.default_rng(5), 0
    for _ in range(400):
        test = RateTest(0.9, "below")
        test.observe((rng.random(planned.most) < 0.8).astype(float))
        rejected += test.rejected
    assert rejected >= 320
    assert planned.mean < planned.most
    with pytest.raises(UsageError, match="not the limit"):
        plan_rate(0.5, 0.5)
    with pytest.raises(UsageError, match="farther away"):
        plan_rate(0.5, 0.502, simulations=10)


def test_several_claims_are_rejected_together() -> None:
    """The k-th largest e-value needs K/(k alpha); one that lacks it takes part in a larger k."""
    assert e_benjamini_hochberg([20.0]) == (True,)
    assert e_benjamini_hochberg([19.9]) == (False,)
    assert e_benjamini_hochberg([30.0, 1.0, 30.0]) == (True, False, True)
    assert e_benjamini_hochberg([30.0, 1.0, 29.0]) == (False, False, False)
    assert e_benjamini_hochberg([]) == ()


def test_what_is_no_rate_is_refused() -> None:
    with pytest.raises(UsageError, match="must be 'above' or 'below'"):
        RateTest(0.5, "beside")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        RateTest(0.0, "below")
    with pytest.raises(UsageError, match="between 0 and 1"):
        RateTest(0.5).observe([1.2])
    with pytest.raises(UsageError, match="alpha is 1"):
        e_benjamini_hochberg([1.0], 1)
    with pytest.raises(UsageError, match="negative or NaN"):
        e_benjamini_hochberg([float("nan")])
