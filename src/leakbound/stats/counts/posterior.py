"""The joint Beta posterior of both error rates: a credible bound on epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betainc, betaincinv

from leakbound._check import confidence_level, delta_value
from leakbound.stats.counts.bounds import FRESH, IID, error_counts
from leakbound.stats.estimate import Estimate

NODES = 4000  # midpoints of the integral; its error is below 1e-4 of the posterior mass
TOLERANCE = 1e-9  # relative width at which bisection stops, far below the error of the integral


def joint_beta(
    tp: int,
    fn: int,
    fp: int,
    tn: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    threshold: str = "given",
) -> Estimate:
    """Credible lower bound on epsilon: epsilon exceeds it with posterior probability `confidence`.

    The model is FPR ~ Beta(1/2 + fp, 1/2 + tn) and FNR ~ Beta(1/2 + fn, 1/2 + tp), independent
    (Jeffreys priors). The two rates require more than epsilon if FPR + e^eps FNR < 1 - delta or
    FNR + e^eps FPR < 1 - delta. The posterior mass of that region is an integral over the quantiles
    of FPR. The bound is the (1 - confidence) quantile, found by bisection and rounded down.

    Args:
        tp: Canary-in trials called member.
        fn: Canary-in trials called non-member.
        fp: Canary-out trials called member.
        tn: Canary-out trials called non-member.
        delta: Failure probability at which epsilon is stated, in [0, 1).
        confidence: Posterior probability, in (0, 1).
        threshold: How the threshold was chosen, for the record.

    Returns:
        An estimate of kind `credible`. It has no guaranteed coverage and decides no verdict.

    Raises:
        UsageError: If a count is negative, a context has no trial, or delta or confidence lies
            outside its range.

    Reference:
        Zanella-Béguelin et al., "Bayesian estimation of differential privacy" (ICML 2023).

    Examples:
        >>> round(joint_beta(tp=100, fn=0, fp=0, tn=100).epsilon, 1)
        4.9
    """
    counts = error_counts(tp, fn, fp, tn)
    delta_value(delta)
    alpha = 1 - confidence_level(confidence)
    rates = betaincinv(0.5 + fp, 0.5 + tn, (np.arange(NODES) + 0.5) / NODES)

    def suffices(epsilon: float) -> float:
        """Posterior probability that epsilon suffices."""
        least = np.maximum(
            (1 - delta - rates) * math.exp(-epsilon), 1 - delta - math.exp(epsilon) * rates
        )
        return 1 - float(betainc(0.5 + fn, 0.5 + tp, np.clip(least, 0.0, 1.0)).mean())

    return Estimate(
        "joint_beta", "credible", _quantile(suffices, alpha), delta, confidence, counts,
        (IID, FRESH, "both error rates have independent Jeffreys priors"), threshold=threshold,
    )  # fmt: skip


def _quantile(suffices: Callable[[float], float], alpha: float) -> float:
    """Largest epsilon with suffices(epsilon) <= alpha; 0 if there is none."""
    low, high = 0.0, 1.0
    if suffices(0.0) > alpha:
        return 0.0
    while high < 500 and suffices(high) <= alpha:  # e^500 is still a float
        low, high = high, 2 * high
    while high - low > TOLERANCE * max(1.0, high):
        middle = (low + high) / 2
        low, high = (middle, high) if suffices(middle) <= alpha else (low, middle)
    return low
