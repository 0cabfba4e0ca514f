"""The claim that no attack beats random guessing (epsilon 0 at delta 0), and the test's power.

Under this claim, an answer has the same distribution with and without the record. The test is
therefore two-sided: an attack that is wrong more often than a coin also rejects the claim. A bound
on epsilon tests one side, that members score higher. Neighbouring contexts are symmetric, so the
same pairs with their contexts exchanged also bound epsilon. Each side has half of the error.
"""

from __future__ import annotations

from leakbound.errors import UsageError
from leakbound.estimators.base import ACCURACIES, AccuracyPower, Claim, Estimator
from leakbound.estimators.error_counts import STATISTICS, count_accuracy_power
from leakbound.estimators.simulated_power import process_accuracy_power
from leakbound.stats import Power, one_run_power

RANDOM_GUESSING = "random-guessing"  # as --claim has it


def random_guessing() -> Claim:
    """The claim of OWASP AISVS 1.0, C11.2.5: attacks do no better than random guessing."""
    return Claim(0.0, 0.0)


def is_random_guessing(claim: Claim) -> bool:
    """Whether a claim says that no attack beats random guessing."""
    return claim.epsilon == 0 == claim.delta


def of_one_side(confidence: float) -> float:
    """Confidence for each side at which both sides together have the given confidence."""
    return 1 - (1 - confidence) / 2


def power_against_guessing(
    method: str, pairs: int, confidence: float = 0.95, weight: float = 1.0, early: bool = False
) -> AccuracyPower:
    """Probability that an attack with some accuracy rejects random guessing, exact or simulated."""
    each = of_one_side(confidence)
    if method in STATISTICS:
        return count_accuracy_power(STATISTICS[method], pairs, each)
    if method == "e_process":
        return process_accuracy_power(pairs, each, weight, early)
    if method != "one_run" or not pairs:
        return ()
    return tuple((one, Power(one_run_power(pairs, one, 0.0, 0.0, each))) for one in ACCURACIES)


def two_sided(estimator: Estimator) -> Estimator:
    found = estimator.two_sided()
    if found is None:
        raise UsageError(
            f"random guessing is tested on both sides, and {estimator.name} reads one; use "
            "--estimator e_process, clopper_pearson or unconditional."
        )
    return found
