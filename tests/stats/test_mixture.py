"""A mixture of e-processes: the mean of e-values of the same pairs, never of their maxima."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from leakbound.errors import UsageError
from leakbound.privacy import Gaussian
from leakbound.stats import EProcess, MixedEProcess
from leakbound.stats.e_values.stakes import Stakes

CLAIM = Gaussian(0.5, 1.0)


def parts(weights: tuple[float, float]) -> tuple[MixedEProcess, EProcess, EProcess]:
    one, other = EProcess(CLAIM, horizon=40), EProcess(CLAIM, horizon=40)
    named = {"one": (weights[0], one), "other": (weights[1], other)}
    return MixedEProcess(CLAIM, named), one, other


def test_the_mean_is_taken_after_each_pair_and_for_each_claim() -> None:
    mixed, one, other = parts((0.9, 0.1))
    rng = np.random.default_rng(0)
    one.extend((rng.random((40, 2)) < 0.4), (rng.random((40, 2)) < 0.4))
    other.extend((rng.random((40, 3)) < 0.9), (rng.random((40, 3)) < 0.1))
    mean = 0.9 * np.exp(one.log_e_values) + 0.1 * np.exp(other.log_e_values)
    assert mixed.log_e_values == pytest.approx(np.log(mean))
    mus = 0.2 * 1.01 ** np.arange(5)
    both = [np.exp(part.mu_paths(mus)) for part in (one, other)]
    assert np.exp(mixed.mu_paths(mus)) == pytest.approx(0.9 * both[0] + 0.1 * both[1])
    assert mixed.rejected_at == int(np.flatnonzero(mean >= 20)[0]) + 1


def test_maxima_of_different_pairs_are_not_added() -> None:
    """One part rises and falls before the other rises; each alone is far below the threshold."""
    mixed, one, other = parts((0.5, 0.5))
    up, down = np.full((6, 1), 0.9), np.full((6, 1), 0.1)
    one.extend(np.vstack([up, down]), np.vstack([down, up]))
    other.extend(np.vstack([down, up]), np.vstack([up, down]))
    top = [math.exp(float(part.log_e_values.max())) for part in (one, other)]
    assert math.exp(float(mixed.log_e_values.max())) < sum(top) / 2


def test_a_bound_is_that_of_the_mean_although_parts_are_left_out_where_one_is_enough() -> None:
    mixed, one, other = parts((0.9, 0.1))
    for part in (one, other):
        part.extend(np.full((40, 1), 0.9), np.full((40, 1), 0.1))
    assert mixed.mu_lower_bound().mu == one.mu_lower_bound().mu
    assert mixed.epsilon_lower_bound(1e-5).epsilon == one.epsilon_lower_bound(1e-5).epsilon


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": 0.0, "b": 0.5}, {"a": 0.7, "b": 0.4}])
def test_weights_that_are_none_are_refused(weights: dict[str, float]) -> None:
    given: dict[str, Any] = {name: (weight, EProcess(CLAIM)) for name, weight in weights.items()}
    with pytest.raises(UsageError, match="weights of a mixture"):
        MixedEProcess(CLAIM, given)


def test_parts_that_saw_different_pairs_are_refused() -> None:
    mixed, one, _ = parts((0.5, 0.5))
    one.update([1.0], [0.0])
    with pytest.raises(UsageError, match="give every pair to every part"):
        _ = mixed.log_e_values


def test_an_e_value_is_never_negative() -> None:
    stakes = Stakes(np.array([[[[0.0, -1.5, 0.0], [0.0, 0.0, 0.0]]]]), np.zeros((1, 1, 2), int))
    with pytest.raises(ArithmeticError, match="zero or negative"):
        stakes.growth(np.array([[0.0], [1.0]]), np.zeros((2, 1)), np.zeros(2, int))
