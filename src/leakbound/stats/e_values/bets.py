"""Bets on single answers: e-processes for answers that are independent, and for quoted codes.

The product bet is for two answers of a pair that are independent of each other.
The e-process on lines is valid for any dependence within a pair, and pays for that: a pair whose
answers differ completely multiplies it by at most 1 + e^-eps. If the answers are independent given
the past and the two contexts, each may be bet on apart. With forecasts p and q of the chances of
"member" in the canary-in and the canary-out context, and (a, b) the pair of chances under the claim
that is nearest to (p, q) in Kullback-Leibler divergence, the factor of a pair is the product of the
two likelihood ratios. Under any chances that the claim allows, the ratios have expectations 1 + u
and 1 + v with u + v <= 0, because (a, b) is a projection onto a convex set; so the product has one
of at most (1 + u)(1 + v) <= 1. The set holds all four inequalities of the claim: each of one
context against the other, of "member" and of "not member".

Each prior runs its own process with its own projections, and the processes are averaged with fixed
weights: an average of forecasts, or of factors, would have no such guarantee.

Answers that tend to differ within a pair break the assumption: a system that answers one context at
random and the other in the opposite way shows what a perfect attack shows. A `wary` bet, for where
independence is assumed only, therefore begins after some pairs, and pauses while earlier pairs
differ more often than independent answers would.

References: Grünwald, de Heide and Koolen, "Safe testing" (JRSS B 2024), for projections; Ramdas,
Grünwald, Vovk and Shafer (Statistical Science 2023).

The code bet is for replies that hold a random code of the canary. A reply that does not depend on
the canary holds its code by chance alone: of a code of k hexadecimal digits, with a probability of
at most q = L / 16^k, where no reply has more than L characters. Under a claim of (epsilon, delta),
a reply to the canary-in context holds it, given the past, with a probability of at most
r = e^epsilon q + delta, whatever else is true of it. So the false alarms of this reading need not
be estimated, and a few quoted codes reject any claim. For a stated rate p > r, the
likelihood ratio of "quoted" has an expectation of at most 1 under each such probability; ratios are
averaged over rates with fixed weights.

The order bet compares both replies of a pair, whatever they depend on, where a coin drew which
context came first. Under (epsilon, 0), of the replies that differ in a measurement, that of one
context has the larger one with probability e^(2 epsilon) / (1 + e^(2 epsilon)) at most, given the
past. So it finds a count that only grows.

References: Ramdas, Grünwald, Vovk and Shafer (Statistical Science 2023), for e-processes; Carlini
et al., "The Secret Sharer" (USENIX Security 2019), for canaries with random digits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy

from leakbound._check import confidence_level
from leakbound.errors import UsageError
from leakbound.privacy import Guarantee
from leakbound.stats.arrays import Bools, Floats, Ints
from leakbound.stats.e_values.e_process import LevelTest, read_levels
from leakbound.stats.e_values.stakes import restakes_before

# Beta priors of the two chances, each with its weight at a claim of 0 and at a large one: what
# breaks a small claim may be any difference, and only chances near 0 and 1 break a large one.
PRIORS = np.array([
    [[0.5, 0.5], [0.5, 0.5]],
    [[2.0, 1.0], [0.5, 2.0]],
    [[2.0, 2.0], [1.0, 5.0]],
    [[2.0, 0.3], [0.3, 2.0]],
    [[1.0, 0.02], [0.02, 1.0]],
    [[4.0, 0.2], [0.2, 4.0]],
])  # fmt: skip
SMALL = np.array([0.1, 0.65, 0.25, 0.0, 0.0, 0.0])
LARGE = np.array([0.1, 0.0, 0.0, 0.45, 0.25, 0.2])
BETWEEN = 0.1  # the cube of the claim at which both count alike
LEAST = 1e-12  # chance under a claim: below it, rounding would make up evidence
FIRST = 8  # pairs before a wary bet: fewer that all differ are not rare among opposite answers
OPPOSITE = -1.0  # standard deviations of the correlation below which it pauses
STEPS = 60  # of a projection, at most
SETTLED = 1e-13  # where no step would change a chance by more, the last one was taken


class ProductBet(LevelTest):
    """Anytime-valid test of `claim` by answers that are independent within a pair: if they are,
    given the past and their contexts, and the claim holds for every pair given the past, it is
    rejected with probability at most 1 - confidence, at any stopping time.
    """

    def __init__(
        self,
        claim: Guarantee,
        confidence: float = 0.95,
        deltas: tuple[float, ...] = (1e-5,),
        *,
        wary: bool,
    ) -> None:
        self._wary = wary
        self.claim, self.confidence = claim, confidence_level(confidence)
        self._levels, self._void = read_levels(claim, deltas), False
        self._x: list[Floats] = []
        self._y: list[Floats] = []

    def extend(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Observe (pairs, thresholds) answers of both contexts, 0 or 1; one half bets nothing."""
        xs, ys = np.asarray(x, float), np.asarray(y, float)
        if xs.ndim != 2 or xs.shape != ys.shape or not np.isin([xs, ys], (0.0, 0.5, 1.0)).all():
            raise UsageError(
                f"x has shape {xs.shape} and y {ys.shape}; they must be (pairs, thresholds) of the "
                "same shape, with answers 0 or 1."
            )
        self._x.append(xs)
        self._y.append(ys)

    def void(self) -> None:
        """Set the e-value to 0: the answers were not independent after all."""
        self._void = True

    @property
    def pairs(self) -> int:
        return sum(map(len, self._x))

    def _paths(self, epsilons: Floats, deltas: Floats) -> Floats:
        """(C, pairs) log e-values against claims of (C, L) levels, each its own process."""
        if not self._x:
            return np.zeros((len(epsilons), 0))
        self._x, self._y = [np.concatenate(self._x)], [np.concatenate(self._y)]
        x, y = self._x[0], self._y[0]
        total = np.full((len(epsilons), len(x)), -np.inf)
        for at in range(x.shape[1]):
            answers = x[:, at][None], y[:, at][None]
            each = product_paths(*answers, epsilons, deltas, self._wary)[0]
            total = np.logaddexp(total, each - np.log(x.shape[1]))
        return np.full_like(total, -np.inf) if self._void else total


