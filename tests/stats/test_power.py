"""Power before any trial: exact at any number of pairs, against a slow twin."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from leakbound.errors import UsageError
from leakbound.stats import (
    Assumption,
    binomial_upper,
    clopper_pearson,
    clopper_pearson_power,
    largest_certifiable_epsilon,
)

EPSILON = st.floats(0.0, 6.0)


def slow_power(
    n: int, true_epsilon: float, epsilon: float, delta: float, hit: float, alarm: float
) -> float:
    """Every pair of error counts, one by one."""
    k, p = np.arange(n + 1), 1 / (1 + math.exp(-true_epsilon))
    misses = binom.pmf(k, n, 1 - p * hit - (1 - p) * alarm)
    alarms = binom.pmf(k, n, (1 - p) * hit + p * alarm)
    upper, slope = binomial_upper(k, n, 0.025), math.exp(epsilon)
    rejects = (1 - upper[:, None] - delta > slope * upper) | (
        1 - upper - delta > slope * upper[:, None]
    )
    return float(misses @ rejects @ alarms)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 600), EPSILON, EPSILON, st.sampled_from([0.0, 1e-5, 0.01]),
    st.sampled_from([1.0, 0.9, 0.4]), st.sampled_from([0.0, 0.02, 0.3]),
)  # fmt: skip
def test_power_equals_the_sum_over_all_counts(
    n: int, true_epsilon: float, epsilon: float, delta: float, hit: float, alarm: float
) -> None:
    found = clopper_pearson_power(
        n, true_epsilon, epsilon, delta, assumption=Assumption(hit, alarm)
    )
    slow = slow_power(n, true_epsilon, epsilon, delta, hit, alarm)
    assert found == pytest.approx(slow, abs=1e-11)


def test_rates_that_are_none_are_refused() -> None:
    for wrong in (-0.1, 1.1, math.nan):
        with pytest.raises(UsageError, match="hit is"):
            Assumption(hit=wrong)
        with pytest.raises(UsageError, match="false_alarm is"):
            Assumption(false_alarm=wrong)


@pytest.mark.parametrize("pairs", [4000, 5000, 10_000, 100_000, 1_000_000])
def test_many_pairs_reject_a_false_claim_for_certain(pairs: int) -> None:
    """Counts used to be cut at 2,000, so the power fell to 0.00 where it is 1.00."""
    assert clopper_pearson_power(pairs, 2.0, 1.0) > 1 - 1e-9
    assert clopper_pearson_power(pairs, 0.9, 1.0) < 0.05
    assert clopper_pearson_power(pairs, math.inf, 1.0) > 1 - 1e-9


@pytest.mark.parametrize(("true_epsilon", "epsilon"), [(1.1, 1.0), (2.0, 1.0), (4.0, 2.0)])
def test_power_rises_with_every_doubling_of_the_pairs(true_epsilon: float, epsilon: float) -> None:
    power = [clopper_pearson_power(10 * 2**i, true_epsilon, epsilon) for i in range(17)]
    assert np.diff(power).min() > -1e-9
    assert power[-1] > 0.999


def test_power_falls_between_neighbouring_numbers_only_by_a_count() -> None:
    """Counts are whole numbers: the power is a saw, and its teeth are small."""
    power = [clopper_pearson_power(n, 2.0, 1.0) for n in range(1, 400)]
    assert (np.maximum.accumulate(power) - power).max() < 0.05


def test_the_largest_certifiable_epsilon_is_that_of_a_perfect_attack() -> None:
    assert largest_certifiable_epsilon(0) == 0.0
    assert largest_certifiable_epsilon(40, 1e-5) == clopper_pearson(40, 0, 0, 40, 1e-5).epsilon
    n = next(n for n in range(1, 200) if largest_certifiable_epsilon(n, 1e-5) > 3.0)
    assert largest_certifiable_epsilon(n, 1e-5) > 3.0 >= largest_certifiable_epsilon(n - 1, 1e-5)
    assert clopper_pearson_power(n, math.inf, 3.0, 1e-5) == pytest.approx(1.0)
    assert clopper_pearson_power(n - 1, math.inf, 3.0, 1e-5) == 0.0
