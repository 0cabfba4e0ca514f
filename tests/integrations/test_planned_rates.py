"""Tests of a rate that are planned for one rate: exact errors, and nearly as few samples as any."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from leakbound_hosts.rates import PlannedRateTest
from scipy.stats import binom

from leakbound.errors import UsageError

CELLS = [(0.5, 0.8), (0.1, 0.3), (0.9, 0.99), (0.6, 0.3)]


def binomial(limit: float, rate: float) -> int:
    """Smallest fixed number of samples with a power of 90 %; the rate is above the limit."""
    least = [int(binom.isf(0.05, n, limit)) + 1 for n in range(1, 500)]
    powers = [binom.sf(one - 1, n, rate) for n, one in enumerate(least, 1)]
    return 1 + next(n for n, power in enumerate(powers) if power >= 0.9)


def wald(limit: float, rate: float) -> float:
    """No test with these errors takes fewer samples on average."""

    def divergence(a: float, b: float) -> float:
        return a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))

    return divergence(0.9, 0.05) / divergence(rate, limit)


@pytest.mark.parametrize(("limit", "rate"), CELLS)
def test_a_plan_keeps_its_errors_and_takes_hardly_more_than_the_least(
    limit: float, rate: float
) -> None:
    design = PlannedRateTest(limit, rate).design
    assert 0.03 < design.error <= 0.05
    assert 0.9 <= design.power < 0.94
    # the bound is for errors of exactly 5 and 10 %; whole samples cannot have them
    assert wald(limit, rate) <= design.mean < 1.15 * wald(limit, rate)


@pytest.mark.parametrize(("limit", "rate"), [(0.5, 0.8), (0.1, 0.2)])
def test_a_plan_takes_forty_percent_fewer_samples_than_the_exact_binomial_test(
    limit: float, rate: float
) -> None:
    assert PlannedRateTest(limit, rate).design.mean < 0.6 * binomial(limit, rate)


def ends(series: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], PlannedRateTest]]:
    """Every series of scores up to its end, observed score by score."""
    test = PlannedRateTest(0.3, 0.9)
    test.observe(series)
    if test.ended:
        yield series, test
    else:
        yield from (*ends((*series, 0)), *ends((*series, 1)))


def test_the_exact_figures_are_those_of_every_series_by_itself() -> None:
    every, design = list(ends()), PlannedRateTest(0.3, 0.9).design
    assert {test.rejected for _, test in every} == {True, False}
    assert all(test.rejected is (test.e_value >= 20) for _, test in every)
    for rate, chance, mean in (
        (0.9, design.power, design.mean),
        (0.3, design.error, design.mean_at_limit),
    ):
        weights = [math.prod(rate if one else 1 - rate for one in series) for series, _ in every]
        both = list(zip(weights, every, strict=True))
        assert sum(w for w, (_, test) in both if test.rejected) == pytest.approx(chance)
        assert sum(w * len(series) for w, (series, _) in both) == pytest.approx(mean)
    # at the limit, the e-value is a martingale that begins at 1
    assert sum(w * test.e_value for w, (_, test) in both) == pytest.approx(1)


def test_a_rate_within_the_claim_is_rejected_less_often() -> None:
    test = PlannedRateTest(0.5, 0.7)
    chances = [test._bounds.power(rate) for rate in np.linspace(0, 0.5, 26)]
    assert np.all(np.diff(chances) >= 0)
    assert chances[-1] <= 0.05
    assert test.expected_samples(0.9) < test.design.mean


def test_both_sides_are_alike_and_the_end_is_the_end() -> None:
    above, below = PlannedRateTest(0.4, 0.6), PlannedRateTest(0.6, 0.4)
    above.observe([1, 1, 0] * 40)
    below.observe([0, 0, 1] * 40)
    assert (above.rejected_at, above.e_value) == (below.rejected_at, pytest.approx(below.e_value))
    assert above.side == "above"
    assert below.side == "below"
    hopeless = PlannedRateTest(0.4, 0.6)
    hopeless.observe([0] * 20 + [1] * 300)
    assert (hopeless.gave_up, hopeless.rejected, hopeless.e_value) == (True, False, 0.0)


@pytest.mark.parametrize(
    ("limit", "rate", "power", "confidence"),
    [
        (0.2, 0.6, 0.6, 0.999),
        (0.2, 0.6, 0.99, 0.9),
        (0.264, 0.017, 0.999, 0.8),
        (0.01, 0.9, 0.9, 0.95),
    ],
)
def test_any_power_and_confidence_are_kept(
    limit: float, rate: float, power: float, confidence: float
) -> None:
    design = PlannedRateTest(limit, rate, power, confidence).design
    assert design.power >= power
    assert design.error <= 1 - confidence


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((0.5, 0.5), "differ"),
        ((0.0, 0.5), "must be above 0"),
        ((0.5, 0.8, 0.4), "power is 0.4"),
        ((0.5, 0.501), "farther away"),
    ],
)
def test_what_cannot_be_planned_is_refused(given: tuple[float, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        PlannedRateTest(*given)


def test_shares_are_refused() -> None:
    with pytest.raises(UsageError, match="needs scores of 0 and 1"):
        PlannedRateTest(0.5, 0.8).observe([0.5])
