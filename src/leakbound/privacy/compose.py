"""Composition of pure and exponential mechanisms, and of subsampled Gaussian mechanisms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import scipy

from leakbound._check import count as whole_number
from leakbound._check import delta_value, epsilon_value, positive, within
from leakbound._install import install_hint
from leakbound._members import Final
from leakbound.errors import UsageError
from leakbound.privacy.concentrated import zcdp_epsilon
from leakbound.privacy.gaussian import Floats, gaussian_epsilon, gdp_epsilon
from leakbound.privacy.rounding import ROUNDING, bisect, sum_up, times_up

Relation = Literal["replace_one", "add_remove"]  # which data sets are neighbours
INTERVAL = 1e-4  # step of the grid of privacy losses: the default of dp-accounting
MOST_POINTS = 400_000, 1 << 21  # of the grids of one sample and of all: about two seconds
MOST_SAMPLES = 10**8  # above, rounding errors of the transform can reach a delta of 1e-9
MOST_SPARSE = 100_000  # samples up to which dp-accounting may choose how it keeps few points
LARGEST_LOSS = 700.0  # of one sample, and of a step of the grid; e^700 is about the largest float
MOST_EXACT = 1_000_000  # equal mechanisms whose exact composition takes two seconds
MOST_TERMS = 32  # of one epsilon each
MOST_LOSSES = 1 << 18  # of a composition that are kept apart
GRID, GRID_OF_ONE = 1 << 13, 1 << 9  # losses of what was composed, and of the next part
NEGLIGIBLE = 1e-9  # share of delta that losses beyond a grid may have
HALVINGS = 100  # a bisection over n * epsilon below 1e15 is exact to the last bit after 100


def pure_composition_epsilon(epsilon: float, count: int, delta: float) -> float:
    """Smallest epsilon(delta) of `count` adaptively chosen epsilon-DP mechanisms, rounded up.

    The worst case is randomised response, applied `count` times. Its privacy loss is
    epsilon (2 B - count) with B binomial, and delta(e) is the sum over losses above e of
    P(loss) (1 - e^(e - loss)).

    Args:
        epsilon: Pure privacy parameter of each mechanism, at least 0; infinity is allowed.
        count: Number of mechanisms, from 0 to 1e15.

    Guarantee:
        (epsilon, delta)-DP of the composition under the relation of the parts; exact up to 8,192
        mechanisms, at a billionth less than delta up to a million, and by zCDP above.

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
    n = whole_number("count", count)
    if n == 0 or epsilon == 0:
        return 0.0
    if delta == 0 or math.isinf(epsilon):
        return times_up(epsilon, n)
    if n > MOST_EXACT:  # epsilon-DP is epsilon^2/2-zCDP: Bun and Steinke (TCC 2016), Prop. 1.4
        return min(n * epsilon, zcdp_epsilon(n * epsilon**2 / 2, delta))
    return joint_epsilon({epsilon: n}, 0.0, delta)


