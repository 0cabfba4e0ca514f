"""Exact laws of a release, and the exact privacy loss of a pair of them:

no sampling, no confidence needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound._check import delta_value, within
from leakbound.errors import UsageError
from leakbound.privacy import gdp_delta, gdp_epsilon
from leakbound.stats.estimate import Estimate

__all__ = ["CategoricalLaw", "GaussianLaw", "exact_privacy_loss", "privacy_profile"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GaussianLaw:
    """N(mean, sigma^2 I): the exact law of a noisy aggregate."""

    mean: Floats
    sigma: float


@dataclass(frozen=True, slots=True)
class CategoricalLaw:
    """The exact probabilities of each released answer."""

    probabilities: Floats


OutputDistribution = GaussianLaw | CategoricalLaw


def exact_privacy_loss(law1: OutputDistribution, law0: OutputDistribution, delta: float) -> Estimate:
    """Exact epsilon(delta) of one pair of worlds, the worse of both directions (internal: analysis,
    no threat model).

    Gaussian laws of equal sigma: mu = |mean1 - mean0| / sigma, epsilon from the Gaussian profile.
    Categorical laws: the
    smallest epsilon with max(sum (p1 - e^eps p0)_+, sum (p0 - e^eps p1)_+) <= delta, rounded up to
    1e-12; at delta = 0 it
    is max |ln p1/p0|, infinite where one is zero. Kind: lower_bound on the mechanism's epsilon,
    certain for this pair.
    """
    delta_value(delta)
    if isinstance(law1, GaussianLaw) and isinstance(law0, GaussianLaw):
        mu = _mu(law1, law0)
        return _exact(gdp_epsilon(mu, delta), delta, mu)
    return _exact(_categorical_epsilon(*_pair(law1, law0), delta), delta, None)


def privacy_profile(law1: OutputDistribution, law0: OutputDistribution, epsilon: float) -> float:
    """The privacy profile of a pair:

    the smallest delta at `epsilon`, the worse of both directions.
    """
    if isinstance(law1, GaussianLaw) and isinstance(law0, GaussianLaw):
        return float(gdp_delta(epsilon, _mu(law1, law0)))
    return _profile(*_pair(law1, law0), epsilon)


def _exact(epsilon: float, delta: float, mu: float | None) -> Estimate:
    return Estimate(
        "exact", "lower_bound", epsilon, delta, 1.0, {"pairs": 1}, ("the release law is as declared",), mu=mu,
        threshold="none: the law is known",
    )  # fmt: skip


def _mu(law1: GaussianLaw, law0: GaussianLaw) -> float:
    if law1.sigma != law0.sigma or np.shape(law1.mean) != np.shape(law0.mean):
        raise UsageError("two Gaussian laws of a pair must have one sigma and means of one shape.")
    distance = math.dist(np.ravel(law1.mean).tolist(), np.ravel(law0.mean).tolist())
    if distance == 0:
        return 0.0
    return distance / law1.sigma if law1.sigma > 0 else math.inf


def _pair(law1: OutputDistribution, law0: OutputDistribution) -> tuple[Floats, Floats]:
    if not (isinstance(law1, CategoricalLaw) and isinstance(law0, CategoricalLaw)):
        raise UsageError(
            "the laws of a pair must be of one kind, both Gaussian or both categorical."
        )
    p, q = (
        np.asarray(within("probabilities", law.probabilities, 0.0, 1.0), float)
        for law in (law1, law0)
    )
    if p.shape != q.shape or abs(p.sum() - 1) > 1e-6 or abs(q.sum() - 1) > 1e-6:
        raise UsageError(
            "categorical laws must have the same answers, with probabilities that sum to 1."
        )
    return p, q


def _profile(p: Floats, q: Floats, epsilon: float) -> float:
    slope = math.exp(min(epsilon, 700.0))
    return float(max(np.maximum(p - slope * q, 0).sum(), np.maximum(q - slope * p, 0).sum()))


def _categorical_epsilon(p: Floats, q: Floats, delta: float) -> float:
    only = max(p[q == 0].sum(), q[p == 0].sum())
    if only > delta:
        return math.inf
    both = (p > 0) & (q > 0)
    high = float(np.abs(np.log(p[both] / q[both])).max()) if both.any() else 0.0
    if delta == 0:
        return high
    low = 0.0
    if _profile(p, q, 0.0) <= delta:
        return 0.0
    while high - low > 1e-12 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (low, middle) if _profile(p, q, middle) <= delta else (middle, high)
        if middle in (low, high) and high - low <= 1e-15 * max(1.0, high):
            break
    return high
