"""Exact binomial confidence limits (Clopper and Pearson 1934), rounded outwards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

__all__ = ["binomial_lower", "binomial_upper"]

Floats = npt.NDArray[np.float64]


def binomial_upper(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> Floats:
    """One-sided upper limit:

    the largest p with P[Bin(n, p) <= k] >= alpha; 1 where k = n or n = 0.
    """
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    inside = (k < n) & (n > 0)
    raw = betaincinv(np.where(inside, k + 1, 1.0), np.where(inside, n - k, 1.0), 1 - alpha)
    return np.where(inside, np.minimum(raw * (1 + 1e-9), 1.0), 1.0)


def binomial_lower(successes: npt.ArrayLike, trials: npt.ArrayLike, alpha: float) -> Floats:
    """One-sided lower limit: the smallest p with P[Bin(n, p) >= k] >= alpha; 0 where k = 0."""
    k, n = np.broadcast_arrays(np.asarray(successes, float), np.asarray(trials, float))
    return np.clip(1 - binomial_upper(n - k, n, alpha), 0.0, 1.0)
