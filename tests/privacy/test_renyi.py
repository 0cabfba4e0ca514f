"""Renyi differential privacy of one order, against enumeration and random distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbound.errors import UsageError
from leakbound.privacy import (
    RDP,
    Gaussian,
    PureDP,
    compose,
    compose_rdp,
    renyi_divergence,
    renyi_epsilon,
    renyi_of_two_steps,
    renyi_value,
    self_compose,
)

ORDERS = st.floats(1.05, 200.0)
DELTAS = st.sampled_from([1e-9, 1e-6, 1e-5, 1e-3])


def logs(*weights: float) -> np.ndarray:
    p = np.array(weights, float)
    with np.errstate(divide="ignore"):
        return np.log(p / p.sum())


def test_the_divergence_is_that_of_the_definition() -> None:
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.3, 0.1])
    for order in (1.5, 2.0, 17.0):
        want = math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
        assert renyi_divergence(np.log(p), np.log(q), order) == pytest.approx(want, rel=1e-12)
    assert renyi_divergence(logs(1, 1), logs(1, 1), 3.0) == pytest.approx(0.0, abs=1e-15)


def test_no_probability_is_clamped() -> None:
    assert renyi_divergence(logs(1, 1), logs(1, 0), 2.0) == math.inf
    assert renyi_divergence(logs(1, 0), logs(1, 1), 2.0) == pytest.approx(math.log(2))
    never = renyi_divergence(logs(1, 2, 0), logs(2, 1, 0), 2.0)  # an outcome of neither
    assert never == pytest.approx(renyi_divergence(logs(1, 2), logs(2, 1), 2.0))
    tiny = np.array([0.0, -2000.0])  # e^-2000 is no float, and its divergence is finite
    assert renyi_divergence(logs(1, 1), tiny, 2.0) == pytest.approx(2000 - 2 * math.log(2))


def binary_delta(order: float, value: float, epsilon: float) -> float:
    """The largest delta over pairs of two outcomes with a bounded divergence, by a grid."""
    p = np.concatenate([np.geomspace(1e-12, 0.5, 900), 1 - np.geomspace(0.5, 1e-9, 300)])
    low, high = np.full_like(p, -600.0), np.log(p)
    for _ in range(60):  # ln q, the smallest that the bound allows
        q = (low + high) / 2
        with np.errstate(all="ignore"):
            terms = np.logaddexp(
                order * np.log(p) + (1 - order) * q,
                order * np.log1p(-p) + (1 - order) * np.log1p(-np.exp(q)),
            )
        fits = terms / (order - 1) <= value
        low, high = np.where(fits, low, q), np.where(fits, q, high)
    return float((p - np.exp(epsilon + high)).max())


@pytest.mark.parametrize(
    ("order", "value", "delta"),
    [(2.0, 0.5, 1e-5), (2.0, 5.0, 1e-3), (1.2, 0.2, 1e-3), (12.0, 0.6, 1e-5), (64.0, 0.01, 1e-6)],
)
def test_the_conversion_is_valid_and_no_smaller_one_is(
    order: float, value: float, delta: float
) -> None:
    epsilon = renyi_epsilon(order, value, delta)
    assert binary_delta(order, value, epsilon) <= delta * (1 + 1e-6)
    assert binary_delta(order, value, 0.98 * epsilon) > delta


@given(ORDERS, st.floats(1e-4, 20.0), DELTAS)
def test_the_conversion_is_never_above_that_of_canonne_kamath_and_steinke(
    order: float, value: float, delta: float
) -> None:
    known = value + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    assert renyi_epsilon(order, value, delta) <= max(0.0, known) * (1 + 1e-8) + 1e-12


@pytest.mark.slow
@given(ORDERS, st.floats(0.01, 30.0), DELTAS)
def test_a_calibrated_divergence_keeps_its_claim(
    order: float, epsilon: float, delta: float
) -> None:
    value = renyi_value(order, epsilon, delta)
    assert 0 <= renyi_epsilon(order, value, delta) <= epsilon
    if value > 1e-3:  # below, rounding shows
        assert renyi_epsilon(order, value * 1.001, delta) > epsilon * (1 - 1e-6)


def test_gaussians_reach_what_is_known_of_two_steps() -> None:
    """N(-m, 1) and N(m, 1) around N(0, 1): the divergence of order a is a m^2/2."""
    for order in (1.5, 2.0, 8.0):
        at, bound = renyi_of_two_steps(order, order / 2)
        assert at * 2**2 / 2 / bound == pytest.approx(1 - 1 / (2 * order - 1) ** 2, rel=1e-12)


@given(st.lists(st.tuples(*[st.floats(-6, 6)] * 3), min_size=2, max_size=6), st.floats(1.1, 30.0))
def test_two_steps_are_never_longer_than_their_bound(
    rows: list[tuple[float, float, float]], order: float
) -> None:
    p, m, q = (np.log(np.exp(column) / np.exp(column).sum()) for column in np.array(rows).T)
    pairs = [(p, m), (m, p), (q, m), (m, q)]
    value = max(renyi_divergence(one, other, order) for one, other in pairs)
    at, bound = renyi_of_two_steps(order, value)
    assert renyi_divergence(p, q, at) <= bound * (1 + 1e-9) + 1e-12
    assert renyi_divergence(q, p, at) <= bound * (1 + 1e-9) + 1e-12


def test_divergences_add_and_delta_is_paid_once() -> None:
    part = RDP(8.0, 0.05)
    assert compose([part] * 10).epsilon(1e-5) == pytest.approx(RDP(8.0, 0.5).epsilon(1e-5))
    assert self_compose(compose([part] * 5), 2).epsilon(1e-5) == compose([part] * 10).epsilon(1e-5)
    assert compose_rdp([part, RDP(3.0, 0.1)]) == RDP(3.0, part.value + 0.1)
    mixed = compose([part, part, PureDP(0.5), Gaussian(1.0, 10.0)]).epsilon(1e-5)
    both = compose([PureDP(0.5), Gaussian(1.0, 10.0)]).epsilon(5e-6)
    assert both < 0.5 + Gaussian(1.0, 10.0).epsilon(5e-6)
    assert mixed == pytest.approx(RDP(8.0, 0.1).epsilon(5e-6) + both)


def test_what_is_out_of_range_is_said() -> None:
    for order in (1.0, math.inf, math.nan):
        with pytest.raises(UsageError, match=r"order is .*; it must be a finite number above 1"):
            RDP(order, 0.1)
    assert RDP(1e150, 0.1).order == 1e150
    with pytest.raises(UsageError, match="at most 1e"):
        RDP(1.1e150, 0.1)
    with pytest.raises(UsageError, match="under one neighbouring relation"):
        compose_rdp([RDP(2.0, 0.1), RDP(2.0, 0.1, "add_remove")])
    assert RDP(2.0, 0.1).epsilon(0.0) == math.inf
    assert RDP(2.0, 0.0).epsilon(0.0) == 0.0
