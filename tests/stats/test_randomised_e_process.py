"""The e-process whose threshold at the horizon is uniform: valid there, and never before."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import UsageError
from leakbound.privacy import PureDP
from leakbound.stats import EProcess

RUNS, SCANS, PAIRS = 250, 60, 40
# of so many audits may be wrong by chance, at confidence 0.8
MOST, MOST_SCANS = (int(binom.isf(1e-6, audits, 0.2)) for audits in (RUNS, SCANS))


def played(epsilon: float, seed: int, randomised: bool, confidence: float = 0.8) -> EProcess:
    """Randomised response at the edge of the claim; the draw comes before the pairs."""
    rng = np.random.default_rng([7, seed])
    uniform = 1 - float(rng.random())
    wrong = 1 / (1 + math.exp(epsilon))
    x, y = rng.random((PAIRS, 1)) >= wrong, rng.random((PAIRS, 1)) < wrong
    process = EProcess(
        PureDP(epsilon), confidence, deltas=(0.0,), horizon=PAIRS,
        uniform=uniform if randomised else None,
    )  # fmt: skip
    process.extend(x, y)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_a_true_claim_is_rejected_no_more_often_than_allowed(epsilon: float) -> None:
    """Test and scan, with one draw each audit. False alarms: 1e-6 (binomial)."""
    audits = [played(epsilon, seed, randomised=True) for seed in range(RUNS)]
    rejected = sum(one.rejected for one in audits)
    assert rejected <= MOST
    bounds = [one.epsilon_lower_bound(0.0).epsilon or 0.0 for one in audits[:SCANS]]
    assert sum(bound > epsilon for bound in bounds) <= MOST_SCANS
    plain = sum(played(epsilon, seed, randomised=False).rejected for seed in range(RUNS))
    assert rejected > plain  # or the test above would show nothing


def test_it_never_loses_and_gains_at_the_horizon_only() -> None:
    pairs = [(played(1.5, s, False, 0.95), played(1.5, s, True, 0.95)) for s in range(30)]
    bounds = np.array(
        [[one.epsilon_lower_bound(0.0).epsilon or 0.0 for one in both] for both in pairs]
    )
    assert (bounds[:, 1] >= bounds[:, 0]).all()
    assert bounds[:, 1].mean() > bounds[:, 0].mean()


def test_before_the_horizon_the_draw_changes_nothing() -> None:
    one = EProcess(PureDP(0.5), horizon=9, uniform=1e-9)
    one.extend([[1.0]] * 4, [[0.0]] * 4)
    assert not one.rejected
    assert one.epsilon_lower_bound(0.0).epsilon == 0.0
    one.extend([[1.0]] * 5, [[0.0]] * 5)
    assert one.rejected


def test_at_the_horizon_the_smaller_threshold_decides() -> None:
    plain, aided = EProcess(PureDP(0.5), horizon=5), EProcess(PureDP(0.5), horizon=5, uniform=0.3)
    for process in (plain, aided):
        process.extend([[1.0]] * 5, [[0.0]] * 5)
    assert 6.0 < plain.e_value < 20.0
    assert (plain.rejected, plain.rejected_at) == (False, None)
    assert (aided.rejected, aided.rejected_at) == (True, 5)
    assert (aided.epsilon_lower_bound(0.0).epsilon or 0.0) > 0.5


def test_without_evidence_no_draw_rejects() -> None:
    process = EProcess(PureDP(0.5), horizon=9, uniform=1e-9)
    process.extend([[0.5]] * 9, [[0.5]] * 9)
    assert not process.rejected
    assert process.epsilon_lower_bound(0.0).epsilon == 0.0


def test_a_draw_is_refused_without_a_horizon_or_beyond_it() -> None:
    with pytest.raises(UsageError, match="uniform is given without a horizon"):
        EProcess(PureDP(1.0), uniform=0.5)
    with pytest.raises(UsageError, match="uniform is 0; it must be above 0"):
        EProcess(PureDP(1.0), horizon=9, uniform=0)
    process = EProcess(PureDP(1.0), horizon=2, uniform=0.5)
    with pytest.raises(UsageError, match="there are 3 pairs, and the horizon is 2"):
        process.extend([[1.0]] * 3, [[0.0]] * 3)