def product_paths(x: Floats, y: Floats, epsilons: Floats, deltas: Floats, wary: bool) -> Floats:
    """(audits, C, pairs) log e-values of answers against claims of (C, L) levels, each apart."""
    weights = np.log(np.maximum(prior_weights(epsilons), 1e-300) / epsilons.shape[1])
    slopes, deltas = np.exp(epsilons)[..., None], deltas[..., None]
    starts = restakes_before(x.shape[1])
    segment = np.searchsorted(starts, np.arange(x.shape[1]), "right") - 1
    bets = _bets(x, y)[:, None, None] if wary else np.ones(())
    x, y = x[:, None, None], y[:, None, None]
    total = np.full((len(x), len(epsilons), segment.size), -np.inf)
    for prior, weight in zip(PRIORS, np.moveaxis(weights, -1, 0), strict=True):
        p, q = (_forecast(values, one, starts) for values, one in zip((x, y), prior, strict=True))
        a, b = project(p, q, slopes, deltas)
        gains = bets * (_gains(x, p, a, segment) + _gains(y, q, b, segment))
        path = scipy.special.logsumexp(gains.cumsum(-1) + weight[..., None], axis=2)
        total = np.logaddexp(total, path)
    return total


def _bets(x: Floats, y: Floats) -> Bools:
    """Whether the pairs before each one are enough, and show no answers that tend to differ."""
    known = (x != 0.5) & (y != 0.5)
    cells = (known * one for one in (x * y, x * (1 - y), (1 - x) * y, np.ones_like(x)))
    both, one, other, number = (np.cumsum(cell, -1) - cell for cell in cells)
    yes, first = both + one, both + other
    spread = np.sqrt(yes * (number - yes) * first * (number - first))
    along = (both * (number - yes - other) - one * other) * np.sqrt(number)
    return np.asarray((number >= FIRST) & (along >= OPPOSITE * spread))


def prior_weights(epsilons: Floats) -> Floats:
    """(..., priors) weights of the priors against claims, which sum to 1."""
    share = (epsilons**3 / (epsilons**3 + BETWEEN))[..., None]
    return np.asarray((1 - share) * SMALL + share * LARGE)


def _forecast(values: Floats, prior: Floats, starts: Ints) -> Floats:
    """(..., starts) means of the posterior beta law, from the pairs before each start."""
    known, ones = values != 0.5, values == 1.0
    before = (np.cumsum(one, -1)[..., starts] - one[..., starts] for one in (known, ones))
    seen, yes = before
    return np.asarray((yes + prior[0]) / (seen + prior.sum()))


