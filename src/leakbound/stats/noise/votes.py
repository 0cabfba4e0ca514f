"""Bounds from votes before noise and the known noise. The noise is integrated out, never sampled.

The statistic is K + N(0, sigma^2) with K an integer in 0..T. For a noisy histogram count with noise
s, K is the number of votes for the class and sigma = s. The margin "yes minus no" of two noisy
counts is N(yes - no, 2 s^2). With K = yes - no + T in 0..2T, it has sigma = s sqrt(2), and 2T takes
the place of T. If every partition must vote yes or no, the margin is 2K - T + N(0, 2 s^2) with
K = yes. It orders trials like K + N(0, s^2/2), so sigma = s / sqrt(2). These bounds use the votes,
not the sampler, so they cannot detect a broken noise source (see `noise_goodness_of_fit`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri

from leakbound._check import at_least, confidence_level, delta_value, positive
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee, gdp_epsilon
from leakbound.stats.counts.intervals import binomial_lower, binomial_upper
from leakbound.stats.e_values.e_process import EProcess
from leakbound.stats.estimate import Estimate

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# Thresholds around both ends of the votes, in noise scales. The canary moves one vote there. The
# best threshold for mu lies near the end. For epsilon at a small delta, it lies up to 4.5 scales
# beyond the end.
SHIFTS = tuple(np.sort([*np.arange(-4.5, 5.0, 0.5), -0.2, 0.2]).tolist())
POINTS = 801  # thresholds of a band; finer than a hundredth of the noise for up to 8 partitions
REACH = 4.0  # noise scales beyond both ends of the votes; 3e-5 of the noise lies farther out
ASSUMES = (
    "pairs are independent of each other",
    "noise is Gaussian with the declared scale (test this separately)",
)


@dataclass(frozen=True, slots=True)
class RocBand:
    """Error rates of "noisy count > threshold", bounded at every threshold at once.

    Attributes:
        threshold: (points,) thresholds in ascending order, in votes.
        fpr: (points,) upper limits of the false-positive rate.
        tpr: (points,) lower limits of the true-positive rate.
        confidence: Probability with which all limits hold simultaneously.
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
    """Simultaneous ROC band of the noisy count, from votes before noise.

    Clopper-Pearson limits are taken of P(K >= j) for j = 1..T, each at (1 - confidence)/(2T): lower
    limits for the canary-in context, upper limits for the canary-out context. The rate is
    rate(tau) = h_0 + sum_j P(K >= j) (h_j - h_{j-1}) with h_k = Phi((k - tau)/sigma). h increases
    with k, so limits of P(K >= j) give limits of the rate, for all tau at once.

    Args:
        member_votes: Votes K in the canary-in context, whole numbers in 0..T; any shape.
        nonmember_votes: Votes K in the canary-out context; any shape.
        partitions: T, at least 1.
        sigma: Standard deviation of the noise, in votes, above 0.
        confidence: Probability with which all limits hold, in (0, 1).

    Returns:
        The band at 801 thresholds.

    Raises:
        UsageError: If a vote lies outside 0..T, or a context has no trial.

    Guarantee:
        All limits hold together with probability at least `confidence`.

    Examples:
        >>> band = roc_band([5] * 50, [0] * 50, partitions=5, sigma=0.5)
        >>> bool((band.tpr <= 1).all()), bool((band.fpr > 0).all())
        (True, True)
    """
    top = _whole_partitions(partitions)
    positive("sigma", sigma)
    alpha = (1 - confidence_level(confidence)) / (2 * top)
    m, n = (
        _tails("member_votes", member_votes, top),
        _tails("nonmember_votes", nonmember_votes, top),
    )
    low, high = binomial_lower(m[1:], m[0], alpha), binomial_upper(n[1:], n[0], alpha)
    # P(K >= j) decreases with j, so a limit at one j is also a limit at its neighbours
    low, high = np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)
    tau = np.linspace(-REACH * sigma, top + REACH * sigma, POINTS)
    h = ndtr((np.arange(top + 1)[:, None] - tau) / sigma)
    steps = np.diff(h, axis=0)
    fpr, tpr = np.minimum(h[0] + high @ steps, 1.0), np.minimum(h[0] + low @ steps, 1.0)
    return RocBand(tau, fpr, tpr, confidence)


