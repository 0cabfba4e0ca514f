"""What mechanisms share that release one answer as it is, without noise:

one vote or one text, one release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from leakbound.mechanisms.answering import Answering
from leakbound.models import Complete, Model, Request
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.tasks import (
    Access,
    Aggregate,
    CategoricalLaw,
    Job,
    Outputs,
    Query,
    Spoken,
    Task,
    Votes,
    parse_answer,
)
from leakbound.tasks.partition import split_by_position

__all__ = [
    "ANSWER_TOKENS",
    "Undefended",
    "answer_tokens",
    "as_given",
    "given_law",
    "heard",
    "one_each",
    "one_vote",
]

ANSWER_TOKENS = 12


def one_vote(text: str, answers: Sequence[str]) -> Votes:
    """The vote of one answer; the last class counts what cannot be read as any of the answers."""
    chosen = parse_answer(text, answers)
    return Votes(tuple(int(i == chosen) for i in range(len(answers) + 1)))


def heard(task: Task, query: Query, text: str) -> Aggregate:
    """One answer as a aggregate: a vote where the query has answers, else its text."""
    answers = task.answers(query)
    return one_vote(text, answers) if answers else Spoken(text.strip())


def as_given(aggregate: Aggregate, draws: int) -> Outputs:
    """The answer itself, the same at every draw."""
    if isinstance(aggregate, Spoken):
        return Outputs(np.zeros(draws, np.int64), choices=(aggregate.text,))
    assert isinstance(aggregate, Votes)
    return Outputs(np.full(draws, int(np.argmax(aggregate.counts)), np.int64))


def given_law(aggregate: Aggregate) -> CategoricalLaw | None:
    """All mass on the one answer; unknown for a text."""
    return (
        CategoricalLaw(np.asarray(aggregate.counts, float))
        if isinstance(aggregate, Votes)
        else None
    )


def answer_tokens(task: Task, query: Query) -> int:
    """How long an answer may be."""
    return ANSWER_TOKENS if task.answers(query) else task.max_answer_tokens


def one_each(task: Task, job: Job, partitions: int, draw: int) -> list[Request[Any]]:
    """One greedy completion a partition:

    what every mechanism that aggregates answers asks first.
    """
    length = answer_tokens(task, job.query)
    parts = split_by_position(job.context, partitions)
    return [Complete(task.prompt(part, job.query), max_tokens=length, draw=draw) for part in parts]


@dataclass(frozen=True, slots=True)
class Undefended(Answering):
    """Base of the systems that show the whole context to the model and release what it says.

    No guarantee.
    """

    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({Complete})

    @property
    def guarantee(self) -> Guarantee:
        """None: the answer may depend on one example in any way."""
        return NonPrivate()

    def preamble(self) -> str:
        """What the operator says to the model first."""
        return ""

    def shown(self, job: Job) -> Job:
        """The job with the part of the context that the model sees."""
        return job

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """One greedy completion of the whole prompt."""
        seen = self.shown(job)
        prompt = task.prompt(seen.context, job.query, self.preamble())
        return [Complete(prompt, max_tokens=answer_tokens(task, job.query), draw=draw)]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """One model call a job."""
        requests = [
            ask
            for job, draw in zip(jobs, draws, strict=True)
            for ask in self.requests(task, job, draw)
        ]
        return [
            heard(task, job.query, text)
            for job, text in zip(jobs, model.answer(requests), strict=True)
        ]

    def release(self, aggregate: Aggregate, draws: int, rng: np.random.Generator) -> Outputs:
        """The answer itself, the same at every draw."""
        return as_given(aggregate, draws)

    def output_distribution(self, aggregate: Aggregate) -> CategoricalLaw | None:
        """All mass on the one answer; unknown for a text."""
        return given_law(aggregate)
