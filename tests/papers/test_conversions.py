"""Numbers that the papers print, or that follow from what they print, without any model."""

import math

import pytest

from leakbound.mechanisms import ReportNoisyMax
from leakbound.privacy import calibrate_gaussian, gaussian_epsilon
from leakbound.stats import accuracy_bound, accuracy_log_odds

TABLE_1 = {0.592: 0.37, 0.658: 0.65, 0.762: 1.16, 0.885: 2.04, 0.572: 0.29, 0.626: 0.51,
           0.716: 0.92, 0.81: 1.45, 0.925: 2.51, 0.83: 1.59}  # fmt: skip


@pytest.mark.parametrize(("accuracy", "epsilon"), list(TABLE_1.items()))
def test_contextleak_table_1(accuracy: float, epsilon: float) -> None:
    """Accuracy to epsilon by log odds."""
    assert accuracy_log_odds(round(accuracy * 1000), 1000).epsilon == pytest.approx(
        epsilon, abs=0.011
    )


@pytest.mark.parametrize(("correct", "bound"), [(229, 0.12), (286, 0.73), (324, 1.24), (370, 2.19)])
def test_what_400_queries_certify(correct: int, bound: float) -> None:
    assert accuracy_bound(correct, 400).epsilon == pytest.approx(bound, abs=0.011)


@pytest.mark.parametrize(
    ("claim", "delta", "exact"), [(8, 1e-3, 8.18), (10, 1e-5, 10.39), (1, 1e-5, 0.751)]
)
def test_the_classical_formula(claim: float, delta: float, exact: float) -> None:
    assert gaussian_epsilon(
        calibrate_gaussian(claim, delta, 1.0, "classical"), 1.0, delta
    ) == pytest.approx(exact, abs=0.005)


def test_tight_auditing_noise_scale() -> None:
    """sigma = 2 sqrt(ln(1.25/delta)) / epsilon for private voting."""
    mechanism = ReportNoisyMax.calibrated(4, 1e-5, 10, "classical")
    assert mechanism.sigma == pytest.approx(2 * math.sqrt(math.log(1.25e5)) / 4)
