"""Rates without each pair, and what each pair adds to an estimate of ε."""

from __future__ import annotations

import numpy as np
import pytest
from leakbound_lab.reproduce.claim_tests import compare
from leakbound_lab.reproduce.values import Sample

from leakbound.stats import gdp, roc
from leakbound.stats.curves.curves import pair_accuracies, rates_without_each


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


def added(rng: np.random.Generator, kind: str) -> Sample:
    """What each of 24 pairs adds to ε: yes or no, or scores of which some pairs show nothing."""
    pairs, draws = 24, 200
    if kind == "yes or no":
        rates = np.clip(rng.normal([[0.6], [0.4]], 0.15, (2, pairs)), 0, 1)[:, :, None]
        scores = (rng.random((2, pairs, draws)) < rates).astype(float)
    else:
        scores = rng.normal(0, 1, (2, pairs, draws))
        scores[0] += 2 * (rng.random(pairs) < 0.85)[:, None]
    n = pairs * draws
    counts = (rates_without_each(*scores) * n).round().astype(int)
    every, *without = (gdp(t, n - t, f, n - f).details["implied_epsilon"] for t, f in counts)
    return Sample(tuple(pairs * every - (pairs - 1) * one for one in without), "pair", "s")


@pytest.mark.parametrize(
    "kind", ["some show nothing", pytest.param("yes or no", marks=pytest.mark.slow)]
)
def test_estimates_of_one_kind_seldom_differ(kind: str) -> None:
    """At 5 %, or a little more often, since the test is approximate; false alarm below 1e-6."""
    rng, audits = np.random.default_rng(7), 60
    found = [compare(added(rng, kind), added(rng, kind), 0.0).claimed for _ in range(audits)]
    assert sum(p <= 0.05 for p in found) <= 0.1 * audits + 4.9 * (0.1 * 0.9 * audits) ** 0.5
