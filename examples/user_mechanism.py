"""A private mechanism of your own: the random ballot. One partition's vote is drawn, or now and then any answer at all.

python examples/user_mechanism.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from contextleak.icl import Access, CategoricalLaw, Clean, Job, Query, Releases, Task, Votes, parse_answer
from contextleak.icl.partition import split_by_position
from contextleak.models import Ask, Complete, Model
from contextleak.privacy import Guarantee, PureDP
from contextleak.testing import conform


@dataclass(frozen=True, slots=True)
class RandomBallot:
    """P(y) = (1 - g) votes(y)/T + g/K, over K classes (the query's answers, and one for "none of them").

    Replacing one exemplar replaces one of T votes. The ratio of two worlds is largest where a vote is the only one for its
    answer: ((1 - g)/T + g/K) / (g/K). With g = (K/T) / (e^epsilon - 1 + K/T) that is e^epsilon: epsilon-DP under replace_one.
    """

    name: ClassVar[str] = "random_ballot"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type[Ask[Any]]]] = frozenset({Complete})
    epsilon: float = 2.0
    partitions: int = 10

    @property
    def guarantee(self) -> Guarantee:
        """epsilon-DP."""
        return PureDP(self.epsilon)

    def guarantee_of(self, task: Task, query: Query) -> Guarantee:
        """One answer, one draw."""
        return self.guarantee

    def asks(self, task: Task, job: Job, draw: int) -> list[Ask[Any]]:
        """One completion a partition."""
        parts = split_by_position(job.context, self.partitions)
        return [Complete(task.prompt(part, job.query), max_tokens=12, draw=draw) for part in parts]

    def collect(self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model) -> list[Clean]:
        """Count the votes; what cannot be read stays a vote, for none of the answers."""
        return [self._count(task, job, draw, model) for job, draw in zip(jobs, draws, strict=True)]

    def _count(self, task: Task, job: Job, draw: int, model: Model) -> Votes:
        answers = task.answers(job.query)
        votes = [parse_answer(text, answers) for text in model.answer(self.asks(task, job, draw))]
        return Votes(tuple(votes.count(i) for i in range(len(answers) + 1)))

    def release(self, clean: Votes, draws: int, rng: np.random.Generator) -> Releases:
        """Independent ballots."""
        p = self.law(clean).probabilities
        return Releases(np.asarray(rng.choice(p.size, draws, p=p), np.int64))

    def law(self, clean: Votes) -> CategoricalLaw:
        """The mixture above."""
        counts = np.asarray(clean.counts, float)
        odds = counts.size / counts.sum()
        g = odds / (math.expm1(self.epsilon) + odds)
        return CategoricalLaw((1 - g) * counts / counts.sum() + g / counts.size)

    def speak(self, task: Task, query: Query, releases: Releases, model: Model) -> list[str]:
        """The drawn answer, in words."""
        choices = (*task.answers(query), "(no answer)")
        return [choices[i] for i in releases.answers]


if __name__ == "__main__":
    for check in conform(RandomBallot()):
        print("kept  " if check.passed else "BROKEN", check.name, "-", check.detail)
