"""Correct mechanisms that are built unlike the shipped ones: `conform` must accuse none of them.

Most are the correct reference of a planted one. None is meant for use.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from leakbound_lab.planted.planted_mechanisms import (
    DELTA,
    ExponentialVotes,
    HiddenMajority,
    TestOneRankLate,
    VotingBase,
)
from leakbound_lab.planted.planted_parts import PartsBase
from leakbound_lab.planted.served_defects import FreshNoise

from leakbound.errors import UsageError
from leakbound.mechanisms.parts.base import MechanismBase
from leakbound.mechanisms.parts.tokens import finite, log_softmax
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.models import Complete, Model, ScoreLabels
from leakbound.privacy import Gaussian, PureDP, calibrate_gaussian
from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.stats.arrays import Floats
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    Context,
    Job,
    Mechanism,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
    Votes,
)
from leakbound.tasks.mechanism import Exactness
from leakbound.tasks.partition import split_by_position

WIDTH = 20_000  # characters to which prompts are padded: more than any prompt of the battery has


@dataclass(frozen=True, slots=True)
class _PureVotes(HiddenMajority):
    """A choice by votes that is calibrated to epsilon alone."""

    epsilon: float = 1.0

    @classmethod
    def calibrated(  # type: ignore[override]
        cls, epsilon: float, delta: float, partitions: int = 10
    ) -> Self:
        return cls(sigma=1.0, partitions=partitions, epsilon=epsilon)

    @property
    def guarantee(self) -> PureDP:  # type: ignore[override]
        """epsilon: one example moves one vote."""
        return PureDP(self.epsilon)


@dataclass(frozen=True, slots=True)
class LaplaceVotes(_PureVotes):
    """Counts with Laplace noise of scale 2/epsilon, released whole; no distribution is declared.

    A vote that moves changes two counts by one.
    """

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        noise = rng.laplace(0.0, 2 / self.epsilon, (draws, len(aggregate.counts)))
        noisy = np.asarray(aggregate.counts, float) + noise
        return Outputs(noisy.argmax(1), noisy)


@dataclass(frozen=True, slots=True)
class RandomBallot(_PureVotes):
    """The vote of a random voter, or with some probability any answer, as if it had one vote."""

    def _p(self, votes: Votes) -> Floats:
        """(1 - g) votes/T + g/m, with a ratio of e^epsilon from no vote to one."""
        odds = math.expm1(self.epsilon) * self.partitions / len(votes.counts)
        g = 1 / (1 + odds)
        return (1 - g) * np.asarray(votes.counts) / self.partitions + g / len(votes.counts)

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(rng.choice(len(aggregate.counts), draws, p=self._p(aggregate)))

    def output_distribution(self, aggregate: Votes) -> CategoricalLaw:  # type: ignore[override]
        return CategoricalLaw(self._p(aggregate))


class Abstaining(VotingBase):
    """None of them where the largest noisy count is below half of the votes: post-processing."""

    @property
    def vote_noise(self) -> None:
        """None: the answer is not the largest count."""
        return

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        noisy = self.noisy(aggregate, draws, rng)
        sure = noisy.max(1) > self.partitions / 2
        return Outputs(np.where(sure, noisy.argmax(1), len(aggregate.counts) - 1), noisy)


class AnswersOnly(VotingBase):
    """The answer with the largest noisy count, where "none of them" is no answer."""

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        noisy = self.noisy(aggregate, draws, rng)
        return Outputs(noisy[:, :-1].argmax(1), noisy)


class Homes(PartsBase):
    """Each record has a home of its own, which no other record changes; empty homes answer, too."""

    @property
    def guarantee(self) -> Gaussian:
        """Under add_remove: one home gains or loses a record."""
        return Gaussian(math.sqrt(2), self.sigma, "add_remove")

    def parts(self, context: Context, draw: int) -> list[Context]:
        """By a keyed hash of the record."""
        homes = [self._home(str(row.input), draw) for row in context]
        return [
            tuple(row for row, home in zip(context, homes, strict=True) if home == at)
            for at in range(self.partitions)
        ]

    def _home(self, text: str, draw: int) -> int:
        digest = hashlib.blake2b(text.encode(), key=str(draw).encode(), digest_size=4).digest()
        return int.from_bytes(digest, "big") % self.partitions


class Padded(PartsBase):
    """Prompts padded to a public length."""

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        parts = split_by_position(job.context, self.partitions)
        made = (str(task.prompt(part, job.query))[:WIDTH].rjust(WIDTH) for part in parts)
        return [Complete(one, alone=True) for one in made]


class Twice(PartsBase):
    """Each example is shown to two voters, and the guarantee counts both."""

    @property
    def guarantee(self) -> Gaussian:
        """Two votes move: twice sqrt(2)."""
        return Gaussian(2 * math.sqrt(2), self.sigma)

    @classmethod
    def calibrated(  # type: ignore[override]
        cls, epsilon: float, delta: float, partitions: int = 10
    ) -> Twice:
        return cls(calibrate_gaussian(epsilon, delta, 2 * math.sqrt(2)), partitions)

    def parts(self, context: Context, draw: int) -> list[Context]:
        """Every part stands in the first half of the partitions and in the second."""
        half = self.partitions // 2
        return [context[i % half :: half] for i in range(self.partitions)]


@dataclass(frozen=True, slots=True)
class MeanProbabilities(MechanismBase):
    """Mean label probabilities of T partitions with Gaussian noise; nothing of a vote in it."""

    name: ClassVar[str] = "mean_probabilities"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box", "white_box"})
    needs: ClassVar[RequestKinds] = frozenset({ScoreLabels})
    exactness: ClassVar[Exactness] = "full"
    strongest_score: ClassVar[str | None] = "label_margin"
    epsilon: float
    delta: float = DELTA
    partitions: int = 10

    @property
    def guarantee(self) -> Gaussian:
        """All mass of one vector moves: sqrt(2)/T."""
        return Gaussian(math.sqrt(2) / self.partitions, self._sigma)

    @property
    def _sigma(self) -> float:
        return calibrate_gaussian(self.epsilon, self.delta, math.sqrt(2) / self.partitions)

    def voters(self, shots: int) -> int:
        return self.partitions

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        if not task.answers(job.query):
            raise UsageError("mean_probabilities chooses among given answers.")
        parts = split_by_position(job.context, self.partitions)
        shown, answers = (task.prompt(p, job.query) for p in parts), task.answers(job.query)
        return [ScoreLabels(one, answers, alone=True) for one in shown]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        each = answer_total(model, task, jobs, [self.requests(task, job, 0) for job in jobs])
        return [
            Vector(tuple(np.exp(log_softmax(finite(np.stack(rows)))).mean(0).tolist()))
            for rows in each
        ]

    def release(self, aggregate: Any, draws: int, rng: np.random.Generator) -> Outputs:
        mean = np.asarray(aggregate.values)
        noisy = mean + rng.normal(0.0, self._sigma, (draws, mean.size))
        return Outputs(noisy.argmax(1), noisy)

    def output_distribution(self, aggregate: Any) -> GaussianLaw:
        return GaussianLaw(np.asarray(aggregate.values), self._sigma)


class Constant(VotingBase):
    """Always the first answer."""

    @property
    def guarantee(self) -> PureDP:  # type: ignore[override]
        return PureDP(0.0)

    @property
    def vote_noise(self) -> None:
        return

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(np.zeros(draws, np.int64))

    def output_distribution(self, aggregate: Votes) -> CategoricalLaw:  # type: ignore[override]
        return CategoricalLaw(np.eye(len(aggregate.counts))[0])


def _make(kind: Any, epsilon: float, **options: Any) -> Mechanism:
    made: Mechanism = kind.calibrated(epsilon, DELTA, **options)
    return made


CORRECT: tuple[Callable[[float], Mechanism], ...] = (
    partial(_make, FreshNoise),
    # half of the exponent, and voters enough for a pair that loses all of epsilon
    lambda one: _make(ExponentialVotes, one, share=0.5, partitions=max(10, int(20 / one))),
    partial(_make, TestOneRankLate, rank=0),
    partial(_make, LaplaceVotes),
    partial(_make, RandomBallot),
    partial(_make, Abstaining),
    partial(_make, AnswersOnly),
    partial(_make, Homes),
    partial(_make, Padded),
    partial(_make, Twice),
    MeanProbabilities,
    partial(_make, Constant),
)
