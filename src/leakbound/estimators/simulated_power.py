"""Power of an e-process: many simulated audits at once, of a leak and a model that is not perfect.

A scene draws the scores of many pairs at once. Two kinds are enough: a system that says yes or no
once per context, and partitions whose votes get too little noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import scipy

from leakbound.estimators.base import ACCURACIES, AccuracyPower, Claim, TrialDesign
from leakbound.privacy import Guarantee
from leakbound.stats import Assumption, EProcess, Power, VoteScores
from leakbound.stats.arrays import Bools, Floats, Ints
from leakbound.stats.e_values.bets import product_paths
from leakbound.stats.e_values.e_process import read_levels
from leakbound.stats.e_values.stakes import Moments, restakes_before
from leakbound.stats.noise.best_votes import BestVotes, best_chance
from leakbound.stats.power import Leak

FEW = 15  # thresholds for outputs; enough to detect noise that is not as declared
MANY = 200  # simulated outputs whose share replaces a probability, with an error of at most 0.035
AUDITS = 200  # gives a standard error of at most 0.035; a plan needs no more
MORE = 300  # added if all audits reject, which is fast; the interval then begins at 0.993
LEAST, DRAWN = 100, 4_000_000  # fewest audits, and most pairs in all audits together
CELLS = 500_000  # scores held at once, a few MiB


@dataclass(frozen=True, slots=True)
class YesNo:
    """One answer per context, yes or no."""

    tpr: float
    fpr: float
    leak: Leak = "randomised_response"

    @classmethod
    def noisy(cls, mu: float, assumption: Assumption) -> YesNo:
        """A `YesNo` whose answer says on which side of the middle a noisy score lies."""
        return cls(
            *assumption.seen_through(float(scipy.special.ndtr(-mu / 2))), leak="noisy_answer"
        )

    @property
    def columns(self) -> int:
        return 1

    @property
    def certain(self) -> bool:
        return {self.tpr, self.fpr} <= {0.0, 1.0}

    def draw(self, audits: int, pairs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        member, nonmember = (rng.random((audits, pairs, 1)) < rate for rate in (self.tpr, self.fpr))
        return member.astype(float), nonmember.astype(float)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Votes with too little noise: one has the canary in one context only, some have it in both."""

    partitions: int
    copies: int
    assumption: Assumption
    shared: bool
    chances: tuple[tuple[float, ...], ...]
    draws: int
    leak: Leak = "small_noise"

    @classmethod
    def of(cls, design: TrialDesign, leak: float) -> Crowd | None:
        """The crowd for a design whose guarantee is Gaussian; None unless outputs are votes."""
        partitions, known = design.voters or 1, design.known
        if isinstance(known, BestVotes):
            chances, shared = _win_chances(known, leak), known.shared
        elif isinstance(known, VoteScores):
            chances, shared = _count(known, partitions, leak), known.move is not None
        else:
            return None
        copies = min(design.copies, partitions - 1)
        return cls(partitions, copies, design.assumption, shared, chances, design.draws)

    @property
    def columns(self) -> int:
        return len(self.chances[0])

    @property
    def certain(self) -> bool:
        """Whether every vote is certain and shares of outputs are as good as probabilities."""
        rates = {self.assumption.hit, self.assumption.false_alarm}
        return rates <= {0.0, 1.0} and self.draws >= MANY

    def draw(self, audits: int, pairs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        shape, hit, alarm = (audits, pairs), self.assumption.hit, self.assumption.false_alarm
        others = self._others(shape, rng)
        member = others + (rng.random(shape) < hit)
        again = others if self.shared else self._others(shape, rng)
        nonmember = again + (rng.random(shape) < alarm)
        table = np.array(self.chances)
        return self._released(table[member], rng), self._released(table[nonmember], rng)

    def _others(self, shape: tuple[int, int], rng: np.random.Generator) -> Ints:
        """Votes of the partitions that are the same in both contexts."""
        rest = self.partitions - 1 - self.copies
        copied = rng.binomial(self.copies, self.assumption.hit, shape)
        return np.asarray(copied + rng.binomial(rest, self.assumption.false_alarm, shape), np.int64)

    def _released(self, chances: Floats, rng: np.random.Generator) -> Floats:
        if self.draws >= MANY:
            return chances
        if self.draws == 1:  # one output exceeds all thresholds below it
            return (rng.random(chances.shape[:2])[..., None] < chances).astype(float)
        return np.asarray(rng.binomial(self.draws, chances) / self.draws)


PairSimulator = YesNo | Crowd  # what draws the scores of pairs; equal ones draw equal pairs


def thin(thresholds: Floats) -> Floats:
    """At most `FEW` evenly spaced thresholds out of many."""
    at = np.linspace(0, thresholds.size - 1, min(FEW, thresholds.size)).round().astype(int)
    return np.asarray(thresholds[at])


@lru_cache(maxsize=64)
def _count(known: VoteScores, partitions: int, leak: float) -> tuple[tuple[float, ...], ...]:
    """Probabilities by number of votes, from the lowest score (votes for, or margin) up."""
    values = np.linspace(known.low, known.high, partitions + 1)
    gaps = values[:, None] - thin(known.thresholds)
    return _rows(scipy.special.ndtr(gaps * leak / known.sigma))


@lru_cache(maxsize=64)
def _win_chances(known: BestVotes, leak: float) -> tuple[tuple[float, ...], ...]:
    """Probabilities of votes for minus those for another answer, on which all others agree."""
    votes = np.arange(known.partitions + 1.0)
    others = np.zeros((votes.size, known.classes - 1))
    others[:, 0] = known.partitions - votes
    levels = np.zeros(1) if known.wins else thin(known.thresholds)
    return _rows(best_chance(votes, others, known.sigma / leak, levels))


def _rows(chances: Floats) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, chances.tolist()))


