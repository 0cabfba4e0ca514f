"""Exact binomial confidence limits, rounded outwards.

Reference: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of
the binomial" (Biometrika 1934).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from leakbound._check import MOST, of_one_shape, within
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats

OUTWARDS = 1e-9  # relative margin, a thousand times the error of the inverse beta function


def binomial_upper(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> Floats:
    """One-sided upper confidence limit: the largest p with P[Bin(n, p) <= k] >= alpha.

    1 where k = n or n = 0.

    Args:
        successes: Numbers of successes k; any shape.
        trials: Numbers of trials n >= k, at most 1e15; any shape that broadcasts.
        alpha: Error probability of the limit, in [0, 1]; at 0 the limit is 1.

    Guarantee:
        The true probability exceeds the limit with probability at most alpha, at any n.

    Reference:
        Clopper and Pearson (1934).

    Examples:
        >>> round(float(binomial_upper(0, 100, 0.05)), 4)  # 1 - 0.05 ** (1 / 100)
        0.0295
    """
    k, n = of_one_shape(True, successes=successes, trials=within("trials", trials, 0, MOST))
    if not np.all((k >= 0) & (k <= n)):
        raise UsageError("successes must be at least 0, and at most the number of trials.")
    within("alpha", alpha, 0.0, 1.0)
    inside = (k < n) & (n > 0)
    raw = betaincinv(np.where(inside, k + 1, 1.0), np.where(inside, n - k, 1.0), 1 - alpha)
    return np.where(inside, np.minimum(raw * (1 + OUTWARDS), 1.0), 1.0)


def binomial_lower(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> Floats:
    """One-sided lower confidence limit: the smallest p with P[Bin(n, p) >= k] >= alpha.

    0 where k = 0. Arguments are those of `binomial_upper`.

    Guarantee:
        The true probability lies below the limit with probability at most alpha, at any n.
    """
    k, n = of_one_shape(True, successes=successes, trials=within("trials", trials, 0, MOST))
    return np.clip(1 - binomial_upper(n - k, n, alpha), 0.0, 1.0)
