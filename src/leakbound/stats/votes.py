"""Bounds from clean vote counts and the known noise that hides them: the noise is integrated out,
never sampled.

The statistic is K + N(0, sigma^2), K a whole number in 0..T. A noisy histogram count with noise s
has K = the votes for the
class and sigma = s. The margin "yes less no" of two noisy counts is N(yes - no, 2 s^2). With K =
yes - no + T, in 0..2T, it has
sigma = s sqrt(2) and 2T as its T; where every partition must vote yes or no, it is 2K - T + N(0, 2
s^2) with K = yes, which orders
trials as K + N(0, s^2/2) does: sigma = s / sqrt(2). These bounds see the votes, not the sampler:
they cannot find a broken
noise source (see `noise_goodness_of_fit`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from leakbound._check import confidence_level, delta_value, positive
from leakbound.errors import UsageError
from leakbound.privacy import Gaussian, Guarantee, gdp_epsilon
from leakbound.stats.e_process import EProcess
from leakbound.stats.estimate import Estimate
from leakbound.stats.intervals import binomial_lower, binomial_upper

__all__ = ["RocBand", "VoteScores", "joint_votes", "roc_band", "vote_band"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SHIFTS = (
    -1.5,
    -1.0,
    -0.5,
    -0.2,
    0.0,
    0.2,
    0.5,
    1.0,
    1.5,
)  # of thresholds from the ends, in noise scales
ASSUMES = (
    "pairs are independent of each other",
    "noise is Gaussian of the declared scale (test it apart)",
)


@dataclass(frozen=True, slots=True)
class RocBand:
    """With the stated confidence, at every threshold at once:

    FPR <= fpr and TPR >= tpr of "noisy count > threshold".
    """

    threshold: Floats
    fpr: Floats
    tpr: Floats
    confidence: float


def roc_band(
    member_votes: npt.ArrayLike,
    nonmember_votes: npt.ArrayLike,
    partitions: int,
    sigma: float,
    confidence: float = 0.95,
) -> RocBand:
    """Simultaneous ROC band of the noisy count from clean votes.

    Formula: Clopper-Pearson limits of P(K >= j), j = 1..T, each at (1 - confidence)/(2T), lower for
    members, upper for
    non-members; rate(tau) = h_0 + sum_j P(K >= j) (h_j - h_{j-1}), h_k = Phi((k - tau)/sigma). h
    rises with k, so limits
    of P(K >= j) are limits of the rate, for all tau at once. Raises UsageError for votes outside
    0..T or an empty world.
    """
    top = _whole_partitions(partitions)
    positive("sigma", sigma)
    alpha = (1 - confidence_level(confidence)) / (2 * top)
    m, n = (
        _tails("member_votes", member_votes, top),
        _tails("nonmember_votes", nonmember_votes, top),
    )
    low, high = binomial_lower(m[1:], m[0], alpha), binomial_upper(n[1:], n[0], alpha)
    low, high = (
        np.maximum.accumulate(low[::-1])[::-1],
        np.minimum.accumulate(high),
    )  # P(K >= j) falls with j
    tau = np.linspace(-4 * sigma, top + 4 * sigma, 801)
    h = ndtr((np.arange(top + 1)[:, None] - tau) / sigma)
    steps = np.diff(h, axis=0)
    return RocBand(
        tau, np.minimum(h[0] + high @ steps, 1.0), np.minimum(h[0] + low @ steps, 1.0), confidence
    )


def vote_band(
    member_votes: npt.ArrayLike,
    nonmember_votes: npt.ArrayLike,
    partitions: int,
    sigma: float,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> Estimate:
    """Lower bounds on mu and epsilon(delta) from clean votes K in 0..partitions and the noise law K
    + N(0, sigma^2).

    The best threshold of `roc_band`, which holds at all thresholds, so nothing is paid for the
    choice:
    mu = max Phi^-1(TPR_lo) - Phi^-1(FPR_hi); epsilon = max of ln((TPR_lo - delta)/FPR_hi) and
    ln((TNR_lo - delta)/FNR_hi), which is a lower bound for any mechanism that releases the noisy
    count (mu: if it is
    Gaussian DP). Trials within a world are independent; pairing is not needed. Kind: lower_bound.
    """
    delta_value(delta)
    band = roc_band(member_votes, nonmember_votes, partitions, sigma, confidence)
    gap = ndtri(np.clip(band.tpr, 1e-300, 1 - 1e-15)) - ndtri(np.clip(band.fpr, 1e-15, 1 - 1e-15))
    at = int(np.argmax(gap))
    mu = max(0.0, float(gap[at]))
    epsilon = max(0.0, _ratio(band.tpr, band.fpr, delta), _ratio(1 - band.fpr, 1 - band.tpr, delta))
    counts = {"member": int(np.size(member_votes)), "nonmember": int(np.size(nonmember_votes))}
    return Estimate(
        "vote_band", "lower_bound", epsilon, delta, confidence, counts, ASSUMES, mu=mu,
        threshold="all thresholds at once",
        details={"best_threshold": float(band.threshold[at]), "implied_epsilon": gdp_epsilon(mu, delta)},
    )  # fmt: skip


def _ratio(high: Floats, low: Floats, delta: float) -> float:
    """The largest ln((high - delta)/low) over thresholds."""
    good = (high > delta) & (low > 0)
    return float(np.log((high[good] - delta) / low[good]).max()) if good.any() else -math.inf


def _whole_partitions(partitions: int) -> int:
    if isinstance(partitions, bool) or int(partitions) != partitions or partitions < 1:
        raise UsageError(f"partitions is {partitions!r}; it must be a whole number of at least 1.")
    return int(partitions)


def _tails(name: str, votes: npt.ArrayLike, top: int) -> Ints:
    """(T + 1,) how many trials have at least j votes, j = 0..T."""
    raw = np.asarray(votes)
    array = raw.ravel()
    if array.size == 0:
        raise UsageError(f"{name} holds no trials; it needs at least one.")
    if not np.issubdtype(array.dtype, np.integer):
        whole = np.asarray(array, float)
        if not np.all(np.isfinite(whole) & (whole == np.floor(whole))):
            raise UsageError(
                f"{name} must be whole numbers of votes from 0 to {top}; some are not whole."
            )
        array = whole.astype(np.int64)
    if array.min() < 0 or array.max() > top:
        raise UsageError(
            f"{name} run from {array.min()} to {array.max()}; they must lie between 0 and {top}."
        )
    return np.asarray(np.bincount(array, minlength=top + 1)[::-1].cumsum()[::-1], np.int64)


@dataclass(frozen=True, slots=True)
class VoteScores:
    """Scores for an e-process: the exact exceedance that a noisy count, clean value + N(0, sigma^2),
    exceeds each threshold.

    low, high: the clean values possible; move: the most by which the two values of one pair can
    differ, if the worlds
    share every partition that the canary does not touch (1 for a count, 2 for a margin), or None if
    they do not.
    """

    low: int
    high: int
    sigma: float
    move: int | None = None

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        if self.low >= self.high or (self.move is not None and self.move < 1):
            raise UsageError("vote scores need low < high, and a move of at least 1 or none.")

    @classmethod
    def count(cls, partitions: int, sigma: float, shared: bool = True) -> VoteScores:
        """Votes of one class under noise sigma; `shared`: pairs share the untouched partitions."""
        return cls(0, _whole_partitions(partitions), sigma, 1 if shared else None)

    @classmethod
    def margin(cls, partitions: int, sigma: float, shared: bool = True) -> VoteScores:
        """Votes of one class less those of another, each under noise sigma."""
        top = _whole_partitions(partitions)
        return cls(-top, top, sigma * math.sqrt(2), 2 if shared else None)

    @property
    def thresholds(self) -> Floats:
        """Half-way between values, and around both ends where a quiet crowd leaves the count."""
        step = self.move or 1
        ends = (self.low + step / 2, self.high - step / 2)
        beside = [end + self.sigma * shift for end in ends for shift in SHIFTS]
        inner = np.linspace(*ends, min(9, (self.high - self.low) // step))
        return np.unique(np.round([*beside, *inner], 9))

    def exceedance(self, values: npt.ArrayLike) -> Floats:
        """P(value + noise > threshold): the shape of `values` with the thresholds appended."""
        return np.asarray(
            ndtr((np.asarray(values, float)[..., None] - self.thresholds) / self.sigma)
        )

    def support(self) -> tuple[Floats, Floats]:
        """The (x, y) of all pairs of values there can be."""
        one, other = np.meshgrid(
            np.arange(self.low, self.high + 1), np.arange(self.low, self.high + 1)
        )
        near = np.abs(one - other) <= (self.high - self.low if self.move is None else self.move)
        return self.exceedance(one[near]), self.exceedance(other[near])

    def process(
        self, claim: Guarantee, confidence: float = 0.95, horizon: int | None = None
    ) -> EProcess:
        """An e-process on these scores; the first bets expect one noticed canary in a crowd that
        votes against it.
        """
        expected = self.exceedance(self.low + (self.move or 1)), self.exceedance(self.low)
        return EProcess(claim, confidence, self.support(), expected=expected, horizon=horizon)


def joint_votes(
    member: npt.ArrayLike,
    nonmember: npt.ArrayLike,
    scores: VoteScores,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> Estimate:
    """The better of `vote_band` and the e-process on exact exceedance, each at half of the error, for
    mu and for epsilon(delta).

    member, nonmember: the clean values (counts or margins, as `scores` says) of pairs in their
    order. Never far below
    either: halving the error costs a few per cent. Kind: lower_bound, for a number of pairs fixed
    beforehand. Raises
    UsageError for unequal numbers of values, or for pairs further apart than `scores.move` allows.
    """
    half = (1 + confidence_level(confidence)) / 2
    m, n = (np.asarray(values, float).ravel() for values in (member, nonmember))
    if m.size != n.size:
        raise UsageError(
            f"there are {m.size} member and {n.size} non-member votes; pairs need as many of each."
        )
    band = vote_band(
        m - scores.low, n - scores.low, scores.high - scores.low, scores.sigma, delta, half
    )
    process = scores.process(Gaussian(1.0, scores.sigma), half, horizon=m.size)
    process.extend(scores.exceedance(m), scores.exceedance(n))
    mu = max(band.mu or 0.0, process.mu_lower_bound(max(delta, 1e-300)).mu or 0.0)
    epsilon = max(band.epsilon or 0.0, process.epsilon_lower_bound(delta).epsilon or 0.0)
    return Estimate(
        "joint_votes", "lower_bound", epsilon, delta, confidence, {"pairs": m.size}, ASSUMES, mu=mu,
        threshold="all thresholds at once, or chosen before each pair from earlier pairs",
        details={"implied_epsilon": gdp_epsilon(mu, delta)},
    )  # fmt: skip
