"""A private mechanism of your own: the random ballot.

It draws the vote of one partition, or now and then any answer at all.

python examples/user_mechanism.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from leakbound_lab.conformance import conform

from leakbound.errors import UsageError
from leakbound.mechanisms import MechanismBase
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.models import Complete, Model
from leakbound.privacy import PureDP
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    Exactness,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Votes,
    parse_answer,
)
from leakbound.tasks.partition import split_by_position


@dataclass(frozen=True, slots=True)
class RandomBallot(MechanismBase):
    """P(y) = (1 - g) votes(y)/T + g/K, over K classes: the query's answers, and one for "none".

    Attributes:
        epsilon: Of one answer, above 0.
        partitions: T, the number of disjoint parts of the context.

    Guarantee:
        epsilon-DP under replace_one. Replacing one example replaces one of T votes. The ratio of
        the two probabilities is largest where a vote is the only one for its answer:
        ((1 - g)/T + g/K) / (g/K). With g = (K/T) / (e^epsilon - 1 + K/T) that is e^epsilon.
    """

    name: ClassVar[str] = "random_ballot"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[RequestKinds] = frozenset({Complete})
    exactness: ClassVar[Exactness] = "full"
    epsilon: float = 2.0
    partitions: int = 10

    @property
    def guarantee(self) -> PureDP:
        """epsilon-DP."""
        return PureDP(self.epsilon)

    def voters(self, shots: int) -> int:
        """One vote for each partition."""
        return self.partitions

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Only `release` draws, so stored votes serve every epsilon."""
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """One completion for each partition."""
        if not task.answers(job.query):
            raise UsageError("random_ballot chooses among given answers; use a query with answers.")
        parts = split_by_position(job.context, self.partitions)
        return [
            Complete(task.prompt(part, job.query), max_tokens=12, draw=draw, alone=True)
            for part in parts
        ]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Count the votes; an answer that cannot be read stays a vote, for "none"."""
        return [self._count(task, job, draw, model) for job, draw in zip(jobs, draws, strict=True)]

    def _count(self, task: Task, job: Job, draw: int, model: Model) -> Votes:
        answers = task.answers(job.query)
        texts = answer_total(model, task, [job], [self.requests(task, job, draw)])[0]
        votes = [parse_answer(text, answers) for text in texts]
        return Votes(tuple(votes.count(i) for i in range(len(answers) + 1)))

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        """Independent ballots."""
        p = self.output_distribution(aggregate).probabilities
        return Outputs(np.asarray(rng.choice(p.size, draws, p=p), np.int64))

    def output_distribution(self, aggregate: Votes) -> CategoricalLaw:
        """The mixture above."""
        counts = np.asarray(aggregate.counts, float)
        odds = counts.size / counts.sum()
        g = odds / (math.expm1(self.epsilon) + odds)
        return CategoricalLaw((1 - g) * counts / counts.sum() + g / counts.size)


if __name__ == "__main__":
    for check in conform(RandomBallot()):
        print("passed" if check.passed else "BROKEN", check.name, "-", check.detail)
