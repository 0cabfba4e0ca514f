"""Composition and subsampling against dp-accounting, enumeration, and their own limits."""

import builtins
import itertools
import math
import re
import sys
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound._install import install_hint
from leakbound.errors import UsageError
from leakbound.privacy import (
    ApproxDP,
    BoundedRange,
    Gaussian,
    PureDP,
    Subsampled,
    compose,
    gaussian_epsilon,
    pure_composition_epsilon,
    self_compose,
    subsampled_gaussian_epsilon,
    zcdp_epsilon,
)
from leakbound.privacy.compose import joint_epsilon
from leakbound.stats import CategoricalLaw, exact_privacy_loss

DELTA = st.floats(1e-8, 0.05)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.1, 2), st.integers(1, 30), DELTA)
def test_pure_composition_agrees_with_a_composed_loss_distribution(
    epsilon: float, count: int, delta: float
) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    noise = 1 / (1 + math.exp(epsilon)) * 2  # of binary randomised response, which is worst
    one = pld.from_randomized_response(noise, 2, value_discretization_interval=epsilon / 100)
    oracle = one.self_compose(count).get_epsilon_for_delta(delta)
    assert pure_composition_epsilon(epsilon, count, delta) == pytest.approx(
        oracle, abs=epsilon * (count + 2) / 50
    )


@settings(max_examples=15, deadline=None)
@given(st.floats(1, 8), st.integers(1, 30), st.floats(1e-8, 1e-3))
def test_gaussian_composition_agrees_with_dp_accounting(
    sigma: float, count: int, delta: float
) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    one = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3)
    oracle = one.self_compose(count).get_epsilon_for_delta(delta)
    assert gaussian_epsilon(sigma, math.sqrt(count), delta) == pytest.approx(oracle, abs=2e-2)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.01, 2), st.floats(1e-8, 1e-3))
def test_zcdp_agrees_with_the_renyi_accountant(rho: float, delta: float) -> None:
    """It converts as tightly; its grid of orders costs it a thousandth."""
    accounting = pytest.importorskip("dp_accounting")
    accountant = pytest.importorskip("dp_accounting.rdp").RdpAccountant(
        np.linspace(1.01, 200, 2000)
    )
    accountant.compose(accounting.ZCDpEvent(rho))
    oracle = accountant.get_epsilon(delta)
    assert oracle * (1 - 1e-3) <= zcdp_epsilon(rho, delta) <= oracle + 1e-9


@given(st.floats(0.05, 3), st.integers(1, 100), DELTA, st.floats(1.0, 3.0))
def test_compositions_grow_with_epsilon_and_fall_with_delta(
    epsilon: float, count: int, delta: float, more: float
) -> None:
    for of in (pure_composition_epsilon, composed):
        assert of(epsilon * more, count, delta) >= of(epsilon, count, delta) - 1e-9
        assert of(epsilon, count, min(0.9, delta * more)) <= of(epsilon, count, delta) + 1e-9
        assert of(epsilon, count + 1, delta) >= of(epsilon, count, delta) - 1e-9


def composed(epsilon: float, count: int, delta: float) -> float:
    return self_compose(BoundedRange(epsilon), count).epsilon(delta)


def exponential(scores: np.ndarray[Any, Any], rate: float) -> np.ndarray[Any, Any]:
    weights = np.exp(rate * (scores - scores.max()))
    return np.asarray(weights / weights.sum())


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.floats(0.1, 2),
    st.integers(1, 5),
    st.floats(1e-6, 0.05),
)
def test_small_exponential_mechanisms_by_enumeration(
    moves: list[float], epsilon: float, count: int, delta: float
) -> None:
    """All outputs of `count` mechanisms whose utilities move by at most 1:

    their exact epsilon never exceeds the bound.
    """
    here, there = exponential(np.zeros(3), epsilon), exponential(np.array(moves), epsilon)
    p, q = (
        np.array([np.prod(t) for t in itertools.product(law, repeat=count)])
        for law in (here, there)
    )
    exact = (
        exact_privacy_loss(CategoricalLaw(p / p.sum()), CategoricalLaw(q / q.sum()), delta).epsilon
        or 0.0
    )
    assert exact <= composed(epsilon, count, delta) + 1e-9
    assert exact <= pure_composition_epsilon(epsilon, count, delta) + 1e-9


