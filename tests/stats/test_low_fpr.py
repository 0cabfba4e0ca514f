"""TPR at low FPR: against the closed form of two normal distributions, and its interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from leakbound.stats import tpr_at_fpr
from leakbound.stats.curves.curves import rate_at_fpr


@pytest.mark.parametrize("fpr", [0.1, 0.01, 0.001])
def test_it_is_that_of_the_distributions(fpr: float) -> None:
    """Scores N(1.5, 1) and N(0, 1): 40 pairs with 5,000 outputs each, all alike."""
    rng = np.random.default_rng(1)
    member, nonmember = (mean + rng.normal(size=(40, 5000)) for mean in (1.5, 0.0))
    found = rate_at_fpr(member, nonmember, fpr)
    assert found.tpr == pytest.approx(ndtr(1.5 + ndtri(fpr)), abs=0.02)
    assert found.tpr <= tpr_at_fpr(member, nonmember, fpr) + 1e-6
    assert found.low <= found.tpr <= found.high


def test_its_interval_is_as_wide_as_pairs_differ() -> None:
    """30 of 40 members score above every other score: a binomial share of 40."""
    member = np.repeat([[2.0]] * 30 + [[0.0]] * 10, 50, axis=1)
    found = rate_at_fpr(member, np.ones((40, 50)), 0.01)
    assert found.tpr == 0.75
    assert (found.low, found.high) == pytest.approx((0.61, 0.88), abs=0.04)


def test_many_pairs_are_drawn_in_blocks() -> None:
    member = np.ones((20_001, 1))
    assert rate_at_fpr(member, member - 1, 0.001).low == 1.0


def test_a_rate_that_no_output_could_show_has_an_interval_that_says_so() -> None:
    """40 outputs say nothing of a false-positive rate of a thousandth."""
    found = rate_at_fpr(np.ones((40, 1)), np.zeros((40, 1)), 0.001)
    assert (found.low, found.high) == (0.0, 1.0)
    enough = rate_at_fpr(np.ones((40, 1)), np.zeros((40, 1)), 0.1)
    assert enough.low > 0.5