def _gains(values: Floats, p: Floats, a: Floats, segment: Ints) -> Floats:
    """Logarithms of the likelihood ratios of answers."""
    yes, no = np.log(p / np.maximum(a, LEAST)), np.log((1 - p) / np.maximum(1 - a, LEAST))
    yes, no = yes[..., segment], no[..., segment]
    return np.where(values == 1.0, yes, np.where(values == 0.0, no, 0.0))


def project(p: Floats, q: Floats, slopes: Floats, deltas: Floats) -> tuple[Floats, Floats]:
    """The chances under claims with the least Kullback-Leibler divergence from p and q: (..., n)
    each, with (..., 1) slopes e^epsilon and deltas."""
    high, low, exchanged = np.maximum(p, q), np.minimum(p, q), q > p
    places: tuple[Ints, ...] = ()
    if slopes.size == 1:  # of many audits, most chances are the same
        chances, inverse = np.unique(high + 1j * low, return_inverse=True)
        high, low, places = chances.real, chances.imag, (inverse.reshape(high.shape),)
    high, low, slopes, deltas = np.broadcast_arrays(high, low, slopes, deltas)
    a, b = _on_line(high, low, slopes, deltas)  # "member" in the likelier context
    tight = 1e-12
    left = 1 - b > slopes * (1 - a) + deltas + tight
    if left.any():
        some = high[left], low[left], slopes[left], deltas[left]
        a[left], b[left] = _on_other_line(*some)
    a, b = (one.ravel()[places] if places else one for one in (a, b))
    return np.where(exchanged, b, a), np.where(exchanged, a, b)


def _on_other_line(
    high: Floats, low: Floats, slope: Floats, delta: Floats
) -> tuple[Floats, Floats]:
    """Where "not member" in the other context is what the claim limits, or both are."""
    other, one = _on_line(1 - low, 1 - high, slope, delta)
    a, b = 1 - one, 1 - other
    allowed = a <= slope * b + delta + 1e-12
    corner_a, corner_b = (slope + delta) / (1 + slope), (1 - delta) / (1 + slope)
    return np.where(allowed, a, corner_a), np.where(allowed, b, corner_b)


def _on_line(high: Floats, low: Floats, slope: Floats, delta: Floats) -> tuple[Floats, Floats]:
    """The nearest (a, b) with a <= slope b + delta."""
    a, b = high.copy(), low.copy()
    outside = high > slope * low + delta
    if outside.any():
        some = high[outside], low[outside], slope[outside], delta[outside]
        b[outside] = _nearest(*some)
        a[outside] = slope[outside] * b[outside] + delta[outside]
    return a, b


def _nearest(high: Floats, low: Floats, slope: Floats, delta: Floats) -> Floats:
    """The root of the derivative along the line, by Newton's steps and halves of the interval."""
    left, right = low.copy(), (high - delta) / slope
    b = (left + right) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(STEPS):
            a = slope * b + delta
            no, other_no, over, above = 1 - b, 1 - a, a - high, b - low
            value = slope * over * b * no + above * a * other_no
            rising = value > 0
            right, left = np.where(rising, b, right), np.where(rising, left, b)
            change = slope * (slope * b * no + over * (1 - 2 * b) + above * (1 - 2 * a))
            change += a * other_no
            step = value / change
            found, settled = b - step, np.abs(step) <= SETTLED
            if settled.all():
                break
            inside = settled | ((found > left) & (found < right))
            b = np.where(inside, found, (left + right) / 2)
    return b


RATES = np.array([0.01, 0.05, 0.3, 0.9])  # of replies that quote the code
WEIGHTS = np.array([0.4, 0.2, 0.2, 0.2])