def joint_epsilon(pure: Mapping[float, int], mu: float, delta: float) -> float:
    """Upper bound on epsilon(delta) of adaptively chosen mechanisms: of each epsilon so many
    epsilon-DP ones, and noise that is mu-GDP in all; exact, but for rounding, for few losses.

    Reference: Kairouz, Oh and Viswanath (ICML 2015); Zhu, Dong and Wang (AISTATS 2022); for the
    grid, Doroshenko et al., "Connect the dots" (PoPETs 2022).
    """
    # worst is randomised response beside Gaussian noise: delta(e) is the mean, over the losses x of
    # the responses, of the profile of the noise at e - x
    terms = sorted((epsilon, count) for epsilon, count in pure.items() if epsilon and count)
    total = sum_up(math.nextafter(epsilon * count, math.inf) for epsilon, count in terms)
    if math.isinf(total) or any(count > MOST_EXACT for _, count in terms):
        return math.inf
    if delta == 0:
        return math.inf if mu else total
    losses, masses, lost, beyond = np.zeros(1), np.ones(1), ROUNDING, 0.0
    least = delta * NEGLIGIBLE / len(terms) if terms else 0.0
    size = max(1, -(-len(terms) // MOST_TERMS))  # of groups that have their largest epsilon
    for group in (terms[at : at + size] for at in range(0, len(terms), size)):
        epsilon, count = group[-1][0], sum(count for _, count in group)
        own, chances, error, rare = _response_losses(epsilon, count, least)
        lost += error
        beyond += rare
        many = losses.size > 1 and losses.size * own.size > MOST_LOSSES
        if many:
            losses, masses, before = _without_tails(losses, masses, least)
            own, chances, gone = _without_tails(own, chances, least)
            losses, masses = _on_grid(losses, masses, GRID)
            own, chances = _on_grid(own, chances, GRID_OF_ONE)
            beyond += before + gone
        losses = np.nextafter(np.add.outer(losses, own).ravel(), math.inf)
        masses = np.multiply.outer(masses, chances).ravel()
        if many:
            losses, masses = _on_grid(losses, masses, GRID)

    def holds(e: float) -> bool:
        return beyond + float((masses * _profile(e - losses, mu, lost)).sum()) <= delta

    if holds(0.0):
        return 0.0
    noise = gdp_epsilon(mu, delta) if mu else 0.0
    return bisect(holds, 0.0, total + noise, HALVINGS)[1]


def _response_losses(epsilon: float, n: int, least: float) -> tuple[Floats, Floats, float, float]:
    """Losses of n randomised responses, chances, rounding error, and the chance of others."""
    middle, most = n * float(scipy.special.expit(epsilon)), n > GRID and least > 0
    # by Hoeffding's inequality
    width = math.sqrt(n / 2 * (math.log(2) - math.log(least))) if most else float(n)
    k = np.arange(max(0, math.floor(middle - width)), min(n, math.ceil(middle + width)) + 1)
    choose = (
        scipy.special.gammaln(n + 1)
        - scipy.special.gammaln(k + 1)
        - scipy.special.gammaln(n - k + 1)
    )
    log_mass = (
        choose + k * scipy.special.log_expit(epsilon) + (n - k) * scipy.special.log_expit(-epsilon)
    )
    lost = ROUNDING * (
        1 + scipy.special.gammaln(n + 1) - n * scipy.special.log_expit(-epsilon) + n * epsilon
    )
    losses, masses = np.nextafter(epsilon * (2 * k - n), math.inf), np.exp(log_mass)
    rare = least if most else 0.0
    return np.asarray(losses, float), np.asarray(masses, float), float(lost), rare


def _profile(e: Floats, mu: float, lost: float) -> Floats:
    """delta of mu-GDP noise at epsilon e, which may be below 0, plus a bound on its rounding."""
    if mu == 0:
        return np.where(e < 0, lost - np.expm1(np.minimum(e, 0.0)), 0.0)
    first, second = (
        scipy.special.log_ndtr(mu / 2 - e / mu),
        e + scipy.special.log_ndtr(-mu / 2 - e / mu),
    )
    lost_here = lost + ROUNDING * (1 + abs(first) + abs(second) + abs(e))
    return np.asarray(np.exp(first) * (lost_here - np.expm1(np.minimum(second - first, 0.0))))


def _without_tails(losses: Floats, masses: Floats, least: float) -> tuple[Floats, Floats, float]:
    """Losses in ascending order without the rarest large ones, whose chance comes last."""
    order = np.argsort(losses)
    ranked, chances = np.asarray(losses[order], float), np.asarray(masses[order], float)
    above = np.cumsum(chances[::-1])[::-1]
    first, end = int(np.argmax(np.cumsum(chances) > least)), int((above > least).sum())
    gone = float(above[end]) if end < losses.size else 0.0
    kept = chances[first:end].copy()
    kept[0] += chances[:first].sum()
    return ranked[first:end], kept, gone


def _on_grid(losses: Floats, masses: Floats, points: int) -> tuple[Floats, Floats]:
    """At most so many losses with a profile that is nowhere smaller: each loss is parted between
    its neighbours so that the chances of both worlds stay as they are."""
    if losses.size <= points:
        return losses, masses
    grid, step = np.linspace(losses.min(), losses.max(), points, retstep=True)
    at = np.minimum(((losses - grid[0]) / step).astype(int), points - 2)
    upper = masses * np.clip(np.expm1(grid[at] - losses) / math.expm1(-step), 0.0, 1.0)
    found = np.bincount(at, masses - upper, points) + np.bincount(at + 1, upper, points)
    return np.asarray(grid, float), np.asarray(found, float)


# a PLD takes a third of a second; a ledger and a search over noise scales repeat the same few
@lru_cache(maxsize=1024)
def subsampled_gaussian_epsilon(
    sigma: float, rate: float, steps: int, delta: float, interval: float = INTERVAL
) -> float:
    """Upper bound on epsilon(delta) of Poisson-subsampled Gaussian mechanisms, composed.

    By privacy loss distributions with a pessimistic grid, for which it needs the extra `accounting`
    (dp-accounting), or where that would be too large, as if nothing were subsampled.

    Args:
        sigma: Standard deviation of the noise on a statistic of unit L2 sensitivity, above 0.
        rate: Probability with which each record enters a sample, in [0, 1].
        steps: Number of samples, each drawn anew, from 0 to 1e15.
        interval: Step of the grid to which privacy losses are rounded, above 0. A coarser one is
            faster and gives a larger bound; it is made coarser if there would be too many points.

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
    n = whole_number("steps", steps)
    if n * rate <= delta:  # with at most this probability, any sample has the record
        return 0.0
    whole = gaussian_epsilon(sigma, math.sqrt(n), delta)
    mu = 1 / sigma
    one_loss = 10 * mu + mu**2
    if delta == 0 or max(one_loss, interval) > LARGEST_LOSS or n > MOST_SAMPLES:
        return whole
    variance = n * min(mu**2 + mu**4, rate**2 * math.expm1(mu**2))
    # about the width of the grid of all, by Chernoff's inequality as in dp-accounting
    width = max(4 * one_loss, 17 * math.sqrt(variance), variance / one_loss)
    given, interval = interval, max(interval, one_loss / MOST_POINTS[0], width / MOST_POINTS[1])
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        raise UsageError(
            "subsampled accounting needs dp-accounting; install it with: "
            f"{install_hint('accounting')}."
        ) from None
    one = pld.from_gaussian_mechanism(
        float(sigma), value_discretization_interval=float(interval), sampling_prob=float(rate)
    )
    if n > MOST_SPARSE:
        dense = (part.to_dense_pmf() for part in (one._pmf_remove, one._pmf_add))
        one = pld.PrivacyLossDistribution(*dense)
    found = float(one.self_compose(n).get_epsilon_for_delta(delta))
    return found if interval == given else min(found, whole)


@dataclass(frozen=True, slots=True)
class Subsampled(Final):
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
        whole_number("steps", self.steps)
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
