"""The guarantee of discrete Gaussian noise, against sums over all outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakbound.errors import UsageError
from leakbound.privacy import (
    DiscreteGaussian,
    Gaussian,
    calibrate_discrete_gaussian,
    calibrate_gaussian,
    compose,
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    discrete_gaussian_pmf,
    gdp_epsilon,
    self_compose,
    zcdp_epsilon,
)


def mass(x: int, sigma: float) -> float:
    """P(x) by the definition, slowly."""
    total = sum(math.exp(-(k**2) / (2 * sigma**2)) for k in range(-300, 301))
    return math.exp(-(x**2) / (2 * sigma**2)) / total


def brute_delta(epsilon: float, sigma: float, shift: tuple[int, int]) -> float:
    """sum of (P - e^epsilon Q)_+ over pairs of counts."""
    found, reach = 0.0, int(12 * sigma) + 5
    p = {x: mass(x, sigma) for x in range(-reach - 3, reach + 4)}
    for x in range(-reach, reach + 1):
        for y in range(-reach, reach + 1):
            there = p[x - shift[0]] * p[y - shift[1]]
            found += max(0.0, p[x] * p[y] - math.exp(epsilon) * there)
    return found


@pytest.mark.parametrize("sigma", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("shift", [(1, -1), (1, 0), (2, 1)])
def test_the_loss_of_two_counts_is_that_of_all_outcomes(
    sigma: float, shift: tuple[int, int]
) -> None:
    for epsilon in (0.0, 0.3, 1.0, 4.0):
        found = discrete_gaussian_delta(epsilon, sigma, shift)
        want = brute_delta(epsilon, sigma, shift)
        assert want <= found <= want * (1 + 1e-8) + 1e-15
    epsilon = discrete_gaussian_epsilon(sigma, shift, 1e-5)
    assert brute_delta(epsilon, sigma, shift) <= 1e-5
    assert brute_delta(epsilon * 0.999, sigma, shift) > 1e-5


def test_the_probabilities_are_those_of_the_definition() -> None:
    for sigma in (0.3, 1.0, 7.0):
        p = discrete_gaussian_pmf(sigma)
        assert p.sum() == pytest.approx(1.0, rel=1e-12)
        for x in (-2, 0, 1, 3):
            assert p[p.size // 2 + x] == pytest.approx(mass(x, sigma), rel=1e-11)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
def test_a_calibrated_sigma_keeps_its_claim_with_less_noise_than_zcdp_asks_for(
    epsilon: float,
) -> None:
    sigma = calibrate_discrete_gaussian(epsilon, 1e-5)
    made = DiscreteGaussian(sigma)
    assert epsilon * 0.999 < made.epsilon(1e-5) <= epsilon
    assert made.rho == pytest.approx(made.sensitivity**2 / (2 * sigma**2))
    assert made.epsilon(1e-5) < zcdp_epsilon(made.rho, 1e-5)
    if epsilon <= 1:  # where sigma is large, whole numbers make no difference
        assert sigma == pytest.approx(calibrate_gaussian(epsilon, 1e-5, math.sqrt(2)), rel=1e-3)


def test_answers_compose_by_moved_counts() -> None:
    one = DiscreteGaussian(8.0)
    nine = compose([one] * 9).epsilon(1e-6)
    assert nine == self_compose(one, 9).epsilon(1e-6) == DiscreteGaussian(8.0, 18).epsilon(1e-6)
    assert nine == pytest.approx(gdp_epsilon(math.sqrt(18) / 8, 1e-6), rel=1e-3)
    many = DiscreteGaussian(500.0, 10**5)  # a sum of too much noise: the bound of zCDP
    assert many.epsilon(1e-6) == zcdp_epsilon(many.rho, 1e-6)
    mixed = compose([one, one, Gaussian(1.0, 8.0)]).epsilon(1e-6)
    assert nine > mixed > compose([one, one]).epsilon(1e-6)


@pytest.mark.parametrize("shift", [(1,) * 200, (3,) * 22])
def test_a_sum_that_is_not_too_large_is_computed(shift: tuple[int, ...]) -> None:
    """26 * 40 * 14.1 values, of 16,384 at most; the bound of zCDP is a percent above."""
    found = discrete_gaussian_epsilon(40.0, shift, 1e-6)
    mu = math.sqrt(sum(step**2 for step in shift)) / 40
    assert found == pytest.approx(gdp_epsilon(mu, 1e-6), rel=1e-3)
    assert found < 0.995 * zcdp_epsilon(mu**2 / 2, 1e-6)


def test_nothing_moved_is_nothing_lost() -> None:
    assert discrete_gaussian_epsilon(1.0, (0, 0), 0.0) == 0.0
    assert discrete_gaussian_epsilon(1.0, (1,), 0.0) == math.inf
    assert discrete_gaussian_delta(0.0, 0.4, (60, -60)) == 1.0  # no output is common to both


def test_what_is_out_of_range_is_said() -> None:
    with pytest.raises(UsageError, match="sigma"):
        DiscreteGaussian(0.0)
    assert DiscreteGaussian(2.0, 1).sensitivity == 1.0
    with pytest.raises(UsageError, match="moves is 0; it must be at least 1"):
        DiscreteGaussian(1.0, 0)
    with pytest.raises(UsageError, match="delta is 0; Gaussian noise on counts needs a delta"):
        calibrate_discrete_gaussian(1.0, 0.0)


def test_large_counts_lose_what_gaussian_noise_loses() -> None:
    for sigma in (20.0, 45.0):
        found = DiscreteGaussian(sigma).epsilon(1e-6)
        assert found == pytest.approx(gdp_epsilon(math.sqrt(2) / sigma, 1e-6), rel=1e-3)
    assert np.isfinite(DiscreteGaussian(0.02).epsilon(1e-6))
