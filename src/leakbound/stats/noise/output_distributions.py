"""Output distributions in closed form, and the exact privacy loss between two of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from leakbound._check import delta_value, epsilon_value, within
from leakbound.errors import UsageError
from leakbound.privacy import (
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    discrete_gaussian_pmf,
    gdp_delta,
    gdp_epsilon,
)
from leakbound.stats.arrays import Floats
from leakbound.stats.estimate import Estimate
from leakbound.stats.noise.best_votes import best_chance


@dataclass(frozen=True, slots=True)
class GaussianLaw:
    """N(mean, sigma^2 I): the distribution of a noisy aggregate.

    Attributes:
        mean: (dim,) the aggregate before noise.
        sigma: Standard deviation of the noise, at least 0.
    """

    mean: Floats
    sigma: float

    def linear_chances(self, weights: Floats, offset: float, levels: Floats) -> Floats:
        """(K,) chances that `output @ weights - offset` is at or above each level."""
        middle = float(self.mean @ weights) - offset
        spread = self.sigma * float(np.linalg.norm(weights))
        if spread == 0:
            return np.asarray(middle >= levels, float)
        return np.asarray(scipy.special.ndtr((middle - levels) / spread))

    def difference_chances(self, one: int, other: int, scale: float, levels: Floats) -> Floats:
        """(K,) chances that the scaled difference of two noisy counts is at or above each level."""
        weights = np.zeros(self.mean.size)
        weights[one], weights[other] = scale, -scale
        return self.linear_chances(weights, 0.0, levels)

    def margin_chances(self, one: int, scale: float, levels: Floats) -> Floats | None:
        """The same of a noisy count minus the largest other one; None without noise."""
        if self.sigma == 0 or self.mean.size < 2:
            return None
        others = np.delete(self.mean, one)
        found = best_chance(self.mean[[one]], others[None], self.sigma, levels / scale)
        return np.asarray(found[0])

    def win_chance(self, one: int) -> float | None:
        """Chance that a noisy count is the largest; None without noise."""
        wins = self.margin_chances(one, 1.0, np.zeros(1))
        return None if wins is None else float(wins[0])


@dataclass(frozen=True, slots=True)
class CategoricalLaw:
    """Output probabilities of a mechanism that chooses among finitely many outputs.

    Attributes:
        probabilities: (outputs,) numbers in [0, 1] that sum to 1.
    """

    probabilities: Floats


@dataclass(frozen=True, slots=True)
class DiscreteGaussianLaw:
    """Integer counts with independent discrete Gaussian noise."""

    mean: Floats
    sigma: float

    def difference_chances(self, one: int, other: int, scale: float, levels: Floats) -> Floats:
        """As those of `GaussianLaw`."""
        noise = discrete_gaussian_pmf(self.sigma)
        mass = np.convolve(noise, noise)
        gap = np.arange(mass.size) - mass.size // 2 + self.mean[one] - self.mean[other]
        return np.asarray((scale * gap >= levels[:, None]) @ mass)

    def margin_chances(self, one: int, scale: float, levels: Floats) -> Floats:
        """As those of `GaussianLaw`."""
        noise, steps = self._noise()
        others = np.delete(self.mean, one)
        most = np.floor(self.mean[one] + steps - np.ceil(levels / scale - 1e-9)[:, None])
        below = np.stack([at_most(noise, most - mean) for mean in others])
        return np.asarray(below.prod(0) @ noise)

    def win_chance(self, one: int) -> float:
        """Chance that a noisy count is the largest, with ties broken at random.

        Every count gets an independent uniform priority; that of this count is t. Another count
        loses if it is smaller, or equal with a smaller priority. The resulting polynomial in t is
        integrated exactly.
        """
        noise, steps = self._noise()
        others = np.delete(self.mean, one)
        points, weights = np.polynomial.legendre.leggauss(others.size // 2 + 1)
        priorities, top = (points + 1) / 2, self.mean[one] + steps
        below = np.stack([at_most(noise, top - 1 - mean) for mean in others])
        even = np.stack([at_most(noise, top - mean) for mean in others]) - below
        wins = (below[..., None] + even[..., None] * priorities).prod(0)  # (steps, priorities)
        return float(noise @ wins @ weights / 2)

    def _noise(self) -> tuple[Floats, Floats]:
        """Probabilities of the noise, and the whole numbers they belong to."""
        noise = discrete_gaussian_pmf(self.sigma)
        return noise, np.arange(noise.size, dtype=np.float64) - noise.size // 2


def at_most(noise: Floats, limits: Floats) -> Floats:
    """P(noise <= limit) for whole limits."""
    sums = np.concatenate([[0.0], np.cumsum(noise)])
    places = np.clip(np.rint(limits) + noise.size // 2 + 1, 0, noise.size)
    return np.asarray(np.minimum(sums[places.astype(np.int64)], 1.0))


OutputDistribution = GaussianLaw | CategoricalLaw | DiscreteGaussianLaw


TOLERANCE = 1e-12  # width of a bisection: 10,000 times the rounding error of a float near 1
LARGEST_EXPONENT = 700.0  # e^700 is about the largest float


def exact_privacy_loss(
    law1: OutputDistribution, law0: OutputDistribution, delta: float
) -> Estimate:
    """Exact epsilon(delta) of one pair of neighbouring contexts, the worse of both directions.

    For Gaussian distributions of equal sigma, mu = |mean1 - mean0| / sigma, and epsilon follows
    from the Gaussian profile. For discrete Gaussians it follows from the sum of the losses of all
    counts. For categorical distributions it is the smallest epsilon with
    max(sum (p1 - e^eps p0)_+, sum (p0 - e^eps p1)_+) <= delta, rounded up to 1e-12. At delta = 0
    that is max |ln p1/p0|, which is infinite if only one of the probabilities is zero. It requires
    internal access, so it is for analysis and never a threat model.

    Args:
        law1: Output distribution of the canary-in context.
        law0: Output distribution of the canary-out context, of the same type and shape.

    Raises:
        UsageError: If the distributions differ in type or shape, or are not distributions.

    Guarantee:
        Exact for this pair if the outputs follow the declared distributions.

    Reference:
        Balle and Wang (2018) for Gaussians; the definition of (epsilon, delta)-DP otherwise.

    Examples:
        >>> response = [CategoricalLaw(np.array(p)) for p in ([0.75, 0.25], [0.25, 0.75])]
        >>> round(exact_privacy_loss(*response, delta=0.0).epsilon, 6)  # ln 3
        1.098612
    """
    delta_value(delta)
    if isinstance(law1, GaussianLaw) and isinstance(law0, GaussianLaw):
        mu = _mu(law1, law0)
        return _exact(gdp_epsilon(mu, delta), delta, mu)
    if isinstance(law1, DiscreteGaussianLaw) and isinstance(law0, DiscreteGaussianLaw):
        shift = _shift(law1, law0)
        return _exact(discrete_gaussian_epsilon(law1.sigma, shift, delta), delta, None)
    return _exact(_categorical_epsilon(*_probabilities(law1, law0), delta), delta, None)


def privacy_profile(law1: OutputDistribution, law0: OutputDistribution, epsilon: float) -> float:
    """Smallest delta at `epsilon` of one pair of neighbouring contexts, the worse direction.

    The output distributions and errors are those of `exact_privacy_loss`.

    Examples:
        >>> response = [CategoricalLaw(np.array(p)) for p in ([0.75, 0.25], [0.25, 0.75])]
        >>> privacy_profile(*response, epsilon=0.0)
        0.5
    """
    epsilon_value(epsilon)
    if isinstance(law1, GaussianLaw) and isinstance(law0, GaussianLaw):
        return float(gdp_delta(epsilon, _mu(law1, law0)))
    if isinstance(law1, DiscreteGaussianLaw) and isinstance(law0, DiscreteGaussianLaw):
        shift = _shift(law1, law0)
        return discrete_gaussian_delta(epsilon, law1.sigma, shift) if any(shift) else 0.0
    return _profile(*_probabilities(law1, law0), epsilon)


def _exact(epsilon: float, delta: float, mu: float | None) -> Estimate:
    return Estimate(
        "exact", "lower_bound", epsilon, delta, 1.0, {"pairs": 1},
        ("outputs follow the declared distribution",), mu=mu,
        threshold="none: the output distribution is known",
    )  # fmt: skip


def _mu(law1: GaussianLaw, law0: GaussianLaw) -> float:
    if law1.sigma != law0.sigma or np.shape(law1.mean) != np.shape(law0.mean):
        raise UsageError(
            "two Gaussian output distributions must have equal sigma and means of the same shape."
        )
    distance = math.dist(np.ravel(law1.mean).tolist(), np.ravel(law0.mean).tolist())
    if distance == 0:
        return 0.0
    return distance / law1.sigma if law1.sigma > 0 else math.inf


def _shift(law1: DiscreteGaussianLaw, law0: DiscreteGaussianLaw) -> tuple[int, ...]:
    if law1.sigma != law0.sigma or np.shape(law1.mean) != np.shape(law0.mean):
        raise UsageError(
            "two discrete Gaussians must have equal sigma and means of the same shape."
        )
    gap = np.ravel(np.asarray(law1.mean, float) - np.asarray(law0.mean, float))
    if not (gap == np.rint(gap)).all():
        raise UsageError("the means of two discrete Gaussians must differ by whole numbers.")
    return tuple(int(step) for step in gap)


def _probabilities(law1: OutputDistribution, law0: OutputDistribution) -> tuple[Floats, Floats]:
    if not (isinstance(law1, CategoricalLaw) and isinstance(law0, CategoricalLaw)):
        raise UsageError(
            "both output distributions must be of the same kind: Gaussian, discrete Gaussian or "
            "categorical."
        )
    p, q = (
        np.asarray(within("probabilities", law.probabilities, 0.0, 1.0), float)
        for law in (law1, law0)
    )
    if p.shape != q.shape or abs(p.sum() - 1) > 1e-6 or abs(q.sum() - 1) > 1e-6:  # float32 softmax
        raise UsageError(
            "categorical output distributions must have the same answers, with probabilities "
            "that sum to 1."
        )
    return p, q


def _profile(p: Floats, q: Floats, epsilon: float) -> float:
    slope = math.exp(min(epsilon, LARGEST_EXPONENT))
    return float(max(np.maximum(p - slope * q, 0).sum(), np.maximum(q - slope * p, 0).sum()))


def _categorical_epsilon(p: Floats, q: Floats, delta: float) -> float:
    if max(p[q == 0].sum(), q[p == 0].sum()) > delta:
        return math.inf
    both = (p > 0) & (q > 0)
    high = float(np.abs(np.log(p[both]) - np.log(q[both])).max()) if both.any() else 0.0
    if delta == 0:
        return high
    if _profile(p, q, 0.0) <= delta:
        return 0.0
    low = 0.0
    while high - low > TOLERANCE * max(1.0, high):
        middle = (low + high) / 2
        low, high = (low, middle) if _profile(p, q, middle) <= delta else (middle, high)
        if middle in (low, high) and high - low <= 1e-15 * max(1.0, high):
            break  # neighbouring floats: the interval cannot be halved
    return high