def epsilon_in_reach(mu: float) -> float:
    """Limit of what `vote_band` certifies at delta 0 with many trials, if all votes flip.

    The privacy loss of Gaussian outputs is unbounded, but the band ends at its last threshold.

    Guarantee:
        No number of trials certifies more, because at delta 0 the loss grows with the threshold.

    Reference:
        leakbound: the limit of `roc_band` at its last threshold.

    Examples:
        >>> round(epsilon_in_reach(0.0), 3), round(epsilon_in_reach(1.0), 2)
        (0.0, 4.7)
    """
    at_least("mu", mu, 0.0)
    return float(log_ndtr(-REACH) - log_ndtr(-REACH - mu))


def vote_band(
    member_votes: npt.ArrayLike,
    nonmember_votes: npt.ArrayLike,
    partitions: int,
    sigma: float,
    delta: float = 1e-5,
    confidence: float = 0.95,
) -> Estimate:
    """Lower bounds on mu and epsilon(delta) from votes before noise, K + N(0, sigma^2).

    The bounds use the best threshold of `roc_band`. The band holds at all thresholds at once, so
    choosing one costs no confidence. mu = max Phi^-1(TPR_lo) - Phi^-1(FPR_hi), and epsilon is the
    maximum of ln((TPR_lo - delta)/FPR_hi) and ln((TNR_lo - delta)/FNR_hi).

    Args:
        member_votes: Votes K in the canary-in context, whole numbers in 0..T; any shape.
        nonmember_votes: Votes K in the canary-out context; any shape.
        partitions: T, at least 1.
        sigma: Standard deviation of the noise, in votes, above 0.
        delta: Failure probability at which epsilon is stated, in [0, 1).
        confidence: Confidence of both bounds together, in (0, 1).

    Returns:
        An estimate of kind `lower_bound`: epsilon for any mechanism whose output is the noisy
        count, mu if the mechanism is Gaussian DP.

    Raises:
        UsageError: If a vote lies outside 0..T, a context has no trial, or delta or confidence
            lies outside its range.

    Guarantee:
        Either bound exceeds the truth with probability at most 1 - confidence. Trials within a
        context are independent; pairing is not needed.

    Examples:
        >>> found = vote_band([1] * 500, [0] * 500, partitions=1, sigma=1.0)
        >>> 0.8 < found.mu < 1.0
        True
    """
    delta_value(delta)
    band = roc_band(member_votes, nonmember_votes, partitions, sigma, confidence)
    gap = ndtri(np.clip(band.tpr, 1e-300, 1 - 1e-15)) - ndtri(np.clip(band.fpr, 1e-15, 1 - 1e-15))
    at = int(np.argmax(gap))
    mu = max(0.0, float(gap[at]))
    epsilon = max(0.0, _ratio(band.tpr, band.fpr, delta), _ratio(1 - band.fpr, 1 - band.tpr, delta))
    counts = {"member": int(np.size(member_votes)), "nonmember": int(np.size(nonmember_votes))}
    best = float(band.threshold[at])
    return Estimate(
        "vote_band", "lower_bound", epsilon, delta, confidence, counts, ASSUMES, mu=mu,
        threshold="all thresholds at once",
        details={"best_threshold": best, "implied_epsilon": gdp_epsilon(mu, delta)},
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
    """(T + 1,) number of trials with at least j votes, j = 0..T."""
    array = _whole_votes(name, votes, top)
    if array.size == 0:
        raise UsageError(f"{name} holds no trials; it needs at least one.")
    if array.min() < 0 or array.max() > top:
        raise UsageError(
            f"{name} run from {array.min()} to {array.max()}; they must lie between 0 and {top}."
        )
    return np.asarray(np.bincount(array, minlength=top + 1)[::-1].cumsum()[::-1], np.int64)


def _whole_votes(name: str, votes: npt.ArrayLike, top: int) -> Ints:
    """(n,) votes as integers."""
    array = np.asarray(votes).ravel()
    if array.size == 0 or np.issubdtype(array.dtype, np.integer):
        return np.asarray(array, np.int64)
    numbers = np.asarray(array, float)
    if not np.all(np.isfinite(numbers) & (numbers == np.floor(numbers))):
        raise UsageError(
            f"{name} must be whole numbers of votes from 0 to {top}; some are not whole."
        )
    return numbers.astype(np.int64)


class KnownScores(Protocol):
    """Scores whose exceedance probabilities are known exactly, and the values a pair can take."""

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds of the score, fixed before any output is seen."""

    def support(self) -> tuple[Floats, Floats] | None:
        """(xs, ys), each (states, K): their convex hull contains the probabilities of every pair.

        None if any pair of probabilities is allowed for.
        """

    def expected(self) -> tuple[Floats, Floats]:
        """(x, y), each (K,): a typical pair, assumed before any data."""


@dataclass(frozen=True, slots=True)
class VoteScores:
    """Exact scores of votes for an e-process: P(value + N(0, sigma^2) > threshold).

    Attributes:
        low: Smallest value before noise.
        high: Largest value before noise.
        sigma: Standard deviation of the noise, in the units of the values, above 0.
        move: Largest difference between the two values of one pair (1 for a count, 2 for a margin)
            if the contexts share every partition that the canary does not touch; None if they do
            not.

    Raises:
        UsageError: If low >= high, sigma is not above 0, or `move` is below 1.

    Examples:
        >>> scores = VoteScores.count(partitions=4, sigma=1.0)
        >>> scores.exceedance([0, 1]).shape == (2, scores.thresholds.size)
        True
    """

    low: int
    high: int
    sigma: float
    move: int | None = None

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        if self.low >= self.high or (self.move is not None and self.move < 1):
            raise UsageError("vote scores need low < high, and a move that is None or at least 1.")

    @classmethod
    def count(cls, partitions: int, sigma: float, shared: bool = True) -> VoteScores:
        """Scores of the noisy votes for one class.

        Args:
            partitions: Number of partitions T, at least 1; the values are 0..T.
            sigma: Standard deviation of the noise, in votes.
            shared: Whether both contexts of a pair share the partitions that the canary does not
                touch.

        Returns:
            The scores.

        Raises:
            UsageError: If an argument lies outside its range.
        """
        return cls(0, _whole_partitions(partitions), sigma, 1 if shared else None)

    @classmethod
    def margin(cls, partitions: int, sigma: float, shared: bool = True) -> VoteScores:
        """Scores of the noisy votes for one class minus those for another.

        Args:
            partitions: Number of partitions T, at least 1; the values are -T..T.
            sigma: Standard deviation of the noise on each count, in votes.
            shared: Whether both contexts of a pair share the partitions that the canary does not
                touch.

        Returns:
            The scores.

        Raises:
            UsageError: If an argument lies outside its range.
        """
        top = _whole_partitions(partitions)
        return cls(-top, top, sigma * math.sqrt(2), 2 if shared else None)

    @property
    def thresholds(self) -> Floats:
        """(K,) thresholds halfway between values and around both ends."""
        step = self.move or 1
        ends = (self.low + step / 2, self.high - step / 2)
        beside = [end + self.sigma * shift for end in ends for shift in SHIFTS]
        inner = np.linspace(*ends, min(9, (self.high - self.low) // step))
        return np.unique(np.round([*beside, *inner], 9))

    def exceedance(self, values: npt.ArrayLike) -> Floats:
        """P(value + noise > threshold).

        Args:
            values: Values before noise; any shape.

        Returns:
            Probabilities, in the shape of `values` with (K,) appended.
        """
        return np.asarray(
            ndtr((np.asarray(values, float)[..., None] - self.thresholds) / self.sigma)
        )

    def support(self) -> tuple[Floats, Floats]:
        """(xs, ys), each (states, K): scores whose convex hull contains those of every pair.

        Payoffs are linear in both scores. If the values of a pair move freely, the four corners
        determine the smallest gain of a stake. Otherwise each value with its largest differences
        does, because smaller differences lie in between.
        """
        if self.move is None:
            ends = np.array([self.low, self.high])
            return self.exceedance(np.repeat(ends, 2)), self.exceedance(np.tile(ends, 2))
        values = np.arange(self.low, self.high + 1)
        least, most = (
            np.clip(values + move, self.low, self.high) for move in (-self.move, self.move)
        )
        x = self.exceedance(values)
        return np.vstack([x, x]), np.vstack([self.exceedance(least), self.exceedance(most)])

    def process(
        self, claim: Guarantee, confidence: float = 0.95, horizon: int | None = None
    ) -> EProcess:
        """An e-process on these scores.

        Its first stakes expect that one partition notices the canary while all others vote against
        it.

        Args:
            claim: Guarantee to be tested.
            confidence: 1 - alpha, in (0, 1).
            horizon: Planned number of pairs; None if it is not known.

        Returns:
            The e-process, before the first pair.

        Raises:
            UsageError: If an argument lies outside its range.
        """
        return EProcess(
            claim, confidence, self.support(), expected=self.expected(), horizon=horizon
        )

    def expected(self) -> tuple[Floats, Floats]:
        """(x, y), each (K,): one partition notices the canary while the others vote against it.

        This pair guides the first stakes.
        """
        return self.exceedance(self.low + (self.move or 1)), self.exceedance(self.low)
