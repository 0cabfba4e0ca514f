"""Rates without each pair, and what each pair adds to an estimate of ε."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.stats import roc
from leakbound.stats.curves import pair_accuracies, rates_without_each


def best(member: np.ndarray, nonmember: np.ndarray) -> float:
    fpr, tpr, _ = roc(member.ravel(), nonmember.ravel())
    return float((tpr - fpr).max())


@pytest.mark.parametrize("pairs", [1, 2, 7])
@pytest.mark.parametrize("values", [2, 50])
def test_rates_are_those_of_the_other_pairs_alone(pairs: int, values: int) -> None:
    """Computed again from the pairs that stay; with few values, many scores are equal."""
    rng = np.random.default_rng([pairs, values])
    member, nonmember = (rng.integers(0, values, (pairs, 9)) + shift for shift in (0.5, 0.0))
    found = rates_without_each(member, nonmember)
    assert found.shape == (pairs + 1, 2)
    assert found[0, 0] - found[0, 1] == pytest.approx(best(member, nonmember))
    for i in range(pairs):
        stay = np.arange(pairs) != i if pairs > 1 else np.ones(1, bool)
        of_others = best(member[stay], nonmember[stay])
        assert found[i + 1, 0] - found[i + 1, 1] == pytest.approx(of_others)
    assert 0 <= found.min() <= found.max() <= 1


def test_accuracies_use_the_same_levels() -> None:
    rng = np.random.default_rng(5)
    member, nonmember = rng.normal(1, 1, (6, 40)), rng.normal(0, 1, (6, 40))
    tpr, fpr = rates_without_each(member, nonmember)[0]
    assert np.mean(pair_accuracies(member, nonmember)) <= (1 + tpr - fpr) / 2 + 1e-12
