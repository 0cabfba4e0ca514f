"""What mechanisms share that release one answer as it is, without noise: one vote, one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from contextleak.icl import Access, CategoricalLaw, Job, Releases, Task, Votes, parse_answer
from contextleak.models import Ask, Complete, Model
from contextleak.privacy import Guarantee, NonPrivate

__all__ = ["Undefended", "one_vote"]

ANSWER_TOKENS = 12


def one_vote(text: str, answers: Sequence[str]) -> Votes:
    """The vote of one answer; the last class counts what cannot be read as any of the answers."""
    chosen = parse_answer(text, answers)
    return Votes(tuple(int(i == chosen) for i in range(len(answers) + 1)))


@dataclass(frozen=True, slots=True)
class Undefended:
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
        length = ANSWER_TOKENS if task.answers(job.query) else task.max_answer_tokens
        return [Complete(task.prompt(seen.context, job.query, self.preamble()), max_tokens=length, draw=draw)]

    def collect(self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model) -> list[Votes]:
        """One model call a job."""
        asks = [ask for job, draw in zip(jobs, draws, strict=True) for ask in self.asks(task, job, draw)]
        return [one_vote(text, task.answers(job.query)) for job, text in zip(jobs, model.answer(asks), strict=True)]

    def release(self, clean: Votes, draws: int, rng: np.random.Generator) -> Releases:
        """The answer itself, the same at every draw."""
        return Releases(np.full(draws, int(np.argmax(clean.counts)), np.int64))

    def law(self, clean: Votes) -> CategoricalLaw:
        """All mass on the one answer."""
        return CategoricalLaw(np.asarray(clean.counts, float))
