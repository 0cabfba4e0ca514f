"""Composition of pure and exponential mechanisms, and of subsampled Gaussian mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln, log_expit, logsumexp, xlog1py

from leakbound._check import count as whole_number
from leakbound._check import delta_value, epsilon_value, positive, within
from leakbound._install import install_hint
from leakbound.errors import UsageError
from leakbound.privacy.concentrated import zcdp_epsilon
from leakbound.privacy.gaussian import gaussian_epsilon
from leakbound.privacy.relation import Relation
from leakbound.privacy.renyi import MARGIN, renyi_epsilon
from leakbound.privacy.rounding import MANY, ROUNDING, binomial_masses, bisect, times_up

INTERVAL = 1e-4  # step of the grid of privacy losses: the default of dp-accounting
POINTS = 1 << 17, 1 << 20  # most points of the grid, of one sample and of all: about a second
COARSEST = 1.0  # step of the grid; coarser ones give larger bounds than Renyi divergences
SPARSE = 1 << 17  # most samples with so few points that dp-accounting does not transform them
LEFT_OUT = 1e-15  # probability that dp-accounting leaves out at both ends of the grid
ORDERS = (*range(2, 65), *(1 << k for k in range(7, 13)))  # of Renyi divergences
HALVINGS = 100  # a bisection over n * epsilon below 1e15 is exact to the last bit after 100
CELLS = 100_000  # cells of a binomial distribution; up to 1e8 mechanisms, each is a single count
TAIL = 1e-12  # share of delta that the counts beyond all cells may have, by Hoeffding's inequality


def pure_composition_epsilon(epsilon: float, count: int, delta: float) -> float:
    """Smallest epsilon(delta) of `count` adaptively chosen epsilon-DP mechanisms, rounded up.

    The worst case is randomised response, applied `count` times. Its privacy loss is
    epsilon (2 B - count) with B binomial, and delta(e) is the sum over losses above e of
    P(loss) (1 - e^(e - loss)).

    Args:
        epsilon: Pure privacy parameter of each mechanism, at least 0; infinity is allowed.
        count: Number of mechanisms, from 0 to 1e20.

    Guarantee:
        (epsilon, delta)-DP of the composition under the relation of the parts; exact, and for more
        than 1e8 mechanisms to about a thousandth.

    Reference:
        Kairouz, Oh and Viswanath, "The composition theorem for differential privacy" (ICML 2015).

    Examples:
        >>> pure_composition_epsilon(0.5, 4, 0.0)
        2.0
        >>> round(pure_composition_epsilon(0.1, 100, 1e-5), 4)
        4.3068
    """
    epsilon = float(epsilon_value(epsilon))
    delta_value(delta)
    n = whole_number("count", count, 0, MANY)
    if n == 0 or epsilon == 0:
        return 0.0
    basic = times_up(epsilon, n)
    if delta == 0 or math.isinf(basic):
        return basic
    profile = _response_profile(epsilon, n, delta)
    if profile(0.0) <= delta:
        return 0.0
    return bisect(lambda e: profile(e) <= delta, 0.0, basic, HALVINGS)[1]


def _response_profile(epsilon: float, n: int, delta: float) -> Callable[[float], float]:
    """delta(e) of randomised response, n times, rounded up; for values near a given delta."""
    log_q = float(log_expit(-epsilon))
    mean, reach = n * math.exp(log_q), math.sqrt(n * (-math.log(delta) - math.log(TAIL)) / 2)
    low, high = max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach))
    size = 1 + (high - low) // CELLS
    # numbers of lies; each cell counts with its largest loss and its largest probability
    first = low + size * np.arange((high - low) // size + 1, dtype=float)
    mass = binomial_masses(first, np.minimum(first + size - 1, float(n)), n, log_q)
    loss = epsilon * (float(n) - 2 * first) + ROUNDING * epsilon * n
    beyond = 0.0 if high - low == n else 2 * TAIL * delta

    def profile(e: float) -> float:
        above = loss > e
        return float((mass[above] * -np.expm1(e - loss[above])).sum()) + beyond

    return profile


def exponential_composition_epsilon(epsilon: float, count: int, delta: float) -> float:
    """epsilon(delta) of `count` adaptively chosen exponential mechanisms.

    The better of basic composition and zCDP. An exponential mechanism of epsilon has an
    epsilon-bounded range, hence epsilon^2/8-zCDP. The optimal composition for non-adaptive choices
    is not used: the tokens of a generated text are chosen adaptively.

    Args:
        epsilon: Privacy parameter of each mechanism (range of its log-probabilities), at least 0.
        count: Number of mechanisms, such as generated tokens, from 0 to 1e20.

    Guarantee:
        (epsilon, delta)-DP of the composition under the relation of the parts.

    Reference:
        Durfee and Rogers (2019); Cesar and Rogers, "Bounding, concentrating, and truncating"
        (ALT 2021), Lemma 3.4.

    Examples:
        >>> exponential_composition_epsilon(0.5, 2, 1e-5)
        1.0
    """
    n = whole_number("count", count, 0, MANY)
    epsilon_value(epsilon)
    delta_value(delta)
    if n == 0:
        return 0.0
    return min(n * epsilon, zcdp_epsilon(n * epsilon * epsilon / 8, delta))


# a ledger and a search over noise scales repeat the same few
@lru_cache(maxsize=1024)
def subsampled_gaussian_epsilon(
    sigma: float, rate: float, steps: int, delta: float, interval: float = INTERVAL
) -> float:
    """Upper bound on epsilon(delta) of Poisson-subsampled Gaussian mechanisms, composed.

    By privacy loss distributions with a pessimistic grid, and without one by Renyi divergences;
    needs the extra `accounting` (dp-accounting).

    Args:
        sigma: Standard deviation of the noise on a statistic of unit L2 sensitivity, above 0.
        rate: Probability with which each record enters a sample, in [0, 1].
        steps: Number of samples, each drawn anew, from 0 to 1e20.
        interval: Step of the grid to which privacy losses are rounded, above 0. A coarser one is
            faster and gives a larger bound. It is made coarser if there would be too many points,
            and from 1 on only Renyi divergences are used.

    Raises:
        UsageError: If an argument lies outside its range, or dp-accounting is not installed.

    Guarantee:
        (epsilon, delta)-DP under `add_remove`. No amplification holds for fixed-size samples,
        public seeds, or one sample used for several queries.

    Reference:
        Koskela et al. (AISTATS 2020); Google's dp-accounting; Mironov, Talwar and Zhang, "Renyi
        differential privacy of the sampled Gaussian mechanism" (2019).
    """
    positive("sigma", sigma)
    within("rate", rate, 0.0, 1.0)
    delta_value(delta)
    positive("interval", interval)
    n = whole_number("steps", steps, 0, MANY)
    if n * rate * min(1.0, 0.4 / sigma) <= delta:
        return 0.0  # all samples together change the output with at most this probability
    if delta == 0:
        return math.inf
    found = _renyi_bound(sigma, rate, n, delta)
    loss, losses = 10 / sigma + 0.5 / sigma / sigma, _renyi_bound(sigma, rate, n, LEFT_OUT)
    interval = max(interval, loss / POINTS[0], losses / POINTS[1])
    largest = float(np.logaddexp(xlog1py(1.0, -rate), math.log(rate) + loss))  # of one sample
    if not interval < min(COARSEST, largest) or (n > SPARSE and largest < 2000 * interval):
        return found
    return min(
        found, float(_loss_distribution(sigma, rate, n, interval).get_epsilon_for_delta(delta))
    )


@lru_cache(maxsize=4)  # read at several deltas; one takes up to a second and 20 MB
def _loss_distribution(sigma: float, rate: float, steps: int, interval: float) -> Any:
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
    return one.self_compose(steps)


def _renyi_bound(sigma: float, rate: float, steps: int, delta: float) -> float:
    """epsilon(delta) by the Renyi divergence of the best whole order, or without amplification."""
    values = {order: times_up(_renyi_divergence(sigma, rate, order), steps) for order in ORDERS}
    best = min(ORDERS, key=lambda order: values[order] - math.log(delta) / (order - 1))
    return min(
        renyi_epsilon(float(best), values[best], delta),
        gaussian_epsilon(sigma, math.sqrt(steps), delta),
    )


def _renyi_divergence(sigma: float, rate: float, order: int) -> float:
    """Renyi divergence of one sample: ln(1 + a sum of positive terms)/(order - 1), rounded up."""
    k = np.arange(2.0, order + 1)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    with np.errstate(over="ignore"):
        exponent = np.maximum(k * (k - 1) / 2 / sigma / sigma, 1e-300)
    if np.isinf(exponent[-1]):
        return math.inf
    grown = exponent + np.log(-np.expm1(-exponent))  # ln(e^exponent - 1)
    terms = choose + k * math.log(rate) + xlog1py(order - k, -rate) + grown
    return float(np.logaddexp(0.0, logsumexp(terms))) / (order - 1) * (1 + MARGIN)


@dataclass(frozen=True, slots=True)
class Subsampled:
    """Guarantee of Poisson-subsampled Gaussian mechanisms, composed.

    Attributes:
        sigma: Standard deviation of the noise on a statistic of unit L2 sensitivity.
        rate: Probability with which each record enters a sample, in [0, 1].
        steps: Number of samples.
        relation: Always `add_remove`; amplification holds under no other relation.

    Raises:
        UsageError: If an argument lies outside its range, or the relation is not `add_remove`.
    """

    sigma: float
    rate: float
    steps: int
    relation: Relation = "add_remove"

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        within("rate", self.rate, 0.0, 1.0)
        whole_number("steps", self.steps, 0, MANY)
        if self.relation != "add_remove":
            raise UsageError(
                f"the relation of a subsampled guarantee is {self.relation!r}; it must be "
                "add_remove, because amplification holds under no other relation."
            )

    def epsilon(self, delta: float) -> float:
        """Upper bound, see `subsampled_gaussian_epsilon`; infinity at delta = 0."""
        return subsampled_gaussian_epsilon(self.sigma, self.rate, self.steps, delta)

    def describe(self) -> str:
        return (
            f"{self.steps} Poisson-subsampled Gaussians (rate {self.rate:g}, noise "
            f"{self.sigma:.4g} on sensitivity 1, {self.relation})"
        )
