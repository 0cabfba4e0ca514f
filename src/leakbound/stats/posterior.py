"""The joint Beta posterior of both error rates: a credible bound on epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betainc, betaincinv

from leakbound._check import confidence_level, delta_value
from leakbound.stats.bounds import FRESH, IID, _counts
from leakbound.stats.estimate import Estimate

__all__ = ["joint_beta"]

NODES = 4000


def joint_beta(
    tp: int,
    fn: int,
    fp: int,
    tn: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    threshold: str = "given",
) -> Estimate:
    """Credible lower bound on epsilon: its posterior probability of being exceeded is `confidence`.

    Model: FPR ~ Beta(1/2 + fp, 1/2 + tn) and FNR ~ Beta(1/2 + fn, 1/2 + tp), independent (Jeffreys
    priors). The pair of
    rates needs epsilon where FPR + e^eps FNR < 1 - delta or FNR + e^eps FPR < 1 - delta; that
    region's posterior mass is an
    integral over the quantiles of FPR (4,000 midpoints), the bound its (1 - confidence) quantile by
    bisection, rounded
    down. A Bayesian statement: it has no promise of coverage and decides no verdict. Kind:
    credible. Source:
    Zanella-Béguelin et al. 2023. Raises UsageError for an empty world.
    """
    counts = _counts(tp, fn, fp, tn)
    delta_value(delta)
    alpha = 1 - confidence_level(confidence)
    rates = betaincinv(0.5 + fp, 0.5 + tn, (np.arange(NODES) + 0.5) / NODES)

    def within(epsilon: float) -> float:
        """Posterior probability that epsilon suffices."""
        least = np.maximum(
            (1 - delta - rates) * math.exp(-epsilon), 1 - delta - math.exp(epsilon) * rates
        )
        return 1 - float(betainc(0.5 + fn, 0.5 + tp, np.clip(least, 0.0, 1.0)).mean())

    return Estimate(
        "joint_beta", "credible", _quantile(within, alpha), delta, confidence, counts,
        (IID, FRESH, "both error rates have Jeffreys priors, independent"), threshold=threshold,
    )  # fmt: skip


def _quantile(within: Callable[[float], float], alpha: float) -> float:
    """Largest epsilon with within(epsilon) <= alpha; 0 where none is."""
    low, high = 0.0, 1.0
    if within(0.0) > alpha:
        return 0.0
    while high < 500 and within(high) <= alpha:
        low, high = high, 2 * high
    while high - low > 1e-9 * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) <= alpha else (low, middle)
    return low
