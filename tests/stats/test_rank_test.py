"""Rank and sign tests against enumeration, scipy, and their own level."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, fisher_exact, mannwhitneyu

from leakbound.stats import rank_test, sign_test

VALUES = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


def enumerated(high: list[float], low: list[float]) -> float:
    """Share of all ways to choose `high` whose rank sum is at least as large."""
    values = high + low
    ranks = [
        sum(v < value for v in values) + (sum(v == value for v in values) + 1) / 2
        for value in values
    ]
    found = sum(ranks[: len(high)])
    sums = [sum(ranks[i] for i in some) for some in combinations(range(len(values)), len(high))]
    return sum(one >= found - 1e-9 for one in sums) / len(sums)


def test_values_that_are_none_are_the_largest() -> None:
    none, zeros = [float("nan")] * 4, [0.0] * 4
    assert rank_test(none, zeros) == rank_test([1.0] * 4, zeros)
    assert rank_test(zeros, none) == 1.0


@given(VALUES, VALUES)
def test_small_samples_are_enumerated(high: list[float], low: list[float]) -> None:
    assert rank_test(high, low) == pytest.approx(enumerated(high, low))
    down = enumerated([-v for v in high], [-v for v in low])
    two = min(1.0, 2 * min(enumerated(high, low), down))
    assert rank_test(high, low, two_sided=True) == pytest.approx(two)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 300), st.integers(0, 300))
def test_two_kinds_of_values_are_fishers_exact_test(a: int, b: int, c: int, d: int) -> None:
    found = rank_test([1.0] * a + [0.0] * b, [1.0] * c + [0.0] * d)
    if min(a + b, c + d):
        wanted = fisher_exact([[a, b], [c, d]], alternative="greater").pvalue
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    else:
        assert found == 1.0


def test_large_samples_are_near_the_exact_distribution() -> None:
    rng = np.random.default_rng(0)
    high, low = rng.normal(0.3, 1, 60), rng.normal(0, 1, 50)
    exact = mannwhitneyu(high, low, alternative="greater", method="exact").pvalue
    assert rank_test(high.tolist(), low.tolist()) == pytest.approx(exact, rel=0.03)
    many = rank_test([1.0] * 3000 + [0.0] * 3000, [1.0] * 2900 + [0.0] * 3100)
    wanted = fisher_exact([[3000, 3000], [2900, 3100]], alternative="greater").pvalue
    assert many == pytest.approx(wanted, rel=0.03)


@given(st.lists(st.integers(-2, 2).map(float), max_size=40))
def test_the_sign_test_is_binomial(differences: list[float]) -> None:
    up, down = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    wanted = binomtest(up, up + down).pvalue if up + down else 1.0
    assert sign_test(differences) == pytest.approx(wanted)