@given(st.floats(0.01, 0.3), st.integers(100, 10_000), DELTA)
def test_exponential_mechanisms_compose_as_their_zcdp(
    epsilon: float, count: int, delta: float
) -> None:
    """Bounded range: each is (epsilon squared / 8)-zCDP."""
    rho = count * epsilon**2 / 8
    expected = min(count * epsilon, zcdp_epsilon(rho, delta))
    assert composed(epsilon, count, delta) == pytest.approx(expected)


@pytest.mark.parametrize("count", [8192, 8193, 30_000])
def test_very_many_mechanisms_compose_as_the_binomial_sum(count: int) -> None:
    """Above 8,192 the rarest losses count as a failure each."""
    epsilon, delta = 0.01, 1e-5
    losses = epsilon * (2 * np.arange(count + 1) - count)
    chances = scipy.stats.binom.pmf(np.arange(count + 1), count, scipy.special.expit(epsilon))
    found = pure_composition_epsilon(epsilon, count, delta)

    def profile(e: float) -> float:
        return float((chances * np.maximum(0.0, -np.expm1(e - losses))).sum())

    assert profile(found) <= delta <= profile(found - 1e-7)


def test_more_than_a_million_mechanisms_compose_as_their_zcdp() -> None:
    assert pure_composition_epsilon(1e-4, 2_000_000, 1e-5) == zcdp_epsilon(0.01, 1e-5)


def test_nothing_composed_costs_nothing() -> None:
    assert pure_composition_epsilon(1, 0, 0) == 0
    assert subsampled_gaussian_epsilon(1, 0.5, 0, 1e-5) == 0
    assert subsampled_gaussian_epsilon(1, 0, 10, 1e-5) == 0
    assert pure_composition_epsilon(1, 7, 0) == 7


@pytest.mark.parametrize(
    ("sigma", "rate", "steps"),
    [(0.8, 0.9, 3), (4.0, 0.01, 20),
     *(pytest.param(*one, marks=pytest.mark.slow)
       for one in ((0.8, 0.01, 20), (1.0, 0.5, 7), (2.0, 0.3, 20), (4.0, 0.9, 1)))],
)  # fmt: skip
def test_subsampling_never_costs_more_than_no_subsampling(
    sigma: float, rate: float, steps: int
) -> None:
    pytest.importorskip("dp_accounting")
    whole = gaussian_epsilon(sigma, math.sqrt(steps), 1e-5)
    assert subsampled_gaussian_epsilon(sigma, rate, steps, 1e-5) <= whole + 2e-2


