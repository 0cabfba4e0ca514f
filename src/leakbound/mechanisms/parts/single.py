"""Mechanisms that return one answer unchanged, and helpers that other mechanisms use too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leakbound.errors import UsageError
from leakbound.mechanisms.parts.base import MechanismBase
from leakbound.models import Complete, Model
from leakbound.privacy import Guarantee, NonPrivate
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    GeneratedText,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Votes,
    parse_answer,
)
from leakbound.tasks.mechanism import Exactness
from leakbound.tasks.partition import Sampling, split

# Longest reply to a query with given answers, in tokens. It leaves room for a chatty prefix before
# the longest label of the named tasks (5 tokens). A truncated reply counts as unparsable.
ANSWER_TOKENS = 12


def one_vote(text: str, answers: Sequence[str]) -> Votes:
    chosen = parse_answer(text, answers)
    return Votes(tuple(int(i == chosen) for i in range(len(answers) + 1)))


def as_aggregate(task: Task, query: Query, text: str) -> Votes | GeneratedText:
    answers = task.answers(query)
    return one_vote(text, answers) if answers else GeneratedText(text.strip())


def release_unchanged(aggregate: Aggregate, draws: int) -> Outputs:
    """The answer itself, the same for every draw."""
    if isinstance(aggregate, GeneratedText):
        return Outputs(np.zeros(draws, np.int64), choices=(aggregate.text,))
    if isinstance(aggregate, Votes):
        return Outputs(np.full(draws, int(np.argmax(aggregate.counts)), np.int64))
    raise UsageError(
        f"the aggregate is a {type(aggregate).__name__}; only a vote or a text can be returned "
        "unchanged. Add noise to a Vector."
    )


def require_answers(
    task: Task, query: Query, name: str, instead: str = "another mechanism"
) -> tuple[str, ...]:
    """The query's answers, for a mechanism that chooses among them."""
    if not (answers := task.answers(query)):
        raise UsageError(
            f"{name} chooses among given answers; use a classification task, or {instead}."
        )
    return answers


def answer_tokens(task: Task, query: Query) -> int:
    if not task.answers(query):
        return task.max_answer_tokens
    return max(ANSWER_TOKENS, *map(len, query.labels), 0)  # a token has at least one character


def partition_requests(
    task: Task, job: Job, partitions: int, draw: int, sampling: Sampling = "position"
) -> list[AnyRequest]:
    """One greedy completion for each partition of the context."""
    length = answer_tokens(task, job.query)
    parts = split(job.context, partitions, draw, sampling)
    return [
        Complete(task.prompt(part, job.query), max_tokens=length, draw=draw, alone=True)
        for part in parts
    ]


@dataclass(frozen=True, slots=True)
class Undefended(MechanismBase):
    """Base of systems that show the model the whole context and return its reply; no guarantee."""

    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[RequestKinds] = frozenset({Complete})
    exactness: ClassVar[Exactness] = "full"
    answers_once: ClassVar[bool] = True

    @property
    def guarantee(self) -> Guarantee:
        """None: the answer may depend on one example in any way."""
        return NonPrivate()

    def voters(self, shots: int) -> int:
        return 1

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """False: no noise is drawn."""
        return False

    def preamble(self) -> str:
        """Instruction of the operator that precedes the examples; empty here."""
        return ""

    def shown(self, job: Job) -> Job:
        """The part of a job (PRIVATE) that the model sees: all of it."""
        return job

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """One greedy completion of the whole prompt."""
        seen = self.shown(job)
        prompt = task.prompt(seen.context, job.query, self.preamble())
        length, alone = answer_tokens(task, job.query), not isinstance(self.guarantee, NonPrivate)
        return [Complete(prompt, length, draw=draw, alone=alone and bool(seen.context))]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Make one model call for each job; a failed one raises unless there is a guarantee."""
        replies = self._answer_jobs(task, jobs, draws, model)
        return [
            as_aggregate(task, job.query, text) for job, (text,) in zip(jobs, replies, strict=True)
        ]

    def release(self, aggregate: Aggregate, draws: int, rng: np.random.Generator) -> Outputs:
        return release_unchanged(aggregate, draws)

    def output_distribution(self, aggregate: Aggregate) -> CategoricalLaw | None:
        """A point mass on the answer, if it is a vote."""
        if not isinstance(aggregate, Votes):
            return None
        return CategoricalLaw(np.asarray(aggregate.counts, float))
