"""Power of an e-process: many simulated audits at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from leakbound.estimators.crowd import ImaginedPairs
from leakbound.privacy import Guarantee
from leakbound.stats import EProcess, Power
from leakbound.stats.stakes import Moments, StakeRule, restake_points

__all__ = ["PlainTest", "rejected_audits", "simulated_power"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
AUDITS = 200  # a standard error of at most 0.035: a plan needs no more
MORE = 300  # added where all reject, which takes little time: the interval then begins at 0.993
LEAST, DRAWN = 100, 4_000_000  # audits, and pairs of all audits, where there are very many pairs
CELLS = 500_000  # scores held at once: some MiB


@dataclass(frozen=True, slots=True)
class PlainTest:
    """The part of a deciding e-process whose power is asked for.

    Args:
        tested: Guarantee that is tested first.
        confidence: Of the whole e-process.
        delta: At which a claim that is not Gaussian is read.
        horizon: Planned number of pairs; None where the audit may end early.
        weight: Of this part in the whole; it rejects with an e-value of 1/(weight alpha).
    """

    tested: Guarantee
    confidence: float
    delta: float
    horizon: int | None
    weight: float = 1.0

    def process(self) -> EProcess:
        """The e-process of the part.

        Returns:
            An e-process that has seen no pair.
        """
        return EProcess(self.tested, self.confidence, deltas=(self.delta,), horizon=self.horizon)


@lru_cache(maxsize=512)
def simulated_power(test: PlainTest, pairs: int, scene: ImaginedPairs, seed: int = 0) -> Power:
    """Share of simulated audits that reject what a test tests.

    Other parts of the e-process can only add to its e-value, so the power of the whole is no less.

    Args:
        test: What is tested, and how.
        pairs: Pairs of one audit.
        scene: What a pair shows.
        seed: Seed of the simulation.

    Returns:
        The share of 100 to 500 audits.
    """
    rng, audits = np.random.default_rng(seed), max(LEAST, min(AUDITS, DRAWN // max(1, pairs)))
    rejected = _rejected(test, pairs, audits, scene, rng)
    if rejected == audits:
        rejected += _rejected(test, pairs, MORE, scene, rng)
        audits += MORE
    return Power(rejected / audits, audits, scene.leak)


def _rejected(
    test: PlainTest, pairs: int, audits: int, scene: ImaginedPairs, rng: np.random.Generator
) -> int:
    """How many audits reject; of audits that are all the same, one is played."""
    if scene.certain:
        return audits * rejected_audits(test, pairs, 1, scene, rng)
    return rejected_audits(test, pairs, audits, scene, rng)


def rejected_audits(
    test: PlainTest, pairs: int, audits: int, scene: ImaginedPairs, rng: np.random.Generator
) -> int:
    """How many of some simulated audits reject; those that have are simulated no further.

    Args:
        test: What is tested, and how.
        pairs: Pairs of one audit.
        audits: Number of audits.
        scene: What a pair shows.
        rng: Where pairs come from.

    Returns:
        A number of audits.
    """
    process, columns = test.process(), scene.columns
    level = process.log_threshold - float(np.log(test.weight))
    rule = _rule(process, columns)
    prior = Moments.of(np.ones((1, columns)), np.zeros((1, columns)))
    past, now = Moments(np.repeat(prior.sums, audits, 1)), np.zeros(audits)
    for start, stop in pairwise(_starts(pairs)):
        payoff, at = _stakes(rule, past, start)
        for size in _sizes(stop - start, len(now) * columns):
            x, y = scene.draw(len(now), size, rng)
            path = now[:, None] + _growth(payoff, at, x, y)
            going = path.max(1) < level
            past, now = _added(past, x, y, going), path[going, -1]
            payoff, at = payoff[going], at[going]
            if not len(now):
                return audits
    return audits - len(now)


def _rule(process: EProcess, columns: int) -> StakeRule:
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    states = np.repeat(corners[:, :1], columns, 1), np.repeat(corners[:, 1:], columns, 1)
    prior = np.zeros(columns)
    return StakeRule(process.lines, states, prior, process.log_threshold, process.horizon)


def _starts(pairs: int) -> list[int]:
    """The pairs before which stakes change, and the end."""
    starts: list[int] = []
    for start in restake_points():
        if start >= pairs:
            return [*starts, pairs]
        starts.append(start)
    return starts


def _sizes(pairs: int, width: int) -> list[int]:
    """Numbers of pairs whose scores are held at once."""
    most = max(1, CELLS // max(1, width))
    return [min(most, pairs - first) for first in range(0, pairs, most)]


def _stakes(rule: StakeRule, past: Moments, seen: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """(audits, 2, 3) payoffs and (audits, 2) thresholds that each audit's past suggests."""
    stakes = rule.choose(past, np.full(past.sums.shape[1], seen))
    return stakes.payoff[0], stakes.threshold[0]


def _growth(payoff: Floats, at: npt.NDArray[np.int64], x: Floats, y: Floats) -> Floats:
    """(audits, pairs) growth of the log e-value."""
    gains = np.zeros(x.shape[:2])
    audit = np.arange(len(x))
    for way in (0, 1):
        a, b, c = payoff[:, way].T[..., None]
        gains += a + b * x[audit, :, at[:, way]] + c * y[audit, :, at[:, way]]
    return np.asarray(np.log1p(gains).cumsum(1))


def _added(past: Moments, x: Floats, y: Floats, going: Bools) -> Moments:
    """The moments of the audits that go on, with their last pairs."""
    x, y = x[going], y[going]
    ones = np.full((len(x), x.shape[2]), float(x.shape[1]))
    squares = [np.einsum("apk,apk->ak", one, two) for one, two in ((x, x), (x, y), (y, y))]
    sums = np.stack([ones, x.sum(1), y.sum(1), *squares])
    return Moments(past.sums[:, going] + sums)
