"""The claim that no attack beats random guessing (epsilon 0 at delta 0), and the test's power.

Under this claim, an answer has the same distribution with and without the record. The test is
therefore two-sided: an attack that is wrong more often than a coin also rejects the claim. Bounds
on epsilon test one side, that members score higher. Each side has half of the error.
"""

from __future__ import annotations

import math

from leakbound.estimators.base import Claim
from leakbound.estimators.error_counts import STATISTICS
from leakbound.estimators.simulated_power import PlainTest, YesNo, simulated_power
from leakbound.stats import Power, one_run_power

RANDOM_GUESSING = "random-guessing"  # as --claim has it
# accuracies of attacks for which the power is shown, from hardly better than a coin to strong
ACCURACIES = (0.55, 0.6, 0.7, 0.8, 0.9)
COUNTED = {name: one.power for name, one in STATISTICS.items() if one.power is not None}


def random_guessing() -> Claim:
    """The claim of OWASP AISVS 1.0, C11.2.5: attacks do no better than random guessing."""
    return Claim(0.0, 0.0)


def is_random_guessing(claim: Claim) -> bool:
    """Whether a claim says that no attack beats random guessing."""
    return claim.epsilon == 0 == claim.delta


def of_one_side(confidence: float) -> float:
    """Confidence for each side at which both sides together have the given confidence."""
    return 1 - (1 - confidence) / 2


def guessing_power(
    method: str, pairs: int, confidence: float = 0.95, weight: float = 1.0, early: bool = False
) -> tuple[tuple[float, Power], ...]:
    """Probability that an attack with a given accuracy rejects random guessing.

    Guarantee: exact, or from 100 to 500 simulated audits, as stated in each power.
    """
    each, tested = of_one_side(confidence), random_guessing().guarantee()

    def power(right: float) -> Power:
        if method == "e_process":
            test = PlainTest(tested, each, 0.0, None if early else pairs, weight)
            return simulated_power(test, pairs, YesNo(right, 1 - right))
        if method == "one_run":
            return Power(one_run_power(pairs, right, 0.0, 0.0, each))
        epsilon = math.log(right / (1 - right))  # of randomised response with this accuracy
        return Power(COUNTED[method](pairs, epsilon, 0.0, 0.0, each))

    known = method in ("e_process", "one_run", *COUNTED)
    return tuple((one, power(one)) for one in ACCURACIES) if known and pairs else ()
