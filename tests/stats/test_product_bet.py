"""The product bet: valid whatever chances a claim allows, and quicker where answers say all."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakbound.errors import UsageError
from leakbound.estimators.simulated_power import PlainTest
from leakbound.estimators.simulated_power import _paths as paths_of
from leakbound.privacy import ApproxDP, Gaussian, Guarantee, PureDP, gdp_trade_off
from leakbound.stats import EProcess
from leakbound.stats.e_values import bets
from leakbound.stats.e_values.bets import ProductBet, prior_weights, product_paths, project

CHANCE = st.floats(1e-3, 1 - 1e-3)


def allowed(a: float, b: float, slope: float, delta: float) -> bool:
    """Whether a claim allows two chances."""
    pairs = ((a, b), (b, a), (1 - a, 1 - b), (1 - b, 1 - a))
    return all(one <= slope * other + delta for one, other in pairs)


def edge(slope: float, delta: float, at: float) -> tuple[float, float]:
    """Chances on the edge of what a claim allows."""
    middle = (1 - delta) / (1 + slope)
    b = at * middle
    return slope * b + delta, b


@given(CHANCE, CHANCE, st.floats(0, 6), st.sampled_from([0.0, 1e-5, 0.05]))
@settings(max_examples=300)
def test_the_nearest_chances_are_allowed_and_no_allowed_ones_gain(
    p: float, q: float, epsilon: float, delta: float
) -> None:
    """By the two likelihood ratios: their product has an expectation of at most 1 on the edge."""
    slope = math.exp(epsilon)
    a, b = (float(one[0]) for one in project(*map(np.array, ([p], [q], [slope], [delta]))))
    assert allowed(a, b, slope * (1 + 1e-9), delta)
    if allowed(p, q, slope, delta):
        assert (a, b) == (p, q)
    for at in np.linspace(0, 1, 21):
        high, low = edge(slope, delta, float(at))
        for x, y in ((high, low), (low, high), (1 - low, 1 - high), (1 - high, 1 - low)):
            yes = x * p / a + (1 - x) * (1 - p) / (1 - a)
            other = y * q / b + (1 - y) * (1 - q) / (1 - b)
            assert yes * other <= 1 + 1e-9


@pytest.mark.parametrize("wary", [False, True])
@pytest.mark.parametrize(
    ("claim", "chances"),
    [
        (PureDP(0.0), (0.5, 0.5)),
        (PureDP(1.0), edge(math.e, 0.0, 0.4)),
        (PureDP(1.0), edge(math.e, 0.0, 1.0)[::-1]),
        (ApproxDP(0.25, 0.05), edge(math.exp(0.25), 0.05, 0.9)),
        (Gaussian(1.0, 1.0), (float(gdp_trade_off([0.3], 1.0)[0]), 0.7)),
    ],
)
def test_the_mean_over_all_outcomes_is_at_most_one(
    claim: Guarantee, chances: tuple[float, float], wary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly, over the 64 outcomes of three pairs of independent answers."""
    monkeypatch.setattr(bets, "FIRST", 1)
    mean = 0.0
    for outcome in itertools.product((0, 1), repeat=6):
        x, y = np.reshape(outcome, (2, 3, 1)).astype(float)
        bet = ProductBet(claim, wary=wary)
        bet.extend(x, y)
        weight = math.prod(
            (of if one else 1 - of)
            for values, of in zip((x, y), chances, strict=True)
            for one in values[:, 0]
        )
        mean += weight * bet.e_value
    assert mean <= 1 + 1e-9


