"""Composition of pure and exponential mechanisms, and of subsampled Gaussian mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, log_expit

from leakbound._check import count as whole_number
from leakbound._check import delta_value, epsilon_value, positive, within
from leakbound._install import install_hint
from leakbound.errors import UsageError
from leakbound.privacy.concentrated import zcdp_epsilon
from leakbound.privacy.relation import Relation
from leakbound.privacy.rounding import ROUNDING, bisect

INTERVAL = 1e-4  # step of the grid of privacy losses: the default of dp-accounting
HALVINGS = 100  # a bisection over n * epsilon below 1e15 is exact to the last bit after 100


def pure_composition_epsilon(epsilon: float, count: int, delta: float) -> float:
    """Smallest epsilon(delta) of `count` adaptively chosen epsilon-DP mechanisms, rounded up.

    The worst case is randomised response, applied `count` times. Its privacy loss is
    epsilon (2 B - count) with B binomial, and delta(e) is the sum over losses above e of
    P(loss) (1 - e^(e - loss)).

    Args:
        epsilon: Pure privacy parameter of each mechanism, at least 0; infinity is allowed.
        count: Number of mechanisms, at least 0.

    Guarantee:
        (epsilon, delta)-DP of the composition under the relation of the parts; exact.

    Reference:
        Kairouz, Oh and Viswanath, "The composition theorem for differential privacy" (ICML 2015).

    Examples:
        >>> pure_composition_epsilon(0.5, 4, 0.0)
        2.0
        >>> round(pure_composition_epsilon(0.1, 100, 1e-5), 4)
        4.3068
    """
    epsilon_value(epsilon)
    delta_value(delta)
    n = whole_number("count", count)
    if n == 0 or epsilon == 0:
        return 0.0
    if delta == 0 or math.isinf(epsilon):
        return n * epsilon
    profile = _response_profile(epsilon, n)
    if profile(0.0) <= delta:
        return 0.0
    return bisect(lambda e: profile(e) <= delta, 0.0, n * epsilon, HALVINGS)[1]


def _response_profile(epsilon: float, n: int) -> Callable[[float], float]:
    """delta(e) of randomised response, n times, plus a bound on the rounding error."""
    k = np.arange(n + 1)
    loss = epsilon * (2 * k - n)
    choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    log_mass = choose + k * log_expit(epsilon) + (n - k) * log_expit(-epsilon)

    lost = ROUNDING * (1 + gammaln(n + 1) - n * log_expit(-epsilon) + n * epsilon)

    def profile(e: float) -> float:
        above = loss > e
        return float((np.exp(log_mass[above]) * (lost - np.expm1(e - loss[above]))).sum())

    return profile


def exponential_composition_epsilon(epsilon: float, count: int, delta: float) -> float:
    """epsilon(delta) of `count` adaptively chosen exponential mechanisms.

    The better of basic composition and zCDP. An exponential mechanism of epsilon has an
    epsilon-bounded range, hence epsilon^2/8-zCDP. The optimal composition for non-adaptive choices
    is not used: the tokens of a generated text are chosen adaptively.

    Args:
        epsilon: Privacy parameter of each mechanism (range of its log-probabilities), at least 0.
        count: Number of mechanisms, such as generated tokens, at least 0.

    Guarantee:
        (epsilon, delta)-DP of the composition under the relation of the parts.

    Reference:
        Durfee and Rogers (2019); Cesar and Rogers, "Bounding, concentrating, and truncating"
        (ALT 2021), Lemma 3.4.

    Examples:
        >>> exponential_composition_epsilon(0.5, 2, 1e-5)
        1.0
    """
    n = whole_number("count", count)
    epsilon_value(epsilon)
    delta_value(delta)
    return min(n * epsilon, zcdp_epsilon(n * epsilon**2 / 8, delta))


# a PLD takes a third of a second; a ledger and a search over noise scales repeat the same few
@lru_cache(maxsize=1024)
def subsampled_gaussian_epsilon(
    sigma: float, rate: float, steps: int, delta: float, interval: float = INTERVAL
) -> float:
    """Upper bound on epsilon(delta) of Poisson-subsampled Gaussian mechanisms, composed.

    By privacy loss distributions with a pessimistic grid; needs the extra `accounting`
    (dp-accounting).

    Args:
        sigma: Standard deviation of the noise on a statistic of unit L2 sensitivity, above 0.
        rate: Probability with which each record enters a sample, in [0, 1].
        steps: Number of samples, each drawn anew, at least 0.
        interval: Step of the grid to which privacy losses are rounded, above 0. A coarser one is
            faster and gives a larger bound.

    Raises:
        UsageError: If an argument lies outside its range, or dp-accounting is not installed.

    Guarantee:
        (epsilon, delta)-DP under `add_remove`. No amplification holds for fixed-size samples,
        public seeds, or one sample used for several queries.

    Reference:
        Koskela et al. (AISTATS 2020); Google's dp-accounting.
    """
    positive("sigma", sigma)
    within("rate", rate, 0.0, 1.0)
    delta_value(delta)
    positive("interval", interval)
    if whole_number("steps", steps) == 0 or rate == 0:
        return 0.0
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        raise UsageError(
            "subsampled accounting needs dp-accounting; install it with: "
            f"{install_hint('accounting')}."
        ) from None
    one = pld.from_gaussian_mechanism(
        sigma, value_discretization_interval=interval, sampling_prob=rate
    )
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))


@dataclass(frozen=True, slots=True)
class Subsampled:
    """Guarantee of Poisson-subsampled Gaussian mechanisms, composed.

    Attributes:
        sigma: Standard deviation of the noise on a statistic of unit L2 sensitivity.
        rate: Probability with which each record enters a sample, in [0, 1].
        steps: Number of samples.
        relation: Always `add_remove`; amplification holds under no other relation.

    Raises:
        UsageError: If sigma or rate lies outside its range, or the relation is not `add_remove`.
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
                f"the relation of a subsampled guarantee is {self.relation!r}; it must be "
                "add_remove, because amplification holds under no other relation."
            )

    def epsilon(self, delta: float) -> float:
        """Upper bound, see `subsampled_gaussian_epsilon`; infinity at delta = 0."""
        if delta == 0:
            return math.inf
        return subsampled_gaussian_epsilon(self.sigma, self.rate, self.steps, delta)

    def describe(self) -> str:
        return (
            f"{self.steps} Poisson-subsampled Gaussians (rate {self.rate:g}, noise "
            f"{self.sigma:.4g} on sensitivity 1, {self.relation})"
        )
