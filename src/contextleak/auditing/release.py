"""The cheap side: from clean aggregates through the mechanism's own release code to scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contextleak.attacks import Score
from contextleak.auditing.design import Pair
from contextleak.auditing.seeds import Purpose, generator
from contextleak.auditing.store import EvidenceRow
from contextleak.icl import Mechanism, Task

__all__ = ["Trials", "simulate", "trials"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Trials:
    """Scores of both worlds, (pairs, draws) each. One draw a world is a trial; more draws of one pair are not independent."""

    member: Floats
    nonmember: Floats

    def part(self, pairs: slice) -> Trials:
        """All draws of some of the pairs."""
        return Trials(self.member[pairs], self.nonmember[pairs])

    def first(self, pairs: slice = slice(None)) -> Trials:
        """The first draw of some of the pairs."""
        return Trials(self.member[pairs, :1], self.nonmember[pairs, :1])


def trials(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair], evidence: Sequence[EvidenceRow], seed: int
) -> Trials:
    """One release per world and pair."""
    return _released(task, mechanism, score, pairs, evidence, 1, seed, "release")


def simulate(
    task: Task,
    mechanism: Mechanism,
    score: Score,
    pairs: Sequence[Pair],
    evidence: Sequence[EvidenceRow],
    draws: int,
    seed: int,
) -> Trials:
    """`draws` releases per world of the same aggregates: for curves and thresholds, and as a pair's mean for the e-process."""
    return _released(task, mechanism, score, pairs, evidence, max(1, draws), seed, "simulate")


def _released(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair], evidence: Sequence[EvidenceRow], draws: int,
    seed: int, purpose: Purpose,
) -> Trials:  # fmt: skip
    by_index = {row.pair: row for row in evidence}
    out = np.empty((2, len(pairs), draws))
    for at, pair in enumerate(pairs):
        row, answers = by_index[pair.index], task.answers(pair.asked.query)
        for world, votes in enumerate((row.member, row.nonmember)):
            rng = generator(seed, purpose, pair.index, world)
            out[world, at] = score.score(mechanism.release(votes, draws, rng), pair.asked, answers)
    return Trials(out[0], out[1])
