"""Privacy formulas: closed forms, inverses, rounding towards privacy, slow twins, dp-accounting as
an oracle.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from leakbound.errors import UsageError
from leakbound.privacy import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Composed,
    Gaussian,
    NonPrivate,
    PureDP,
    calibrate_gaussian,
    compose,
    gaussian_epsilon,
    gdp_delta,
    gdp_epsilon,
    gdp_trade_off,
    pure_composition_epsilon,
    self_compose,
    subsampled_gaussian_epsilon,
    trade_off,
    zcdp_epsilon,
)

EPS = st.floats(0.01, 12)
DELTA = st.floats(1e-12, 0.1)
MU = st.floats(0.01, 6)


@settings(max_examples=30)
@given(st.floats(0, 6), st.floats(0.2, 5))
def test_gdp_delta_is_the_integral(epsilon: float, mu: float) -> None:
    integral = quad(
        lambda x: max(norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), 0),
        -12,
        12 + mu,
        limit=400,
        points=[epsilon / mu + mu / 2],
    )
    assert gdp_delta(epsilon, mu) == pytest.approx(integral[0], abs=1e-7)


@given(EPS, DELTA)
def test_calibration_holds_and_is_tight(epsilon: float, delta: float) -> None:
    sigma = calibrate_gaussian(epsilon, delta)
    assert gdp_delta(epsilon, 1 / sigma) <= delta
    assert gdp_delta(epsilon, 1 / (sigma * (1 - 1e-6))) > delta
    assert gaussian_epsilon(sigma, 1.0, delta) <= epsilon * (1 + 1e-9)


@given(MU, DELTA)
def test_gdp_epsilon_is_an_upper_inverse(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    assert gdp_delta(epsilon, mu) <= delta
    assert epsilon == 0 or gdp_delta(epsilon * (1 - 1e-9), mu) >= delta * (1 - 1e-5)


@given(st.floats(0, 40), st.floats(0, 40), MU)
def test_gdp_delta_falls_with_epsilon(one: float, other: float, mu: float) -> None:
    low, high = sorted((one, other))
    assert gdp_delta(high, mu) <= gdp_delta(low, mu) * (1 + 1e-12)


def test_extremes() -> None:
    assert gdp_delta(1.0, 0.0) == 0
    assert gdp_epsilon(0.0, 0.0) == 0
    assert gdp_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(0.0, 1.0, 1e-5) == math.inf
    assert gdp_delta(np.array([0.0, 700.0]), 1.0).shape == (2,)  # type: ignore[union-attr]
    assert zcdp_epsilon(0, 0) == 0
    assert zcdp_epsilon(1, 0) == math.inf


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gdp_delta(-1, 1), "epsilon is -1; it must be"),
        (lambda: gdp_epsilon(1, 1), "delta is 1; it must be"),
        (lambda: calibrate_gaussian(1, 0), "needs a delta above 0"),
        (lambda: calibrate_gaussian(1, 1.0), "needs a delta above 0 and below 1"),
        (lambda: calibrate_gaussian(0, 1e-5), "epsilon is 0"),
        (lambda: calibrate_gaussian(1, 1e-5, -1), "sensitivity is -1"),
        (lambda: calibrate_gaussian(1, 1e-5, method="old"), "must be 'analytic' or 'classical'"),  # type: ignore[arg-type]
        (lambda: compose([]), "needs at least one"),
        (lambda: compose([PureDP(1), PureDP(1, "add_remove")]), "different neighbouring relations"),
        (lambda: gdp_delta(float("nan"), 1), "epsilon is nan"),
        (lambda: trade_off(PureDP(1), 2), "fpr is 2"),
        (lambda: pure_composition_epsilon(1, -1, 0), "count is -1"),
    ],
)
def test_bad_input_gets_a_sentence(call: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()  # type: ignore[operator]


@given(st.floats(0.05, 2), st.integers(1, 6), st.floats(0, 0.2))
def test_pure_composition_equals_enumeration(epsilon: float, count: int, delta: float) -> None:
    """All 2^k outcomes of randomised response, by hand."""
    p = 1 / (1 + math.exp(-epsilon))
    ones = [bin(i).count("1") for i in range(2**count)]
    mass = np.array([p**k * (1 - p) ** (count - k) for k in ones])
    other = np.array([(1 - p) ** k * p ** (count - k) for k in ones])
    got = pure_composition_epsilon(epsilon, count, delta)
    assert np.maximum(mass - math.exp(got) * other, 0).sum() <= delta + 1e-9
    if got > 1e-6 and delta > 0:
        assert np.maximum(mass - math.exp(got * (1 - 1e-4)) * other, 0).sum() >= delta - 1e-4


@given(EPS, st.integers(1, 60), st.floats(1e-9, 1e-2))
def test_compositions_never_exceed_the_basic_one(epsilon: float, count: int, delta: float) -> None:
    basic = count * epsilon
    assert pure_composition_epsilon(epsilon, count, delta) <= basic * (1 + 1e-9)
    assert self_compose(BoundedRange(epsilon), count).epsilon(delta) <= basic * (1 + 1e-9)


def test_gaussians_compose_in_mu_squared() -> None:
    both = compose([Gaussian(1, 2), Gaussian(1, 1)])
    assert both.epsilon(1e-5) == pytest.approx(gdp_epsilon(math.sqrt(1.25), 1e-5))
    assert compose([ZCDP(0.1), ZCDP(0.2)]).epsilon(1e-5) == pytest.approx(zcdp_epsilon(0.3, 1e-5))
    assert compose([PureDP(1), PureDP(2)]).epsilon(0) == 3
    assert isinstance(both, Composed)
    assert Composed((PureDP(1, "add_remove"),)).relation == "add_remove"


def test_delta_is_paid_by_every_part() -> None:
    many = compose([ApproxDP(0.1, 1e-6)] * 10)
    assert many.epsilon(1e-5) == pytest.approx(1.0)
    assert many.epsilon(0.9e-5) == math.inf


@given(MU, st.floats(0, 1))
def test_trade_off_of_a_gaussian_is_exact(mu: float, fpr: float) -> None:
    assert trade_off(Gaussian(mu, 1.0), fpr) == pytest.approx(float(gdp_trade_off(fpr, mu)))


@given(st.floats(0, 4), st.floats(0, 0.3), st.floats(0, 1))
def test_trade_off_of_a_claim_is_both_lines(epsilon: float, delta: float, fpr: float) -> None:
    tpr = float(trade_off(ApproxDP(epsilon, delta), fpr))
    assert tpr <= math.exp(epsilon) * fpr + delta + 1e-9
    assert 1 - fpr <= math.exp(epsilon) * (1 - tpr) + delta + 1e-9
    assert tpr >= fpr - 1e-9


def test_no_guarantee_allows_everything() -> None:
    assert float(trade_off(NonPrivate(), 0.0)) == 1
    assert NonPrivate().epsilon(0.5) == math.inf


@settings(max_examples=30)
@given(st.floats(0.4, 8), st.floats(1e-8, 1e-3))
def test_dp_accounting_agrees_on_gaussians(sigma: float, delta: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    oracle = pld.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-3
    ).get_epsilon_for_delta(delta)
    assert gaussian_epsilon(sigma, 1.0, delta) == pytest.approx(oracle, abs=5e-3)


def test_subsampling_equals_dp_accounting_and_amplifies() -> None:
    pytest.importorskip("dp_accounting")
    assert subsampled_gaussian_epsilon(1.0, 0.1, 10, 1e-5) < gaussian_epsilon(
        1.0, math.sqrt(10), 1e-5
    )
    assert subsampled_gaussian_epsilon(2.0, 1.0, 1, 1e-5) == pytest.approx(
        gaussian_epsilon(2.0, 1.0, 1e-5), abs=1e-3
    )
