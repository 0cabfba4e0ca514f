"""The bound of one run exceeds the truth in at most 1 - confidence of the runs."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest
from scipy.stats import binom

from leakbound.stats import canaries_to_reject, one_run, one_run_power, right_to_reject

BENCH = Path(__file__).parents[2] / "bench" / "one_run_coverage.py"
RUNS = 1000


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("one_run_coverage", BENCH)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_chance_of_a_false_alarm_is_at_most_the_allowed_one(confidence: float) -> None:
    """Exact: the right guesses under randomised response by record are binomial."""
    for m in (2, 10, 60, 300):
        for epsilon in (0.0, 0.3, 1.0, 2.5, 5.0):
            truth = 1 / (1 + math.exp(-epsilon))
            needed = right_to_reject(m, epsilon, 0.0, confidence)
            chance = 0.0 if needed is None else binom.sf(needed - 1, m, truth)
            assert chance <= 1 - confidence + 1e-12
            assert one_run_power(m, truth, epsilon, 0.0, confidence) == pytest.approx(chance)


def test_stores_of_every_kind_raise_no_more_alarms_than_allowed(study: ModuleType) -> None:
    """Seeded. More alarms than the limit have a chance below 1e-7 in each of the 18 cases."""
    limit = binom.isf(1e-7, RUNS, 1 - study.CONFIDENCE)
    found = {
        f"{one.name}, {one.canaries}, {one.epsilon:g}": study.alarms(one, RUNS, 1)[0]
        for one in study.cases()
    }
    assert len(found) == 18
    assert all(number <= limit for number in found.values()), found


def test_what_a_claim_needs_is_what_the_bound_says() -> None:
    for epsilon, delta in ((1.0, 0.0), (2.0, 1e-5), (4.0, 1e-5)):
        needed = canaries_to_reject(lambda m, e=epsilon, d=delta: (e, d))  # type: ignore[misc]
        assert needed is not None
        assert (one_run(needed, needed, needed, delta).epsilon or 0) > epsilon
        assert (one_run(needed - 1, needed - 1, needed - 1, delta).epsilon or 0) <= epsilon
        right = right_to_reject(200, epsilon, delta)
        assert right is not None
        assert (one_run(200, 200, right, delta).epsilon or 0) > epsilon
        assert (one_run(200, 200, right - 1, delta).epsilon or 0) <= epsilon
    # a claim for each of 16 + m answers outgrows what m canaries can show
    assert canaries_to_reject(lambda m: (m + 16.0, 0.0)) is None
    assert right_to_reject(10, 4.0) is None
    assert one_run_power(10, 1.0, 4.0) == 0
