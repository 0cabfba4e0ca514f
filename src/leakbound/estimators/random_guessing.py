"""The claim that no attack beats random guessing (epsilon 0 at delta 0), and the test's power.

Under this claim, an answer has the same distribution with and without the record. The test is
therefore two-sided: an attack that is wrong more often than a coin also rejects the claim. Bounds
on epsilon test one side, that members score higher. Each side has half of the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from leakbound.estimators.base import Claim
from leakbound.estimators.crowd import YesNo
from leakbound.estimators.response import PlainTest, simulated_power
from leakbound.stats import Power, clopper_pearson_power, one_run_power
from leakbound.stats.counts.unconditional import unconditional_power

RANDOM_GUESSING = "random-guessing"  # as --claim has it
# accuracies of attacks for which the power is shown, from hardly better than a coin to strong
ACCURACIES = (0.55, 0.6, 0.7, 0.8, 0.9)


def random_guessing() -> Claim:
    """The claim that attacks do no better than random guessing.

    Guarantee:
        None. This is the hypothesis that is tested.

    Reference:
        OWASP AISVS 1.0, C11.2.5: the accuracy of membership inference does not exceed that of
        random guessing.

    Examples:
        >>> random_guessing().epsilon
        0.0
    """
    return Claim(0.0, 0.0)


def is_random_guessing(claim: Claim) -> bool:
    """Whether a claim says that no attack beats random guessing.

    Guarantee:
        None.

    Reference:
        See `random_guessing`.

    Examples:
        >>> is_random_guessing(Claim(0.0, 0.0, "add_remove"))
        True
    """
    return claim.epsilon == 0 == claim.delta


def of_one_side(confidence: float) -> float:
    """Confidence for each side at which both sides together have the given confidence.

    Examples:
        >>> of_one_side(0.95)
        0.975
    """
    return 1 - (1 - confidence) / 2


def guessing_power(
    method: str, pairs: int, confidence: float = 0.95, weight: float = 1.0, early: bool = False
) -> tuple[tuple[float, Power], ...]:
    """Probability that an attack with a given accuracy rejects random guessing.

    Guarantee:
        Exact, or from 100 to 500 simulated audits, as stated in each power.

    Reference:
        See each method.

    Examples:
        >>> [round(power.chance, 2) for _, power in guessing_power("clopper_pearson", 100)]
        [0.03, 0.31, 0.99, 1.0, 1.0]
    """
    each = of_one_side(confidence)
    known: dict[str, Callable[[float], Power]] = {
        "e_process": lambda right: _simulated(right, pairs, each, weight, early),
        "clopper_pearson": lambda right: Power(
            clopper_pearson_power(pairs, _epsilon(right), 0.0, 0.0, each)
        ),
        "unconditional": lambda right: Power(
            unconditional_power(pairs, _epsilon(right), 0.0, 0.0, each)
        ),
        "one_run": lambda right: Power(one_run_power(pairs, right, 0.0, 0.0, each)),
    }
    power = known.get(method)
    return () if power is None or not pairs else tuple((one, power(one)) for one in ACCURACIES)


def _epsilon(right: float) -> float:
    """epsilon of randomised response with this accuracy."""
    return math.log(right / (1 - right))


def _simulated(right: float, pairs: int, confidence: float, weight: float, early: bool) -> Power:
    aim = None if early else pairs
    test = PlainTest(random_guessing().guarantee(), confidence, 0.0, aim, weight)
    return simulated_power(test, pairs, YesNo(right, 1 - right))
