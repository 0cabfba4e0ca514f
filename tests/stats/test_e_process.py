"""The e-process: never wrong too often, whatever the stopping; quick where the claim is false;
exact laws of pairs.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import norm

from leakbound.errors import UsageError
from leakbound.privacy import (
    ApproxDP,
    Gaussian,
    NonPrivate,
    PureDP,
    calibrate_gaussian,
    gdp_epsilon,
)
from leakbound.stats import (
    CategoricalLaw,
    EProcess,
    GaussianLaw,
    VoteScores,
    exact_privacy_loss,
    privacy_profile,
)

TAUS = np.array([0.0, 0.5, 1.0])


def audit(claim_mu: float, true_mu: float, pairs: int, seed: int) -> EProcess:
    rng, process = np.random.default_rng(seed), EProcess(Gaussian(claim_mu, 1.0))
    x, y = rng.normal(size=(pairs, 2, 1)).transpose(1, 0, 2)
    process.extend(true_mu + x >= TAUS, y >= TAUS)
    return process


def test_a_true_claim_is_rejected_in_at_most_5_percent_even_with_stopping() -> None:
    assert np.mean([audit(1.0, 1.0, 100, seed).rejected for seed in range(120)]) <= 0.05


def test_no_leak_has_no_positive_bound_more_often() -> None:
    assert (
        np.mean([(audit(0.5, 0.0, 100, seed).mu_lower_bound().mu or 0) > 0 for seed in range(40)])
        <= 0.1
    )


def test_a_false_claim_is_rejected_and_bounds_lie_below_the_truth() -> None:
    process = audit(0.5, 2.0, 200, 2)
    assert process.rejected
    found = process.mu_lower_bound()
    assert 0.5 < (found.mu or 0) < 2.0
    assert found.epsilon is None  # what mu implies is no bound of kind lower_bound
    assert found.details["implied_epsilon"] == gdp_epsilon(found.mu or 0, 1e-5)
    assert process.e_value > 20


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30),
    st.floats(0, 3),
    st.floats(0, 0.5),
)
def test_the_e_value_is_never_negative(
    pairs: list[tuple[float, float]], epsilon: float, delta: float
) -> None:
    process = EProcess(ApproxDP(epsilon, delta))
    for x, y in pairs:
        process.update(x, y)
        assert process.e_value >= 0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.floats(0.1, 2))
def test_one_step_is_a_supermartingale(seed: int, epsilon: float) -> None:
    """Under randomised response at the claim, the expected next factor is at most 1,
    whatever came before.
    """
    rng = np.random.default_rng(seed)
    p = 1 / (1 + math.exp(-epsilon))
    process = EProcess(PureDP(epsilon))
    for _ in range(int(rng.integers(0, 8))):
        process.update(float(rng.random() < 0.9), float(rng.random() < 0.1))
    process.update(0.5, 0.5)
    before, expected = process.e_value, 0.0
    for x in (0.0, 1.0):
        for y in (0.0, 1.0):
            twin = EProcess(PureDP(epsilon))
            twin.extend(np.concatenate(process._x), np.concatenate(process._y))
            twin.update(x, y)
            expected += (p if x else 1 - p) * (1 - p if y else p) * twin.e_value
    assert expected <= before * (1 + 1e-9)


@pytest.mark.parametrize("horizon", [None, 50])
@pytest.mark.parametrize("seed", range(5))
def test_one_step_over_all_thresholds_is_a_supermartingale(seed: int, horizon: int | None) -> None:
    """Votes 0..2 hidden by noise:

    over all laws of a pair that keep the claim's lines, the next factor's largest mean is 1.
    """
    rng, scores = np.random.default_rng(seed), VoteScores.count(2, 1.0)
    states = [(i, j) for i in range(3) for j in range(3) if abs(i - j) <= 1]
    process = scores.process(Gaussian(0.6, 1.0), horizon=horizon)
    for _ in range(int(rng.integers(5, 40))):
        i, j = states[rng.choice(len(states))] if rng.random() < 0.3 else (1, 0)
        process.update(scores.exceedance(i), scores.exceedance(j))
    rule = process.stake_rule(process.lines, scores.thresholds.size)
    x, y = (scores.exceedance([s[i] for s in states]) for i in (0, 1))
    past = process._running.past  # type: ignore[union-attr]
    stakes = rule.choose(past, np.array([process.pairs]))
    pay = np.tensordot(
        process.lines.coefficients[0], np.stack([np.ones_like(x), x, y]), 1
    )  # (L, S, K)
    worst = pay.transpose(1, 0, 2).reshape(len(states), -1)
    factors = 1 + stakes.gains(x, y, np.zeros(len(states), int))[0]
    assert factors.min() > 0
    most = linprog(
        -factors,
        A_ub=worst.T,
        b_ub=np.zeros(worst.shape[1]),
        A_eq=np.ones((1, len(states))),
        b_eq=[1.0],
    )
    assert -most.fun <= 1 + 1e-9


def test_many_pairs_at_once_are_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((70, 3)), rng.random((70, 3)) / 2
    one, other = EProcess(Gaussian(0.1, 1.0)), EProcess(Gaussian(0.1, 1.0))
    for a, b in zip(x, y, strict=True):
        one.update(a, b)
    other.extend(x[:30], y[:30])
    other.extend(x[30:], y[30:])
    assert one.pairs == other.pairs == 70
    assert one.e_value == pytest.approx(other.e_value)
    assert one.mu_lower_bound() == other.mu_lower_bound()


def test_a_replay_is_the_running_e_value() -> None:
    """The replay of a bound and the running e-value choose the same stakes."""
    rng = np.random.default_rng(1)
    x, y = (rng.random((90, 2)) < 0.8).astype(float), (rng.random((90, 2)) < 0.3).astype(float)
    process = EProcess(PureDP(0.4))
    process.extend(x, y)
    replayed = process.stake_rule(process.lines, 2).log_e_values(x, y, process.prior(2))
    assert replayed[0] == pytest.approx(process.log_e_values)


def test_a_bound_grows_with_evidence_and_with_lower_confidence() -> None:
    def bound(pairs: int, confidence: float) -> tuple[float, float]:
        process = EProcess(Gaussian(0.5, 1.0), confidence)
        process.extend(np.full((pairs, 1), 0.9), np.full((pairs, 1), 0.1))
        return process.mu_lower_bound().mu or 0.0, process.epsilon_lower_bound(1e-5).epsilon or 0.0

    assert np.all(np.array(bound(40, 0.95)) <= bound(80, 0.95))
    assert np.all(np.array(bound(80, 0.99)) <= bound(80, 0.95))


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0, 8.0])
def test_a_hundred_pairs_reach_most_of_mu(epsilon: float) -> None:
    """RNM with T = 10, a canary noticed in 97 of 100 pairs, exact exceedance, known pairing."""
    sigma = calibrate_gaussian(epsilon, 1e-5, math.sqrt(2))
    true, scores = math.sqrt(2) / sigma, VoteScores.margin(10, sigma)
    process = scores.process(Gaussian(math.sqrt(2), sigma), horizon=100)
    member = np.where(np.isin(np.arange(100), (20, 50, 80)), -10, -8)
    process.extend(scores.exceedance(member), scores.exceedance(np.full(100, -10)))
    assert 0.86 * true < (process.mu_lower_bound().mu or 0) <= true
    assert not process.rejected


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: EProcess(PureDP(1)).update(float("nan"), 0), "x is nan"),
        (lambda: EProcess(PureDP(1)).update(2, 0), "x is 2"),
        (lambda: EProcess(PureDP(1)).update([0, 1], [0]), "with the same thresholds"),
        (lambda: EProcess(PureDP(1)).mu_lower_bound(0), "delta is 0"),
        (lambda: EProcess(PureDP(1)).epsilon_lower_bound(1), "delta is 1"),
        (lambda: EProcess(PureDP(1), horizon=-1), "horizon is -1"),
        (lambda: EProcess(PureDP(1)).extend([0.5], [0.5]), "must be \\(pairs, thresholds\\)"),
        (lambda: EProcess(NonPrivate()), "states nothing"),
        (lambda: EProcess(PureDP(1), 1.0), "confidence is 1"),
        (
            lambda: EProcess(PureDP(1), support=([[0.5]], [[0.5]])).update(0, 1),
            "outside the stated support",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        call()  # type: ignore[operator]


@given(st.floats(0.1, 3), st.floats(1e-8, 0.2))
def test_exact_gaussian_pairs(distance: float, delta: float) -> None:
    laws = GaussianLaw(np.array([distance, 0.0]), 2.0), GaussianLaw(np.zeros(2), 2.0)
    found = exact_privacy_loss(*laws, delta)
    assert found.mu == pytest.approx(distance / 2)
    assert found.epsilon == pytest.approx(gdp_epsilon(distance / 2, delta))
    grid = np.linspace(-12, 14, 20001)
    density = norm.pdf(grid, distance / 2), norm.pdf(grid)
    assert privacy_profile(*laws, 0.3) == pytest.approx(
        np.maximum(density[0] - math.exp(0.3) * density[1], 0).sum() * (grid[1] - grid[0]), abs=1e-4
    )


PROBABILITIES = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(
    lambda v: np.array(v) / sum(v)
)


@given(PROBABILITIES, PROBABILITIES, st.floats(0, 0.3))
def test_exact_categorical_pairs(p: np.ndarray, q: np.ndarray, delta: float) -> None:  # type: ignore[type-arg]
    laws = CategoricalLaw(p), CategoricalLaw(q)
    epsilon = exact_privacy_loss(*laws, delta).epsilon or 0.0
    assert privacy_profile(*laws, epsilon) <= delta + 1e-9
    assert epsilon < 1e-6 or privacy_profile(*laws, epsilon * (1 - 1e-6)) >= delta - 1e-5
    if delta == 0:
        assert epsilon == pytest.approx(float(np.abs(np.log(p / q)).max()))


def test_disjoint_answers_have_no_bound_and_bad_laws_a_sentence() -> None:
    assert (
        exact_privacy_loss(
            CategoricalLaw(np.array([1.0, 0.0])), CategoricalLaw(np.array([0.0, 1.0])), 0.5
        ).epsilon
        == math.inf
    )
    with pytest.raises(UsageError, match="sum to 1"):
        exact_privacy_loss(CategoricalLaw(np.array([0.5])), CategoricalLaw(np.array([1.0])), 0)
    with pytest.raises(UsageError, match="same kind"):
        exact_privacy_loss(CategoricalLaw(np.array([1.0])), GaussianLaw(np.zeros(1), 1.0), 0)