class CodeBet(LevelTest):
    """Anytime-valid test of `claim` by replies that quote a code, where `chance` is the largest
    probability that a reply which does not depend on the canary holds it: if the claim holds for
    every reply given the past, it is rejected with probability at most 1 - confidence, at any
    stopping time.

    Examples:
        >>> from leakbound.privacy import PureDP
        >>> bet = CodeBet(PureDP(1.0), chance=1e-9)
        >>> bet.extend([False] * 30 + [True])
        >>> bet.rejected, bet.rejected_at
        (True, 31)
    """

    def __init__(
        self,
        claim: Guarantee,
        chance: float,
        confidence: float = 0.95,
        deltas: tuple[float, ...] = (1e-5,),
    ) -> None:
        if not 0 < chance < 1:
            raise UsageError(f"chance is {chance!r}; it must be above 0 and below 1.")
        self.claim, self.confidence, self.chance = claim, confidence_level(confidence), chance
        self._levels = read_levels(claim, deltas)
        self._quoted: list[bool] = []

    def extend(self, quoted: npt.ArrayLike) -> None:
        """Observe replies to canary-in contexts in order: whether each holds the code."""
        self._quoted += np.asarray(quoted, bool).tolist()

    @property
    def pairs(self) -> int:
        return len(self._quoted)

    @property
    def hits(self) -> int:
        """Replies that held the code."""
        return sum(self._quoted)

    def _paths(self, epsilons: Floats, deltas: Floats) -> Floats:
        """(C, pairs) log e-values against claims of (C, L) levels, all of which limit the rate."""
        most = (np.exp(epsilons) * self.chance + deltas).min(1)[:, None, None]
        hits = np.cumsum(np.array(self._quoted, float))[None, None]
        misses = np.arange(1, self.pairs + 1)[None, None] - hits
        rates = RATES[None, :, None]
        bets = rates > most  # a rate that the claim allows bets nothing
        yes = np.where(bets, np.log(rates / np.where(bets, most, 0.5)), 0.0)
        no = np.where(bets, np.log((1 - rates) / (1 - np.where(bets, most, 0.0))), 0.0)
        gains = hits * yes + misses * no + np.log(WEIGHTS)[None, :, None]
        return np.asarray(scipy.special.logsumexp(gains, axis=1))


class OrderBet(LevelTest):
    """Anytime-valid test of `claim` by the measurement that differed most often in one direction
    before, where a coin drew the order of each pair.

    Examples:
        >>> from leakbound.privacy import PureDP
        >>> bet = OrderBet(PureDP(0.0))
        >>> bet.extend([[1.0, 0.0], [0.0, 0.0], [1.0, -1.0]] * 5)
        >>> bet.rejected, bet.counts()
        (True, (9, 9))
    """

    def __init__(
        self, claim: Guarantee, confidence: float = 0.95, deltas: tuple[float, ...] = (0.0,)
    ) -> None:
        self.claim, self.confidence = claim, confidence_level(confidence)
        self._levels, self._signs = read_levels(claim, deltas), list[Floats]()

    def extend(self, signs: npt.ArrayLike) -> None:
        """Observe (pairs, measurements) signs: 1 where the canary-in context has the larger one."""
        self._signs.append(np.asarray(signs, float))

    @property
    def pairs(self) -> int:
        return sum(map(len, self._signs))

    def counts(self) -> tuple[int, int]:
        """Pairs that were bet on rightly, of those that differed."""
        won = self._bets()[1]
        return int((won > 0).sum()), int((won != 0).sum())

    def _bets(self) -> tuple[Floats, Floats]:
        """(pairs,) forecasts of the larger side, and whether it was: 1, -1, or 0 for equal ones."""
        if not self._signs:
            return np.zeros(0), np.zeros(0)
        signs = np.concatenate(self._signs)
        up, down = ((side.cumsum(0) - side).astype(float) for side in (signs > 0, signs < 0))
        rows, best = np.arange(len(signs)), np.abs(up - down).argmax(1)
        ups, downs = up[rows, best], down[rows, best]
        forecasts = (np.maximum(ups, downs) + 0.5) / (ups + downs + 1)
        return forecasts, np.sign(ups - downs) * signs[rows, best]

    def _paths(self, epsilons: Floats, deltas: Floats) -> Floats:
        forecasts, won = self._bets()
        most = np.minimum(scipy.special.expit(2 * epsilons), 1 - LEAST)[..., None]
        stated = np.clip(forecasts, most, 1 - LEAST)  # a rate that the claim allows bets nothing
        win, lose = np.log(stated / most), np.log1p(-stated) - np.log1p(-most)
        gains = np.where(won > 0, win, np.where(won < 0, lose, 0.0))
        gains = np.where((deltas == 0)[..., None] & (stated > most), gains, 0.0)
        path = scipy.special.logsumexp(gains.cumsum(-1), axis=1)
        return np.asarray(path - np.log(epsilons.shape[1]))
