"""The cheap side: from aggregates through the mechanism's own release code to scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.attacks import ReferenceDirection, Score
from leakbound.auditing.design import Pair
from leakbound.auditing.seeds import Purpose, generator
from leakbound.auditing.store import EvidenceRow
from leakbound.tasks import Mechanism, Task

__all__ = ["Trials", "learnt", "simulate", "trials"]

Floats = npt.NDArray[np.float64]
PILOT_DRAWS = 200


@dataclass(frozen=True, slots=True)
class Trials:
    """Scores of both worlds, (pairs, draws) each.

    One draw a world is a trial; more draws of one pair are not independent.
    """

    member: Floats
    nonmember: Floats

    def part(self, pairs: slice) -> Trials:
        """All draws of some of the pairs."""
        return Trials(self.member[pairs], self.nonmember[pairs])

    def first(self, pairs: slice = slice(None)) -> Trials:
        """The first draw of some of the pairs."""
        return Trials(self.member[pairs, :1], self.nonmember[pairs, :1])


def trials(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow], seed: int,
    answers: int = 1,
) -> Trials:  # fmt: skip
    """One trial per world and pair: the mean score of `answers` independent releases."""
    return _released(task, mechanism, score, pairs, evidence, 1, seed, "release", answers)


def simulate(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow], draws: int,
    seed: int, answers: int = 1,
) -> Trials:  # fmt: skip
    """`draws` trials per world of the same aggregates:

    for curves and thresholds, and as a pair's mean for the e-process.
    """
    return _released(
        task, mechanism, score, pairs, evidence, max(1, draws), seed, "simulate", answers
    )


def learnt(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow], pilot: int,
    seed: int,
) -> Score:  # fmt: skip
    """The score, its direction learnt from noisy means of the first `pilot` pairs where it has one
    to learn.
    """
    if not isinstance(score, ReferenceDirection):
        return score
    worlds: tuple[list[Floats], list[Floats]] = ([], [])
    for pair, row in zip(pairs[:pilot], evidence, strict=False):
        for world, aggregate in enumerate((row.member, row.nonmember)):
            noisy = mechanism.release(
                aggregate, PILOT_DRAWS, generator(seed, "pilot", pair.index, world)
            ).noisy
            worlds[world].append(np.zeros(1) if noisy is None else noisy.mean(0))
    return score.fitted(np.stack(worlds[0]), np.stack(worlds[1])) if worlds[0] else score


def _released(
    task: Task, mechanism: Mechanism, score: Score, pairs: Sequence[Pair], evidence: Iterable[EvidenceRow], draws: int,
    seed: int, purpose: Purpose, repeats: int,
) -> Trials:  # fmt: skip
    out = np.empty((2, len(pairs), draws))
    for at, (pair, row) in enumerate(zip(pairs, evidence, strict=True)):
        answers = task.answers(pair.asked.query)
        for world, votes in enumerate((row.member, row.nonmember)):
            rng = generator(seed, purpose, pair.index, world)
            scores = score.score(
                mechanism.release(votes, draws * repeats, rng), pair.asked, answers
            )
            out[world, at] = scores.reshape(draws, repeats).mean(1)
    return Trials(out[0], out[1])
