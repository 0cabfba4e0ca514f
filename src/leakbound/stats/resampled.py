"""The published bootstrap of clean votes, kept for reproduction: its interval is none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from leakbound._check import count, delta_value, positive
from leakbound.errors import UsageError
from leakbound.stats.bounds import gdp
from leakbound.stats.curves import clean_scores
from leakbound.stats.estimate import Estimate

__all__ = ["resampled"]

Floats = npt.NDArray[np.float64]


def resampled(
    member_votes: npt.ArrayLike,
    nonmember_votes: npt.ArrayLike,
    sigma: float,
    rng: np.random.Generator,
    delta: float = 1e-5,
    trials: int = 400_000,
    repeats: int = 5,
) -> Estimate:
    """Point estimate of mu and its implied epsilon as XL computes them: votes drawn with
    replacement, noise added, limits taken.

    Each repeat draws `trials`/2 noisy votes a world and takes the best threshold's mu by
    Clopper-Pearson limits; the
    repeats are averaged. Treating a few hundred collected votes as the whole population voids the
    confidence, so the kind is
    point_estimate and confidence is None. Noisy votes are drawn as counts between 101 thresholds
    (the same law).
    """
    positive("sigma", sigma)
    delta_value(delta)
    if count("trials", trials) < 2 or count("repeats", repeats) < 1:
        raise UsageError(
            f"trials is {trials} and repeats {repeats}; they must be at least 2 and 1."
        )
    worlds = [
        clean_scores(n, v)
        for n, v in (("member_votes", member_votes), ("nonmember_votes", nonmember_votes))
    ]
    low, high = min(float(w.min()) for w in worlds), max(float(w.max()) for w in worlds)
    tau = np.linspace(low - 3 * sigma, high + 3 * sigma, 101)
    found = [
        _once([_above(w, tau, sigma, trials // 2, rng) for w in worlds], trials // 2, delta)
        for _ in range(repeats)
    ]
    mu, epsilon = np.mean(found, axis=0).tolist()
    return Estimate(
        "resampled", "point_estimate", epsilon, delta, None,
        {"member": worlds[0].size, "nonmember": worlds[1].size, "simulated": trials * repeats},
        ("the collected votes are taken for all votes there are",), mu=mu, threshold="best on the same trials",
        details={"spread_of_repeats": float(np.std([e for _, e in found]))},
    )  # fmt: skip


def _above(
    votes: Floats, tau: Floats, sigma: float, n: int, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """(thresholds,) how many of n resampled noisy votes exceed each threshold."""
    values, weights = np.unique(votes, return_counts=True)
    drawn = rng.multinomial(n, weights / weights.sum())
    below = ndtr((tau - values[:, None]) / sigma)
    cells = np.clip(np.diff(below, axis=1, prepend=0.0, append=1.0), 0.0, 1.0)
    counts = sum(
        rng.multinomial(k, cell / cell.sum()) for k, cell in zip(drawn, cells, strict=True)
    )
    return np.asarray(n - np.cumsum(counts)[:-1], np.int64)


def _once(above: list[npt.NDArray[np.int64]], n: int, delta: float) -> tuple[float, float]:
    best = int(np.argmax(above[0] - above[1]))
    tp, fp = int(above[0][best]), int(above[1][best])
    found = gdp(tp, n - tp, fp, n - fp, delta)
    return found.mu or 0.0, found.epsilon or 0.0
