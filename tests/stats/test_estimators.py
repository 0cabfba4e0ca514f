"""Credible bound, one-run bound, test of the noise, published bootstrap, Bonferroni:

closed forms, twins, coverage, edges.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from leakbound.errors import UsageError
from leakbound.stats import (
    Bonferroni,
    Split,
    accuracy_bound,
    bonferroni,
    clopper_pearson,
    gdp,
    joint_beta,
    noise_goodness_of_fit,
    one_run,
)
from leakbound.stats.curves.curves import error_cells


@pytest.mark.parametrize("fraction", [0.01, 0.9])
def test_a_hundredth_to_nine_tenths_choose_a_threshold(fraction: float) -> None:
    assert Split(fraction).fraction == fraction
    with pytest.raises(UsageError, match="fraction"):
        Split(fraction - 0.001 if fraction < 0.5 else fraction + 0.001)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 60), st.integers(1, 60), st.data(), st.sampled_from([0.0, 1e-2]))
def test_joint_beta_is_the_quantile_of_its_posterior(
    members: int, nonmembers: int, data: st.DataObject, delta: float
) -> None:
    """Slow twin: the posterior by sampling."""
    tp, fp = data.draw(st.integers(0, members)), data.draw(st.integers(0, nonmembers))
    found = joint_beta(tp, members - tp, fp, nonmembers - fp, delta)
    rng = np.random.default_rng(0)
    fnr = rng.beta(0.5 + members - tp, 0.5 + tp, 200_000)
    fpr = rng.beta(0.5 + fp, 0.5 + nonmembers - fp, 200_000)
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilon = np.maximum(
            np.log(np.maximum(1 - delta - fpr, 0) / fnr),
            np.log(np.maximum(1 - delta - fnr, 0) / fpr),
        )
    epsilon = np.maximum(np.nan_to_num(epsilon, nan=0.0, posinf=1e9, neginf=0.0), 0)
    below = float((epsilon <= (found.epsilon or 0)).mean())
    assert found.epsilon == 0 or below == pytest.approx(0.05, abs=0.004)
    assert found.epsilon != 0 or below >= 0.046
    assert found.kind == "credible"


def test_joint_beta_is_tighter_than_two_limits() -> None:
    beta, limits = joint_beta(90, 10, 12, 88), clopper_pearson(90, 10, 12, 88)
    assert (beta.epsilon or 0) > (limits.epsilon or 0)


@given(st.integers(1, 300), st.data())
def test_one_run_without_delta_is_the_binomial_tail(guesses: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, guesses))
    found = one_run(guesses + 5, guesses, correct)
    assert found.epsilon == pytest.approx(accuracy_bound(correct, guesses).epsilon, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 80), st.data(), st.floats(1e-7, 1e-3))
def test_one_run_equals_the_slow_sum(guesses: int, data: st.DataObject, delta: float) -> None:
    correct = data.draw(st.integers(guesses // 2, guesses))
    canaries = guesses * 2
    epsilon = one_run(canaries, guesses, correct, delta).epsilon or 0.0

    def p_value(eps: float) -> float:
        q = 1 / (1 + math.exp(-eps))
        worst = max(
            (
                sum(binom.pmf(correct - j, guesses, q) for j in range(1, i + 1)) / i
                for i in range(1, correct + 1)
            ),
            default=0.0,
        )
        return float(binom.sf(correct - 1, guesses, q) + 2 * canaries * delta * worst)

    assert epsilon == 0 or p_value(epsilon) <= 0.05 * (1 + 1e-9)
    assert p_value(epsilon + 1e-6) > 0.05 * (1 - 1e-3)


def test_one_run_falls_with_delta() -> None:
    values = [one_run(1000, 500, 400, delta).epsilon or 0.0 for delta in (0.0, 1e-6, 1e-4, 1e-3)]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]


def test_one_run_covers_randomised_response() -> None:
    rng, epsilon = np.random.default_rng(1), 1.0
    right = rng.binomial(300, 1 / (1 + math.exp(-epsilon)), 2000)
    table = {int(v): one_run(300, 300, int(v), 1e-6).epsilon or 0.0 for v in np.unique(right)}
    assert np.mean([table[int(v)] > epsilon for v in right]) <= 0.05


def test_the_declared_noise_fits_and_other_noise_does_not() -> None:
    rng = np.random.default_rng(0)
    accused = [
        not noise_goodness_of_fit(rng.normal(0, 2.0, (200, 3)), 2.0, level=0.05).fits
        for _ in range(200)
    ]
    assert np.mean(accused) <= 0.05
    good = rng.normal(0, 2.0, (500, 3))
    wrong = {
        "half": good / 2,
        "laplace": rng.laplace(0, math.sqrt(2), (5000, 1)),
        "one class": good * np.array([1.0, 0.0, 0.0]),
        "shifted": good + 0.5,
        "re-seeded": np.tile(good[:1], (500, 1)),
        "correlated": np.cumsum(rng.normal(0, 0.4, (500, 1)), 0),
        "shared by all classes": np.tile(good[:, :1], (1, 3)),
    }
    for name, residuals in wrong.items():
        assert not noise_goodness_of_fit(residuals, 2.0).fits, name
    fit = noise_goodness_of_fit(good, 2.0)
    assert fit.fits
    assert "follows the declared distribution" in str(fit)


def discrete(rng: np.random.Generator, sigma: float, size: tuple[int, int]) -> Any:
    at = np.arange(-80, 81)
    mass = np.exp(-(at**2) / (2 * sigma**2))
    return rng.choice(at, size=size, p=mass / mass.sum()).astype(float)


def test_noise_on_a_grid_fits_if_it_is_the_declared_one() -> None:
    """False alarms: 100 audits of level 5 %; more than 14 of them have a chance below 1e-4."""
    rng = np.random.default_rng(4)
    draws: dict[str, Callable[[float], Any]] = {
        "discrete": lambda sigma: discrete(rng, sigma, (100, 3)),
        "rounded": lambda sigma: rng.normal(0, sigma, (100, 3)).round(),
        "rounded to tenths": lambda sigma: rng.normal(0, sigma, (100, 3)).round(1),
    }
    for name, draw in draws.items():
        fits = [noise_goodness_of_fit(draw(5.0), 5.0, level=0.05).fits for _ in range(100)]
        assert fits.count(False) <= 14, name
        assert not noise_goodness_of_fit(draw(3.5), 5.0).fits, name
        again = np.tile(draw(5.0)[:1], (100, 1))
        assert not noise_goodness_of_fit(again, 5.0).fits, name


def test_five_percent_less_noise_is_seen_in_4000_draws() -> None:
    rng = np.random.default_rng(1)
    assert not noise_goodness_of_fit(rng.normal(0, 0.95, 4000), 1.0).fits


def test_bonferroni_pays_for_its_thresholds() -> None:
    rng = np.random.default_rng(4)
    member, nonmember = rng.normal(1, 1, 300), rng.normal(0, 1, 300)
    one = bonferroni(gdp, member, nonmember, [0.5], 1e-5)
    many = bonferroni(gdp, member, nonmember, [0.5] * 10, 1e-5)
    assert (many.mu or 0) < (one.mu or 0)
    assert many.confidence == 0.95
    assert "Bonferroni" in many.threshold
    for estimator in (gdp, clopper_pearson):
        levels = [2.5, 0.5, 9.0]
        each = [
            estimator(*error_cells(member, nonmember, tau), 1e-5, 1 - 0.05 / 3) for tau in levels
        ]
        best = bonferroni(estimator, member, nonmember, levels, 1e-5)
        assert best.mu == max(one.mu or 0.0 for one in each) or best.mu is None
        assert best.epsilon == max(one.epsilon or 0.0 for one in each) or best.epsilon is None
    empty = [
        bonferroni(gdp, *rng.normal(0, 1, (2, 100)), [-0.5, 0, 0.5], 1e-5).mu for _ in range(200)
    ]  # type: ignore[misc]
    assert np.mean([(mu or 0) > 0 for mu in empty]) <= 0.05
    assert str(Bonferroni()) == (
        "best of several thresholds fixed beforehand, each at its share of the error (Bonferroni)"
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: joint_beta(0, 0, 1, 1), "no member trials"),
        (lambda: joint_beta(1, -1, 1, 1), "fn is -1"),
        (lambda: one_run(10, 11, 5), "correct <= guesses <= canaries"),
        (lambda: one_run(10, 0, 0), "guesses >= 1"),
        (lambda: one_run(10, 5, 6), "correct <= guesses"),
        (lambda: one_run(10, 5, 5, delta=1), "delta is 1"),
        (lambda: noise_goodness_of_fit([0.1] * 7, 1.0), "at least 8 draws"),
        (lambda: noise_goodness_of_fit([math.nan] * 9, 1.0), "NaN or infinite"),
        (lambda: noise_goodness_of_fit([0.1] * 9, 0.0), "sigma is 0"),
        (lambda: bonferroni(gdp, [1], [1], [], 1e-5), "no thresholds"),
        (lambda: bonferroni(gdp, [math.nan], [1], [0], 1e-5), "1 NaN scores"),
        (lambda: Bonferroni((math.nan,)), "NaN"),
    ],
)
def test_degenerate_arguments_get_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()


def test_a_perfect_or_empty_attack_has_finite_bounds() -> None:
    assert 0 < (joint_beta(200, 0, 0, 200, 1e-5).epsilon or 0) < math.inf
    assert 0 < (one_run(200, 200, 200, 1e-5).epsilon or 0) < math.inf
    assert joint_beta(1, 0, 0, 1).epsilon is not None
    assert one_run(1, 1, 1).epsilon == 0
    assert one_run(200, 200, 0).epsilon == 0
