"""What mechanisms share that release one answer as it is, without noise: one vote or one text, one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from contextleak.icl import (
    Access,
    CategoricalLaw,
    Clean,
    Job,
    Query,
    Releases,
    Spoken,
    Task,
    Votes,
    parse_answer,
)
from contextleak.icl.partition import split_by_position
from contextleak.mechanisms.answering import Answering
from contextleak.models import Ask, Complete, Model
from contextleak.privacy import Guarantee, NonPrivate

__all__ = ["ANSWER_TOKENS", "Undefended", "answer_tokens", "as_given", "given_law", "heard", "one_each", "one_vote"]

ANSWER_TOKENS = 12


def one_vote(text: str, answers: Sequence[str]) -> Votes:
    """The vote of one answer; the last class counts what cannot be read as any of the answers."""
    chosen = parse_answer(text, answers)
    return Votes(tuple(int(i == chosen) for i in range(len(answers) + 1)))


def heard(task: Task, query: Query, text: str) -> Clean:
    """One answer as a clean aggregate: a vote where the query has answers, else its text."""
    answers = task.answers(query)
    return one_vote(text, answers) if answers else Spoken(text.strip())


def as_given(clean: Clean, draws: int) -> Releases:
    """The answer itself, the same at every draw."""
    if isinstance(clean, Spoken):
        return Releases(np.zeros(draws, np.int64), choices=(clean.text,))
    assert isinstance(clean, Votes)
    return Releases(np.full(draws, int(np.argmax(clean.counts)), np.int64))


def given_law(clean: Clean) -> CategoricalLaw | None:
    """All mass on the one answer; unknown for a text."""
    return CategoricalLaw(np.asarray(clean.counts, float)) if isinstance(clean, Votes) else None


def answer_tokens(task: Task, query: Query) -> int:
    """How long an answer may be."""
    return ANSWER_TOKENS if task.answers(query) else task.max_answer_tokens


def one_each(task: Task, job: Job, partitions: int, draw: int) -> list[Ask[Any]]:
    """One greedy completion a partition: what every mechanism that aggregates answers asks first."""
    length = answer_tokens(task, job.query)
    parts = split_by_position(job.context, partitions)
    return [Complete(task.prompt(part, job.query), max_tokens=length, draw=draw) for part in parts]


@dataclass(frozen=True, slots=True)
class Undefended(Answering):
    """Base of the systems that show the whole context to the model and release what it says. No guarantee."""

    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type[Ask[Any]]]] = frozenset({Complete})

    @property
    def guarantee(self) -> Guarantee:
        """None: the answer may depend on one exemplar in any way."""
        return NonPrivate()

    def preamble(self) -> str:
        """What the operator says to the model first."""
        return ""

    def shown(self, job: Job) -> Job:
        """The job with the part of the context that the model sees."""
        return job

    def asks(self, task: Task, job: Job, draw: int) -> list[Ask[Any]]:
        """One greedy completion of the whole prompt."""
        seen = self.shown(job)
        prompt = task.prompt(seen.context, job.query, self.preamble())
        return [Complete(prompt, max_tokens=answer_tokens(task, job.query), draw=draw)]

    def collect(self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model) -> list[Clean]:
        """One model call a job."""
        asks = [ask for job, draw in zip(jobs, draws, strict=True) for ask in self.asks(task, job, draw)]
        return [heard(task, job.query, text) for job, text in zip(jobs, model.answer(asks), strict=True)]

    def release(self, clean: Clean, draws: int, rng: np.random.Generator) -> Releases:
        """The answer itself, the same at every draw."""
        return as_given(clean, draws)

    def law(self, clean: Clean) -> CategoricalLaw | None:
        """All mass on the one answer; unknown for a text."""
        return given_law(clean)
