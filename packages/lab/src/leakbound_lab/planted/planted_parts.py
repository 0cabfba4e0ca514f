"""Mechanisms that part, keep or read a context wrongly, each with one known defect.

None of this is a mechanism that anyone should use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from leakbound.mechanisms import KeywordMean
from leakbound.mechanisms.parts.base import answer_each
from leakbound.mechanisms.parts.single import partition_requests
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.mechanisms.subsample_average import SubsampleAverage
from leakbound.models import Complete, Model
from leakbound.privacy import Gaussian
from leakbound.stats import GaussianLaw
from leakbound.tasks import (
    Aggregate,
    AnyRequest,
    Context,
    Job,
    Outputs,
    Query,
    Task,
    Vector,
    Votes,
    parse_answer,
)
from leakbound_lab.planted.planted_mechanisms import VotingBase


class PartsBase(VotingBase):
    """A vote whose partitions a defect chooses."""

    def parts(self, context: Context, draw: int) -> list[Context]:
        raise NotImplementedError

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        return ()

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        VotingBase.requests(self, task, job, draw)
        prompts = [task.prompt(part, job.query) for part in self.parts(job.context, draw)]
        return [Complete(prompt, alone=True) for prompt in prompts]


class Overlapping(PartsBase):
    """Each partition also holds the first example of the next one."""

    def parts(self, context: Context, draw: int) -> list[Context]:
        count = self.partitions
        return [(*context[i::count], context[(i + 1) % count]) for i in range(count)]


class Replaced(PartsBase):
    """Partitions are sampled with replacement."""

    def parts(self, context: Context, draw: int) -> list[Context]:
        rng = np.random.default_rng(draw)
        size = -(-len(context) // self.partitions)
        return [
            tuple(context[int(i)] for i in rng.integers(0, len(context), size))
            for _ in range(self.partitions)
        ]


class PoissonByPosition(PartsBase):
    """A sample that is split by position, and declared under add_remove."""

    @property
    def guarantee(self) -> Gaussian:
        """As if a removed example changed one partition."""
        return Gaussian(math.sqrt(2), self.sigma, "add_remove")

    def parts(self, context: Context, draw: int) -> list[Context]:
        """By position: one example less moves all that follow it."""
        return [context[i :: self.partitions] for i in range(self.partitions)]


class PaddedPrompts(PartsBase):
    """All prompts of a batch are padded to the longest one, and the padding is read."""

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        made = partition_requests(task, job, self.partitions, draw)
        prompts = [str(one.prompt) for one in made if isinstance(one, Complete)]
        width = max(map(len, prompts))
        return [Complete(" " * (width - len(prompt)) + prompt) for prompt in prompts]


class PublicSeed(SubsampleAverage):
    """Subsamples from a public seed, with the amplification of secret ones."""

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        return SubsampleAverage.requests(self, task, job, 0)


@dataclass(frozen=True, slots=True)
class SameSample(SubsampleAverage):
    """One subsample is drawn for the first query and used for all later ones."""

    name: ClassVar[str] = "same_sample"
    first: list[int] = field(default_factory=list, repr=False, compare=False)

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        if not self.first:
            self.first.append(draw)
        return SubsampleAverage.requests(self, task, job, self.first[0])


class LabelsOfRows(VotingBase):
    """The classes are the labels of the context: a "public" label may be private text."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Votes over the labels of the rows, as a vector that names them."""
        each = answer_total(model, task, jobs, [self.requests(task, job, 0) for job in jobs])
        return [self._votes(task, job, texts) for job, texts in zip(jobs, each, strict=True)]

    def _votes(self, task: Task, job: Job, texts: Sequence[str]) -> Vector:
        public = task.answers(job.query)
        private = tuple(dict.fromkeys(row.label for row in job.context))
        labels = (*public, *(label for label in private if label not in public))
        votes = np.bincount([parse_answer(t, labels) for t in texts], minlength=len(labels) + 1)
        return Vector(tuple(votes.astype(float).tolist()), labels)

    def release(self, aggregate: Any, draws: int, rng: np.random.Generator) -> Outputs:
        noisy = np.asarray(aggregate.values) + rng.normal(
            0.0, self.sigma, (draws, len(aggregate.values))
        )
        return Outputs(noisy.argmax(1), noisy, aggregate.choices)

    def output_distribution(self, aggregate: Any) -> GaussianLaw:
        return GaussianLaw(np.asarray(aggregate.values), self.sigma)


class WordsOfRows(KeywordMean):
    """The domain of keywords holds the words of private answers."""

    def _aggregate(self, task: Task, query: Query, texts: Sequence[str], model: Model) -> Vector:
        words = tuple(dict.fromkeys(word for text in texts for word in text.split()))
        shares = tuple(sum(word in text for text in texts) / len(texts) for word in words)
        return Vector(shares or (0.0,), words or ("-",))


@dataclass(frozen=True, slots=True)
class Uploads(VotingBase):
    """Keeps every context that it was shown, and answers from all of them."""

    name: ClassVar[str] = "uploads"
    seen: list[Context] = field(default_factory=list, repr=False, compare=False)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        self.seen.extend(job.context for job in jobs)
        first = [Job(self.seen[0], job.query) for job in jobs]
        return VotingBase.collect(self, task, first, draws, model)


@dataclass(frozen=True, slots=True)
class ChangingVotes(VotingBase):
    """Two replicas take turns: each second answer ignores the votes."""

    name: ClassVar[str] = "changing_votes"
    calls: list[int] = field(default_factory=lambda: [0], repr=False, compare=False)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        self.calls[0] += 1
        found = VotingBase.collect(self, task, jobs, draws, model)
        size = len(found[0].counts) if isinstance(found[0], Votes) else 0
        same = Votes((self.partitions, *[0] * (size - 1)))
        return found if self.calls[0] % 2 else [same for _ in found]


class RaisingOnRows(VotingBase):
    """A call that fails over one row fails the whole answer."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        each = answer_each(model, [self.requests(task, job, 0) for job in jobs])
        return [
            Votes(
                tuple(
                    np.bincount(
                        [parse_answer(text, task.answers(job.query)) for text in texts],
                        minlength=len(task.answers(job.query)) + 1,
                    ).tolist()
                )
            )
            for job, texts in zip(jobs, each, strict=True)
        ]
