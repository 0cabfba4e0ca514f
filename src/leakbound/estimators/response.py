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
from leakbound.stats.e_values.stakes import Moments, StakeRule, restake_points

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
AUDITS = 200  # gives a standard error of at most 0.035; a plan needs no more
MORE = 300  # added if all audits reject, which is fast; the interval then begins at 0.993
LEAST, DRAWN = 100, 4_000_000  # fewest audits, and most pairs in all audits together
CELLS = 500_000  # scores held at once, a few MiB


@dataclass(frozen=True, slots=True)
class PlainTest:
    """The part of a deciding e-process whose power is computed."""

    tested: Guarantee
    confidence: float
    delta: float
    horizon: int | None
    weight: float = 1.0

    def process(self) -> EProcess:
        """The e-process of the part."""
        return EProcess(self.tested, self.confidence, deltas=(self.delta,), horizon=self.horizon)


@lru_cache(maxsize=512)
def simulated_power(test: PlainTest, pairs: int, scene: ImaginedPairs, seed: int = 0) -> Power:
    """Share of simulated audits that reject.

    Other parts of the e-process can only add to its e-value, so the power of the whole is no less.
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
    """Number of audits that reject; if all audits are the same, only one is simulated."""
    if scene.certain:
        return audits * rejected_audits(test, pairs, 1, scene, rng)
    return rejected_audits(test, pairs, audits, scene, rng)


def rejected_audits(
    test: PlainTest, pairs: int, audits: int, scene: ImaginedPairs, rng: np.random.Generator
) -> int:
    """Number of simulated audits that reject."""
    return int(np.count_nonzero(rejection_times(test, pairs, audits, scene, rng)))


def rejection_times(
    test: PlainTest, pairs: int, audits: int, scene: ImaginedPairs, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Number of pairs after which each simulated audit rejects. Each one ends when it rejects."""
    process, columns = test.process(), scene.columns
    level = process.log_threshold - float(np.log(test.weight))
    rule = _rule(process, columns)
    prior = Moments.of(np.ones((1, columns)), np.zeros((1, columns)))
    past, now = Moments(np.repeat(prior.sums, audits, 1)), np.zeros(audits)
    times, who = np.zeros(audits, np.int64), np.arange(audits)
    for start, stop in pairwise(_starts(pairs)):
        payoff, at = _stakes(rule, past, start)
        seen = start
        for size in _sizes(stop - start, len(now) * columns):
            x, y = scene.draw(len(now), size, rng)
            path = now[:, None] + _growth(payoff, at, x, y)
            going = path.max(1) < level
            times[who[~going]] = seen + 1 + (path[~going] >= level).argmax(1)
            past, now, who = _added(past, x, y, going), path[going, -1], who[going]
            payoff, at, seen = payoff[going], at[going], seen + size
            if not len(now):
                return times
    return times


def _rule(process: EProcess, columns: int) -> StakeRule:
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    states = np.repeat(corners[:, :1], columns, 1), np.repeat(corners[:, 1:], columns, 1)
    prior = np.zeros(columns)
    return StakeRule(process.lines, states, prior, process.log_threshold, process.horizon)


def _starts(pairs: int) -> list[int]:
    """Indices of the pairs before which stakes change, and the end."""
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
    """(audits, 2, 3) payoffs and (audits, 2) thresholds, chosen from the past of each audit."""
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
    """Moments of the audits that continue, updated with their last pairs."""
    x, y = x[going], y[going]
    ones = np.full((len(x), x.shape[2]), float(x.shape[1]))
    squares = [np.einsum("apk,apk->ak", one, two) for one, two in ((x, x), (x, y), (y, y))]
    sums = np.stack([ones, x.sum(1), y.sum(1), *squares])
    return Moments(past.sums[:, going] + sums)
