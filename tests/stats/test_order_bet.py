"""The bet on which reply of a pair has the larger measurement."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakbound.privacy import ApproxDP, PureDP
from leakbound.stats.e_values.bets import OrderBet


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_a_true_claim_is_seldom_rejected_however_replies_depend(epsilon: float) -> None:
    """At most 29 of 400: at 5 %, more have probability 0.02."""
    rejected, share = 0, math.exp(2 * epsilon) / (1 + math.exp(2 * epsilon))
    for seed in range(400):
        rng = np.random.default_rng(seed)
        # a counter that every question raises, walks, and a coin that draws the order of each pair
        counter, walks = np.ones((100, 20)), rng.integers(-1, 2, (100, 40))
        coin = np.where(rng.random(100) < share, 1, -1)
        bet = OrderBet(PureDP(epsilon))
        bet.extend(np.concatenate([counter, walks], 1) * coin[:, None])
        rejected += bet.rejected
    assert rejected <= 29


def test_a_count_that_only_grows_is_found() -> None:
    """Of two contexts, the one that raises it shows more if it comes last; else both as much."""
    found = []
    for seed in range(50):
        signs = np.zeros((60, 142))
        signs[:, 7] = np.random.default_rng(seed).integers(2, size=60)
        bet = OrderBet(PureDP(0.0))
        bet.extend(signs)
        found.append(bet.rejected_at or 1000)
    assert np.median(found) <= 20


def test_pairs_may_come_in_any_batches_and_a_delta_silences_it() -> None:
    signs = np.random.default_rng(0).integers(-1, 2, (40, 9))
    whole, parts = OrderBet(PureDP(0.0)), OrderBet(PureDP(0.0))
    whole.extend(signs)
    for at in range(0, 40, 7):
        parts.extend(signs[at : at + 7])
    np.testing.assert_allclose(whole.log_e_values, parts.log_e_values)
    won = OrderBet(PureDP(0.0))
    won.extend(np.ones((40, 3)))
    paths = won.epsilon_paths(np.array([0.0, 0.5, 2.0, 50.0]), 0.0)
    assert np.all(np.diff(paths[:, -1]) <= 0)
    assert won.epsilon_lower_bound(0.0).epsilon > 0.9
    silent = OrderBet(ApproxDP(0.0, 1e-3), deltas=())
    silent.extend(np.ones((30, 3)))
    assert not silent.log_e_values.any()
