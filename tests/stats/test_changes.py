"""What change of a rate the exact test sees: against the test itself, and monotone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from leakbound.errors import UsageError
from leakbound.stats import rank_test
from leakbound.stats.counts.two_samples import (
    MOST,
    POWER,
    change_power,
    detectable_change,
    detectable_share,
    trials_for_change,
)


def slow_power(trials: int, rate: float, other: float, level: float) -> float:
    """The sum over all counts, each tested by `rank_test`."""
    total = 0.0
    for a in range(trials + 1):
        for b in range(trials + 1):
            one, two = [1.0] * a + [0.0] * (trials - a), [1.0] * b + [0.0] * (trials - b)
            if rank_test(one, two, two_sided=True) <= level:
                total += float(binom.pmf(a, trials, rate) * binom.pmf(b, trials, other))
    return total


@pytest.mark.parametrize("trials", [1, 5, 12])
@pytest.mark.parametrize(("rate", "other"), [(0.9, 0.1), (0.5, 0.5), (1.0, 0.0), (0.3, 0.0)])
def test_power_is_that_of_the_test_itself(trials: int, rate: float, other: float) -> None:
    expected = slow_power(trials, rate, other, 0.05)
    assert change_power(trials, rate, other, 0.05) == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 120), st.floats(1e-5, 0.2))
def test_what_is_detectable_is_detected_and_little_less_is_not(trials: int, level: float) -> None:
    change, share = detectable_change(trials, level), detectable_share(trials, level)
    if math.isinf(change):
        assert change_power(trials, 1.0, 0.0, level) < POWER
        return
    assert change_power(trials, (1 + change) / 2, (1 - change) / 2, level) >= POWER
    assert change_power(trials, share, 0.0, level) >= POWER
    less = change - 1e-3
    assert change_power(trials, (1 + less) / 2, (1 - less) / 2, level) < POWER
    assert change_power(trials, share - 1e-3, 0.0, level) < POWER


@pytest.mark.parametrize("level", [0.05, 1e-4])
@pytest.mark.parametrize("change", [0.2, 0.46, 0.9])
def test_so_many_trials_see_it_up_to_the_most_that_are_counted(change: float, level: float) -> None:
    number = trials_for_change(change, level)
    assert number == MOST or detectable_change(number, level) <= change
    assert number == MOST or detectable_change(number - 1, level) > change


def test_more_trials_than_are_counted_are_those_that_are_counted() -> None:
    assert change_power(10**9, 0.6, 0.5, 0.05) == change_power(MOST, 0.6, 0.5, 0.05)
    assert trials_for_change(0.0, 0.05) == MOST


@pytest.mark.parametrize(
    "bad", [(-1, 0.5, 0.5, 0.05), (3, 1.5, 0.5, 0.05), (3, 0.5, np.nan, 0.05), (3, 0.5, 0.5, 2.0)]
)
def test_other_numbers_are_refused(bad: tuple[int, float, float, float]) -> None:
    with pytest.raises(UsageError, match="must be"):
        change_power(*bad)
