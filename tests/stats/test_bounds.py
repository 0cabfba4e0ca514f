"""Bounds from counts: exact binomial limits, coverage, rounding, curves, thresholds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from leakbound.errors import UsageError
from leakbound.privacy import gdp_epsilon
from leakbound.stats import (
    Estimate,
    Split,
    accuracy_bound,
    accuracy_log_odds,
    auroc,
    auroc_standard_error,
    beside,
    best_threshold,
    binomial_lower,
    binomial_upper,
    clopper_pearson,
    cut,
    gdp,
    largest_certifiable_epsilon,
    roc,
    tpr_at_fpr,
)

N = st.integers(1, 400)


@given(N, st.data(), st.floats(0.001, 0.2))
def test_limits_are_exact_and_rounded_outwards(n: int, data: st.DataObject, alpha: float) -> None:
    k = data.draw(st.integers(0, n))
    high, low = float(binomial_upper(k, n, alpha)), float(binomial_lower(k, n, alpha))
    assert low <= k / n <= high
    if k < n:
        assert binom.cdf(k, n, high / (1 + 1e-9)) == pytest.approx(alpha, rel=1e-4)
        assert binom.cdf(k, n, high) <= alpha * (1 + 1e-9)
    if k > 0:
        assert binom.sf(k - 1, n, low) <= alpha * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_a_perfect_accuracy_has_a_closed_form(delta: float) -> None:
    a = 0.05 ** (1 / 30)
    found = accuracy_bound(30, 30, delta).epsilon
    assert found == pytest.approx(math.log((a - delta) / (1 - a)))


@pytest.mark.parametrize(
    ("value", "limit", "shown"),
    [
        (1.00417, 1.0, ("1.004", "1")),
        (0.5, 1.0, ("0.50", "1")),
        (None, 1.0, ("–", "1")),
        (math.inf, 2.5, ("∞", "2.5")),
        (2.0, 2.0, ("2.00", "2")),
        (0.2 + 1e-9, 0.2, ("0.200000001", "0.2")),
    ],
)
def test_a_bound_is_shown_with_the_digits_that_tell_it_from_a_limit(
    value: float | None, limit: float, shown: tuple[str, str]
) -> None:
    assert beside(value, limit) == shown
    assert cut(value).startswith(shown[0][:4])


def test_no_trials_know_nothing() -> None:
    assert binomial_upper(4, 5, 1e-12) == 1  # and no more, however it is rounded
    assert largest_certifiable_epsilon(1) == 0.0
    assert binomial_upper(0, 0, 0.05) == 1
    assert binomial_lower(0, 0, 0.05) == 0


@given(N, N, st.data())
def test_bounds_are_finite_and_never_negative(
    members: int, nonmembers: int, data: st.DataObject
) -> None:
    tp, fp = data.draw(st.integers(0, members)), data.draw(st.integers(0, nonmembers))
    cells = (tp, members - tp, fp, nonmembers - fp)
    bound = clopper_pearson(*cells, 1e-5)
    assert bound.epsilon is not None
    assert 0 <= bound.epsilon < math.inf
    assert bound.kind == "lower_bound"
    gaussian = gdp(*cells, 1e-5)
    assert gaussian.mu is not None
    assert 0 <= gaussian.mu < math.inf


def test_an_implied_epsilon_is_no_lower_bound() -> None:
    """A bound on mu says nothing of epsilon unless the mechanism is Gaussian."""
    found = gdp(90, 10, 10, 90, 1e-5)
    assert found.kind == "lower_bound"
    assert found.epsilon is None
    assert found.details["implied_epsilon"] == gdp_epsilon(found.mu or 0.0, 1e-5)
    assert found.details["implied_epsilon"] > 5  # randomised response of epsilon 2.2 looks so


@given(st.integers(2, 200), st.data())
def test_a_better_attack_never_lowers_a_bound(n: int, data: st.DataObject) -> None:
    fp = data.draw(st.integers(0, n // 2 - 1))
    tp = data.draw(st.integers(n // 2, n - 1))
    assert (gdp(tp + 1, n - tp - 1, fp, n - fp).mu or 0) >= (gdp(tp, n - tp, fp, n - fp).mu or 0)
    worse, better = (
        clopper_pearson(tp, n - tp, fp, n - fp),
        clopper_pearson(tp + 1, n - tp - 1, fp, n - fp),
    )
    assert (better.epsilon or 0) >= (worse.epsilon or 0)


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.5])
def test_coverage(mu: float) -> None:
    """In 2,000 audits of a Gaussian pair, bounds exceed the truth in at most 5 % (within simulation
    error).
    """
    rng, n = np.random.default_rng(7), 120
    tp = (rng.normal(mu, 1, (2000, n)) >= mu / 2).sum(1)
    fp = (rng.normal(0, 1, (2000, n)) >= mu / 2).sum(1)
    over = np.mean(
        [
            (gdp(int(t), n - int(t), int(f), n - int(f)).mu or 0) > mu
            for t, f in zip(tp, fp, strict=True)
        ]
    )
    assert over <= 0.05


def test_a_perfect_attack_certifies_what_n_can() -> None:
    assert clopper_pearson(40, 0, 0, 40).epsilon == pytest.approx(
        math.log(0.025 ** (1 / 40) / (1 - 0.025 ** (1 / 40)))
    )
    assert accuracy_log_odds(10, 10).epsilon == math.inf


@given(st.integers(1, 300), st.data())
def test_accuracy_bound_is_the_binomial_tail(n: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, n))
    epsilon = accuracy_bound(correct, n).epsilon or 0
    assert epsilon == 0 or binom.sf(correct - 1, n, 1 / (1 + math.exp(-epsilon))) <= 0.05 * (
        1 + 1e-6
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: clopper_pearson(0, 0, 1, 1), "no member trials"),
        (lambda: gdp(1, 1, 0, 0), "no non-member trials"),
        (lambda: clopper_pearson(-1, 2, 1, 1), "tp is -1"),
        (lambda: clopper_pearson(1, 1, 1, 1, delta=1), "delta is 1"),
        (lambda: clopper_pearson(1, 1, 1, 1, confidence=1), "confidence is 1"),
        (lambda: accuracy_bound(5, 4), "correct is 5 of n = 4"),
        (lambda: accuracy_log_odds(0, 0), "n at least 1"),
        (lambda: roc([], [1]), "member holds no scores"),
        (lambda: auroc([float("nan")], [1]), "1 NaN scores"),
        (lambda: Split(0), "fraction is 0"),
    ],
)
def test_degenerate_input_gets_a_sentence(call: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()  # type: ignore[operator]


SCORES = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


@given(SCORES, SCORES)
def test_auroc_is_the_share_of_ordered_pairs(member: list[int], nonmember: list[int]) -> None:
    pairs = [(m > n) + 0.5 * (m == n) for m in member for n in nonmember]
    assert auroc(member, nonmember) == pytest.approx(sum(pairs) / len(pairs))


@given(SCORES, SCORES)
def test_roc_rises_from_corner_to_corner(member: list[int], nonmember: list[int]) -> None:
    fpr, tpr, thresholds = roc(member, nonmember)
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)
    assert (np.diff(fpr) >= 0).all()
    assert (np.diff(tpr) >= 0).all()
    for f, t, tau in zip(fpr, tpr, thresholds, strict=True):
        assert f == pytest.approx(np.mean(np.array(nonmember) >= tau))
        assert t == pytest.approx(np.mean(np.array(member) >= tau))


def test_points_of_a_curve() -> None:
    assert tpr_at_fpr([3, 2, 1], [2, 0, 0, 0], 0.0) == pytest.approx(1 / 3)
    assert best_threshold([3.0, 4.0], [0.0, 1.0]) == 2.0
    assert 0 < auroc_standard_error(0.8, 50, 50) < 0.1


def test_an_estimate_is_no_bare_number() -> None:
    with pytest.raises(TypeError, match="not a bare number"):
        float(clopper_pearson(1, 1, 1, 1))
    assert isinstance(clopper_pearson(1, 1, 1, 1), Estimate)
    assert cut(2.999) == "2.99"
