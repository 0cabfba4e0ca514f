"""Output distributions in closed form, and the exact privacy loss between two of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leakbound._check import delta_value, within
from leakbound.errors import UsageError
from leakbound.privacy import (
    discrete_gaussian_delta,
    discrete_gaussian_epsilon,
    gdp_delta,
    gdp_epsilon,
)
from leakbound.stats.arrays import Floats
from leakbound.stats.estimate import Estimate


@dataclass(frozen=True, slots=True)
class GaussianLaw:
    """N(mean, sigma^2 I): the distribution of a noisy aggregate.

    Attributes:
        mean: (dim,) the aggregate before noise.
        sigma: Standard deviation of the noise, at least 0.
    """

    mean: Floats
    sigma: float


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
    high = float(np.abs(np.log(p[both] / q[both])).max()) if both.any() else 0.0
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
