"""Composition of pure and exponential mechanisms, and subsampled Gaussians, with the guarantee that
they give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, log_expit

from leakbound._check import count as whole
from leakbound._check import delta_value, epsilon_value, positive, within
from leakbound.errors import UsageError
from leakbound.privacy.guarantee import Relation, zcdp_epsilon

__all__ = [
    "Subsampled",
    "exponential_composition_epsilon",
    "pure_composition_epsilon",
    "subsampled_gaussian_epsilon",
]


def pure_composition_epsilon(epsilon: float, count: int, delta: float) -> float:
    """Smallest epsilon(delta) of `count` adaptively chosen epsilon-DP mechanisms, exact (Kairouz,
    Oh and Viswanath 2015).

    The worst case is randomised response, count times: its privacy loss is epsilon (2 B - count)
    with B binomial, and
    delta(e) = sum over losses above e of P(loss) (1 - e^(e - loss)). Bisection, rounded up.
    """
    epsilon_value(epsilon)
    delta_value(delta)
    n = whole("count", count)
    if n == 0 or epsilon == 0:
        return 0.0
    if delta == 0 or math.isinf(epsilon):
        return n * epsilon
    k = np.arange(n + 1)
    loss = epsilon * (2 * k - n)
    log_mass = (
        gammaln(n + 1)
        - gammaln(k + 1)
        - gammaln(n - k + 1)
        + k * log_expit(epsilon)
        + (n - k) * log_expit(-epsilon)
    )

    def profile(e: float) -> float:
        above = loss > e
        return float((np.exp(log_mass[above]) * -np.expm1(e - loss[above])).sum())

    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, n * epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if profile(middle) <= delta else (middle, high)
    return high


def exponential_composition_epsilon(epsilon: float, count: int, delta: float) -> float:
    """epsilon(delta) of `count` exponential mechanisms of epsilon each, chosen adaptively: the
    better of zCDP and basic.

    An exponential mechanism of epsilon is epsilon-bounded-range, so epsilon^2/8-zCDP (Cesar and
    Rogers 2021). The optimal
    non-adaptive composition is not used: tokens are chosen adaptively.
    """
    n = whole("count", count)
    epsilon_value(epsilon)
    delta_value(delta)
    return min(n * epsilon, zcdp_epsilon(n * epsilon**2 / 8, delta))


@lru_cache(maxsize=512)
def subsampled_gaussian_epsilon(sigma: float, rate: float, steps: int, delta: float) -> float:
    """epsilon(delta) of `steps` Poisson-subsampled Gaussian mechanisms of unit sensitivity under
    add_remove, by PLD.

    Needs the extra `accounting` (dp-accounting). Pessimistic discretisation, so the value is an
    upper bound. No amplification
    holds for fixed-size samples, public seeds, or one sample used for several queries.
    """
    positive("sigma", sigma)
    within("rate", rate, 0.0, 1.0)
    delta_value(delta)
    if whole("steps", steps) == 0 or rate == 0:
        return 0.0
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        raise UsageError(
            "subsampled accounting needs dp-accounting; install it with: pip install "
            "'leakbound[accounting]'."
        ) from None
    one = pld.from_gaussian_mechanism(sigma, sampling_prob=rate)
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))


@dataclass(frozen=True, slots=True)
class Subsampled:
    """`steps` Poisson-subsampled Gaussians of noise sigma on unit sensitivity, rate q, under
    add_remove: epsilon(delta) by PLD.
    """

    sigma: float
    rate: float
    steps: int
    relation: Relation = "add_remove"

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        within("rate", self.rate, 0.0, 1.0)
        if self.relation != "add_remove":
            raise UsageError(
                f"the relation of a subsampled guarantee is {self.relation!r}; amplification "
                "holds under add_remove."
            )

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at delta; infinite at delta = 0."""
        return (
            math.inf
            if delta == 0
            else subsampled_gaussian_epsilon(self.sigma, self.rate, self.steps, delta)
        )

    def describe(self) -> str:
        return f"{self.steps} Poisson-subsampled Gaussians (rate {self.rate:g}, noise {self.sigma:.4g} on sensitivity 1, {self.relation})"