def test_without_dp_accounting_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=re.escape(install_hint("accounting"))):
        subsampled_gaussian_epsilon(1.0, 0.1, 1, 1e-5)
    assert Subsampled(1.0, 0.1, 1).epsilon(0.0) == math.inf  # which takes no accounting


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: subsampled_gaussian_epsilon(0, 0.1, 1, 1e-5), "sigma is 0"),
        (lambda: subsampled_gaussian_epsilon(1, 1.5, 1, 1e-5), "rate is 1.5"),
        (lambda: subsampled_gaussian_epsilon(1, 0.5, -1, 1e-5), "steps is -1"),
        (lambda: subsampled_gaussian_epsilon(1, 0.5, 1, 1.0), "delta is 1.0"),
        (lambda: pure_composition_epsilon(1, 1.5, 0.1), "count is 1.5"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_get_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def of_dp_accounting(part: PureDP | ApproxDP | Gaussian) -> Any:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    if isinstance(part, Gaussian):
        return pld.from_gaussian_mechanism(part.sigma)
    delta = part.delta if isinstance(part, ApproxDP) else 0.0
    stated = common.DifferentialPrivacyParameters(part.value, delta)
    return pld.from_privacy_parameters(stated)


def drawn_part(rng: np.random.Generator) -> PureDP | ApproxDP | Gaussian:
    kind, epsilon = rng.integers(3), float(rng.uniform(0.01, 1.5))
    if kind == 0:
        return PureDP(epsilon)
    if kind == 1:
        return ApproxDP(epsilon, float(10 ** rng.uniform(-9, -6.5)))
    return Gaussian(1.0, float(rng.uniform(1, 8)))


@pytest.mark.parametrize(
    ("seed", "mixtures"), [(7, 30), pytest.param(8, 200, marks=pytest.mark.slow)]
)
def test_mixtures_compose_as_tightly_as_loss_distributions(seed: int, mixtures: int) -> None:
    """Fifty answers at 0.1 cost 5.00 before, and 2.84 is optimal."""
    fifty = compose([PureDP(0.1)] * 50).epsilon(1e-5)
    assert fifty == pure_composition_epsilon(0.1, 50, 1e-5) < 2.89
    rng = np.random.default_rng(seed)
    for _ in range(mixtures):
        parts = [drawn_part(rng) for _ in range(rng.integers(2, 9))]
        delta = float(10 ** rng.uniform(-5.5, -3))
        oracle = reduce(lambda one, other: one.compose(other), map(of_dp_accounting, parts))
        found, theirs = compose(parts).epsilon(delta), oracle.get_epsilon_for_delta(delta)
        assert theirs - 1e-3 <= found <= theirs + 1e-4, parts


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(1, 12)), min_size=2, max_size=4),
    st.sampled_from([0.0, 0.7]),
    DELTA,
)
def test_a_grid_of_losses_never_understates(
    terms: list[tuple[float, int]], mu: float, delta: float
) -> None:
    pure = dict(terms)
    exact = joint_epsilon(pure, mu, delta)
    with pytest.MonkeyPatch.context() as patch:
        for name, number in (("MOST_LOSSES", 8), ("GRID", 2000), ("GRID_OF_ONE", 200)):
            patch.setattr(sys.modules[joint_epsilon.__module__], name, number)
        coarse = joint_epsilon(pure, mu, delta)
        patch.setattr(sys.modules[joint_epsilon.__module__], "MOST_TERMS", 1)
        one_term = joint_epsilon(pure, mu, delta)
    assert exact * (1 - 1e-9) <= coarse <= exact * (1 + 1e-3) + 1e-6
    assert coarse <= one_term * (1 + 1e-3) + 1e-6


@pytest.mark.parametrize("count", range(2, 60, 3))
def test_equal_parts_add_up_to_no_less_than_their_sum(count: int) -> None:
    assert Fraction(pure_composition_epsilon(0.1, count, 0.0)) >= Fraction(0.1) * count


@pytest.mark.parametrize("epsilons", [[1e-6] * 5, [0.5, 1e-12, 0.1], [0.01, *[0.5] * 3]])
def test_the_largest_loss_is_rounded_up(epsilons: list[float]) -> None:
    """At a tiny delta, epsilon was below the sum by a bit in the last place."""
    parts = [PureDP(one) for one in epsilons]
    assert Fraction(compose(parts).epsilon(1e-300)) >= sum(map(Fraction, epsilons))


@pytest.mark.parametrize("delta", [1e-299, 1e-300, 1e-308])
def test_a_tiny_delta_composes_many_answers(delta: float) -> None:
    """2 / delta was infinite, and no sentence."""
    assert 0 < pure_composition_epsilon(0.01, 10_000, delta) <= 100 * (1 + 1e-9)


def test_many_different_parts_compose_in_seconds_and_no_worse_than_their_zcdp() -> None:
    parts = [PureDP(0.001 + at * 1e-5) for at in range(5000)]
    rho = sum(part.value**2 / 2 for part in parts)
    assert compose(parts).epsilon(1e-6) <= zcdp_epsilon(rho, 1e-6) * (1 + 1e-9)
    assert joint_epsilon({math.inf: 1}, 0.0, 0.1) == math.inf
    assert joint_epsilon({0.5: 2_000_000}, 0.0, 0.1) == math.inf
    assert compose([ApproxDP(0.1, 0.06), ApproxDP(0.1, 0.06)]).epsilon(0.1) == math.inf
