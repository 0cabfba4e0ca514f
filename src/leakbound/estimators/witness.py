"""The learned witness as a part of the deciding e-process: whole replies, next to their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import cycle, islice

import numpy as np

from leakbound.estimators.base import (
    Bounds,
    Estimator,
    Observations,
    PairedScores,
    ReplyPair,
    TrialDesign,
)
from leakbound.privacy import ApproxDP, Guarantee, gdp_epsilon
from leakbound.stats import BoundReading
from leakbound.stats.arrays import Floats
from leakbound.stats.e_values.anytime import GRID
from leakbound.witness.features import SCALARS, as_features
from leakbound.witness.process import SCAN, WitnessProcess


class WitnessEvidence:
    """E-values of a `WitnessProcess` against any claim.

    A pair without a reply does not change them. The process tests a few values of epsilon. A claim
    implies every larger one, so the e-value of the next larger tested value is evidence against it.
    The tested claim itself is replaced by the next larger one on the grid of bounds. If that is
    rejected, the bound exceeds the claim.

    Guarantee: under a claim, its e-values have an expectation of at most 1 at any stopping time.
    """

    def __init__(self, design: TrialDesign, tested: Guarantee, weight: float) -> None:
        aim = 1 - weight * (1 - design.confidence)
        planned = design.first_look or design.pairs  # a horizon is needed even for an early end
        claim = tested
        if isinstance(tested, ApproxDP):  # the next larger one: its rejection is of a bound above
            at = int(np.searchsorted(GRID, tested.value, side="right"))
            claim = tested if at == GRID.size else replace(tested, value=float(GRID[at]))
        scan = tuple(one for one in SCAN if not isinstance(tested, ApproxDP) or one != tested.value)
        self.process = WitnessProcess(
            claim, aim, horizon=planned, delta=design.claim.delta, scan=scan
        )
        self._seen: list[int] = []  # number of reply pairs that the process had seen, by pair

    def observe(self, replies: ReplyPair, canary: str) -> None:
        member, nonmember = replies
        if member is not None and nonmember is not None:
            self.process.observe(member, nonmember, canary)
        self._seen.append(self.process.pairs)

    def reading(self) -> BoundReading:
        return BoundReading("replies", "", *self.process.guesses(), self.process.leads())

    @property
    def pairs(self) -> int:
        return len(self._seen)

    @property
    def log_e_values(self) -> Floats:
        return self._after_each(self.process.log_e_values)

    def epsilon_paths(self, epsilons: Floats, delta: float) -> Floats:
        if delta > self.process.delta:  # such claims imply nothing at the delta of the process
            return np.zeros((len(epsilons), len(self._seen)))
        paths = self.process.scan_log_e_values()
        known = np.array(sorted(paths))
        found = [self._after_each(paths[one]) for one in known]
        silent = np.zeros(len(self._seen))
        at = np.searchsorted(known, epsilons - 1e-12)
        return np.stack([found[i] if i < len(found) else silent for i in at])

    def mu_paths(self, mus: Floats) -> Floats:
        """Replay the pairs against claims of mu-GDP, by their epsilon at the design's delta."""
        delta = self.process.delta
        if delta == 0:
            return np.zeros((len(mus), len(self._seen)))
        return self.epsilon_paths(np.array([_implied(float(mu), delta) for mu in mus]), delta)

    def _after_each(self, path: Floats) -> Floats:
        """(pairs,) values of a path over the replies seen by then; 0 before the first."""
        return np.concatenate([[0.0], path])[self._seen]


TIMES = np.array([name.startswith("seconds") for name in SCALARS])


def larger_in(replies: ReplyPair) -> Floats:
    """(measurements,) signs: 1 where the first reply has the larger one. Of times, none."""
    one, other = replies
    if one is None or other is None:
        return np.zeros(len(SCALARS))
    signs = np.sign(as_features(one).scalars - as_features(other).scalars)
    return np.where(TIMES, 0.0, np.nan_to_num(signs))


_implied = lru_cache(maxsize=4096)(gdp_epsilon)  # all channels of a system use one grid of claims


def reach_of_replies(
    design: TrialDesign, estimator: Estimator, pairs: int, shown: Sequence[tuple[ReplyPair, str]]
) -> Bounds:
    """The bounds if the replies of every pair differ as those of the controls do."""
    tested = estimator.tested_pairs(design, pairs) - len(shown)
    if tested <= 0 or not shown:
        return Bounds(0.0, 0.0)
    shorter = replace(design, pairs=max(1, design.pairs - len(shown)), first_look=None)
    silent, drawn = (PairedScores(one, one) for one in (np.zeros(tested), np.zeros((tested, 1))))
    values, replies = estimator.begin(shorter), tuple(islice(cycle(shown), tested))
    values.observe(Observations(design.pilot, tested, silent, drawn, reply_pairs=replies))
    epsilon, mu = values.bounds()
    return Bounds(epsilon.epsilon or 0.0, mu.mu or 0.0)
