"""The published bootstrap of collected votes: a point estimate, and no bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from leakbound_lab.studies.resampled import bootstrap_estimate

from leakbound.errors import UsageError
from leakbound.stats import gdp


def test_resampled_is_a_point_estimate_near_the_truth_of_its_votes() -> None:
    rng = np.random.default_rng(2)
    member, nonmember = np.ones(200), np.zeros(200)
    found = bootstrap_estimate(member, nonmember, 1 / 0.8, rng)
    assert found.kind == "point_estimate"
    assert found.confidence is None
    assert found.mu == pytest.approx(0.8, abs=0.03)
    twin = [
        rng.choice(v, 200_000) + rng.normal(0, 1 / 0.8, 200_000) >= 0.5 for v in (member, nonmember)
    ]
    tp, fp = (int(t.sum()) for t in twin)
    assert gdp(tp, 200_000 - tp, fp, 200_000 - fp).mu == pytest.approx(found.mu, abs=0.02)


def test_resampled_finds_leakage_where_there_is_none() -> None:
    """Why it is no bound: votes of a system that leaks nothing."""
    rng = np.random.default_rng(3)
    found = [
        bootstrap_estimate(*rng.binomial(4, 0.1, (2, 200)), 1.0, rng, repeats=1).mu or 0.0  # type: ignore[misc]
        for _ in range(40)
    ]
    assert np.mean(np.array(found) > 0) > 0.15


@pytest.mark.parametrize(
    ("votes", "trials", "sentence"),
    [(math.nan, 400, "1 NaN scores"), (1.0, 1, "at least 2 and 1")],
)
def test_bad_votes_and_trials_are_refused(votes: float, trials: int, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        bootstrap_estimate([1], [votes], 1.0, np.random.default_rng(0), trials=trials)
