"""The default estimator needs as few pairs as the docs say."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from leakbound.privacy import calibrate_gaussian

sys.path.append(str(Path(__file__).parents[2] / "bench"))
few_calls = pytest.importorskip("few_calls")


@pytest.mark.parametrize(
    ("claim", "most", "audits"), [(1.0, 76, 16), pytest.param(8.0, 112, 40, marks=pytest.mark.slow)]
)
def test_the_default_reaches_90_percent_of_mu_in_as_few_pairs_as_stated(
    claim: float, most: int, audits: int
) -> None:
    """T = 10, a canary that is noticed with .98; the default needed 368 and 140 pairs."""
    sigma = calibrate_gaussian(claim, few_calls.DELTA, math.sqrt(2))
    goal = few_calls.SHARE * few_calls.true_mu(0.98, 0.0, sigma)
    rng = np.random.default_rng([3, int(claim)])
    needed = [few_calls.pairs_needed(0.98, 0.0, sigma, goal, rng) for _ in range(audits)]
    assert np.median(needed) <= most, sorted(needed)