@pytest.mark.parametrize(
    ("epsilon", "limit"), [(1.0, 5), (2.0, 12), (4.0, 83)], ids=["1", "2", "4"]
)
def test_a_perfect_attack_is_seen_near_the_limit_of_single_answers(
    epsilon: float, limit: int
) -> None:
    """The limit is that of likelihood ratios with known chances: (1 + e^-eps)^(2 n) >= 20."""
    assert limit == math.ceil(math.log(20) / (2 * math.log1p(math.exp(-epsilon))))
    x, y = np.ones((3 * limit, 1)), np.zeros((3 * limit, 1))
    bet, lines = ProductBet(PureDP(epsilon), wary=False), EProcess(PureDP(epsilon))
    bet.extend(x, y)
    lines.extend(x, y)
    assert bet.rejected_at is not None
    assert bet.rejected_at <= 1.4 * limit
    assert (lines.rejected_at or math.inf) > bet.rejected_at
    assert bet.epsilon_lower_bound(0.0).epsilon > epsilon  # type: ignore[operator]


def test_a_leak_that_answers_the_other_way_round_is_seen() -> None:
    x, y = np.zeros((20, 1)), np.ones((20, 1))
    bet = ProductBet(PureDP(1.0), wary=False)
    bet.extend(x, y)
    assert bet.rejected


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
@pytest.mark.parametrize("opposite", [0.3, 0.6, 1.0])
def test_a_wary_bet_beside_lines_rejects_few_opposite_answers_at_their_claim(
    epsilon: float, opposite: float
) -> None:
    """Answers by randomised response, in a share of the pairs each the opposite of the other: at
    most 5 %, and by chance 6.4 % of 1,000 audits. A bet that is not wary rejects up to 15 %."""
    rng, slope = np.random.default_rng(7), math.exp(epsilon)
    draws = rng.random((1000, 60))
    other = np.where(rng.random(draws.shape) < opposite, 1 - draws, rng.random(draws.shape))
    x, y = (draws < slope / (1 + slope)).astype(float), (other < 1 / (1 + slope)).astype(float)
    level, claim = math.log(20.0), PureDP(epsilon)
    lines = paths_of(PlainTest(claim, 0.95, 0.0, 60), x[..., None], y[..., None])
    rejected = {}
    for wary in (False, True):
        bet = product_paths(x, y, np.array([[epsilon]]), np.zeros((1, 1)), wary)[:, 0]
        rejected[wary] = int((np.logaddexp(lines, bet) - math.log(2) >= level).any(1).sum())
    assert rejected[True] <= 64
    assert opposite < 1 or rejected[False] > 64


def test_pairs_come_one_by_one_or_at_once() -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.random((40, 2)) < 0.5).astype(float), (rng.random((40, 2)) < 0.2).astype(float)
    one, other = ProductBet(PureDP(0.5), wary=True), ProductBet(PureDP(0.5), wary=True)
    one.extend(x, y)
    for at in range(40):
        other.extend(x[at : at + 1], y[at : at + 1])
    assert np.allclose(one.log_e_values, other.log_e_values)


def test_what_is_not_known_bets_nothing() -> None:
    bet = ProductBet(PureDP(1.0), wary=False)
    bet.extend(np.full((9, 1), 0.5), np.full((9, 1), 0.5))
    assert np.allclose(bet.log_e_values, 0.0)
    with pytest.raises(UsageError, match="with answers 0 or 1"):
        bet.extend([[0.3]], [[0.0]])


def test_it_pauses_while_answers_tend_to_differ() -> None:
    """By the correlation of all pairs before, below one standard deviation."""
    rng = np.random.default_rng(7)
    for shift in (-0.4, *(-0.12,) * 9, 0.0, 0.4):
        first = rng.random(60) < 0.5
        second = rng.random(60) < np.where(first, 0.5 + shift, 0.5 - shift)
        x, y = first * 1.0, second * 1.0
        found = bets._bets(x[None], y[None])[0]
        for at in range(60):
            if at < 8:
                assert not found[at]
            elif x[:at].std() > 0 and y[:at].std() > 0:
                along = np.corrcoef(x[:at], y[:at])[0, 1] * math.sqrt(at)
                assert found[at] == (along >= -1) or abs(along + 1) < 1e-9


@given(st.floats(0, 50))
def test_weights_of_priors_sum_to_one(epsilon: float) -> None:
    assert prior_weights(np.array([epsilon])).sum() == pytest.approx(1.0)