@dataclass(frozen=True, slots=True)
class PlainTest:
    """The part of a deciding e-process whose power is computed."""

    tested: Guarantee
    confidence: float
    delta: float
    horizon: int | None
    weight: float = 1.0
    apart: float = 0.0  # share of the weight that bets on each answer of a pair apart
    wary: bool = True  # and so only where earlier pairs look independent

    def process(self) -> EProcess:
        return EProcess(self.tested, self.confidence, deltas=(self.delta,), horizon=self.horizon)


@lru_cache(maxsize=512)
def simulate_power(test: PlainTest, pairs: int, scene: PairSimulator, seed: int = 0) -> Power:
    """Share of simulated audits that reject; other parts of the e-process can only add to it."""
    rng, audits = np.random.default_rng(seed), max(LEAST, min(AUDITS, DRAWN // max(1, pairs)))
    rejected = count_rejections(test, pairs, audits, scene, rng)
    if rejected == audits:
        rejected += count_rejections(test, pairs, MORE, scene, rng)
        audits += MORE
    return Power(rejected / audits, audits, scene.leak)


def count_rejections(
    test: PlainTest, pairs: int, audits: int, scene: PairSimulator, rng: np.random.Generator
) -> int:
    """Number of audits that reject; if all audits are the same, only one is simulated."""
    if scene.certain and audits > 1:
        return audits * count_rejections(test, pairs, 1, scene, rng)
    return int(np.count_nonzero(rejection_times(test, pairs, audits, scene, rng)))


def rejection_times(
    test: PlainTest, pairs: int, audits: int, scene: PairSimulator, rng: np.random.Generator
) -> Ints:
    """Number of pairs after which each simulated audit rejects. Each one ends when it rejects."""
    if test.apart:
        return _times_apart(test, pairs, audits, scene, rng)
    process, columns = test.process(), scene.columns
    level = process.log_threshold - float(np.log(test.weight))
    rule, prior = process.stake_rule(process.lines, columns), process.prior(columns)
    past, now = Moments(np.repeat(prior.sums, audits, 1)), np.zeros(audits)
    times, who = np.zeros(audits, np.int64), np.arange(audits)
    for start, stop in pairwise([*restakes_before(pairs).tolist(), pairs]):
        stakes = rule.choose(past, np.full(past.sums.shape[1], start))
        payoff, at = stakes.payoff[0], stakes.threshold[0]  # (audits, 2, 3) and (audits, 2)
        most = max(1, CELLS // max(1, len(now) * columns))
        for seen in range(start, stop, most):
            size = min(most, stop - seen)
            x, y = scene.draw(len(now), size, rng)
            path = now[:, None] + _growth(payoff, at, x, y)
            going = path.max(1) < level
            times[who[~going]] = seen + 1 + (path[~going] >= level).argmax(1)
            past, now, who = _add(past, x, y, going), path[going, -1], who[going]
            payoff, at = payoff[going], at[going]
            if not len(now):
                return times
    return times


def _times_apart(
    test: PlainTest, pairs: int, audits: int, scene: PairSimulator, rng: np.random.Generator
) -> Ints:
    """The same where a share of the weight is that of the product bet."""
    level = -float(np.log((1 - test.confidence) * test.weight))
    levels, deltas = (one[None] for one in read_levels(test.tested, (test.delta,)))
    times = np.zeros(audits, np.int64)
    most = max(1, CELLS // max(1, pairs))
    for first in range(0, audits, most):
        x, y = scene.draw(min(most, audits - first), pairs, rng)
        product = product_paths(x[..., 0], y[..., 0], levels, deltas, test.wary)[:, 0]
        both = np.log(1 - test.apart) + _paths(test, x, y), np.log(test.apart) + product
        reached = np.logaddexp(*both) >= level
        times[first : first + most] = np.where(reached.any(1), reached.argmax(1) + 1, 0)
    return times


def _paths(test: PlainTest, x: Floats, y: Floats) -> Floats:
    """(audits, pairs) log e-values of pairs that are all known."""
    process, (audits, pairs, columns) = test.process(), x.shape
    rule, prior = process.stake_rule(process.lines, columns), process.prior(columns)
    past, found = Moments(np.repeat(prior.sums, audits, 1)), [np.zeros((audits, 1))]
    every = np.ones(audits, bool)
    for start, stop in pairwise([*restakes_before(pairs).tolist(), pairs]):
        stakes, part = rule.choose(past, np.full(past.sums.shape[1], start)), slice(start, stop)
        growth = _growth(stakes.payoff[0], stakes.threshold[0], x[:, part], y[:, part])
        found.append(found[-1][:, -1:] + growth)
        past = _add(past, x[:, part], y[:, part], every)
    return np.concatenate(found[1:], axis=1)


def _growth(payoff: Floats, at: Ints, x: Floats, y: Floats) -> Floats:
    """(audits, pairs) growth of the log e-value."""
    gains = np.zeros(x.shape[:2])
    audit = np.arange(len(x))
    for way in (0, 1):
        a, b, c = payoff[:, way].T[..., None]
        gains += a + b * x[audit, :, at[:, way]] + c * y[audit, :, at[:, way]]
    return np.asarray(np.log1p(gains).cumsum(1))


def _add(past: Moments, x: Floats, y: Floats, going: Bools) -> Moments:
    """Moments of the audits that continue, updated with their last pairs."""
    x, y = x[going], y[going]
    ones = np.full((len(x), x.shape[2]), float(x.shape[1]))
    squares = [np.einsum("apk,apk->ak", one, two) for one, two in ((x, x), (x, y), (y, y))]
    sums = np.stack([ones, x.sum(1), y.sum(1), *squares])
    return Moments(past.sums[:, going] + sums)


def process_accuracy_power(
    pairs: int, confidence: float, weight: float, early: bool
) -> AccuracyPower:
    """Power of one of two sides against random guessing, by the accuracy of the attack."""
    if not pairs:
        return ()
    tested = Claim(0.0, 0.0).guarantee()
    test = PlainTest(tested, confidence, 0.0, None if early else pairs, weight)
    return tuple((one, simulate_power(test, pairs, YesNo(one, 1 - one))) for one in ACCURACIES)
