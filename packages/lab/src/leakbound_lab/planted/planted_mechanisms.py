"""Mechanisms that choose among answers, each with one known defect of `DEFECTS`; see `PLANTED`.

Every one declares a guarantee that it does not keep, or answers as a mechanism never should. None
of this is a mechanism that anyone should use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from leakbound.mechanisms import EmbeddingMean, ProductOfExperts, ReportNoisyMax
from leakbound.mechanisms.parts.base import PartitionedMechanism
from leakbound.mechanisms.parts.exponential import gumbel_choices, softmax_distribution
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.models import Model
from leakbound.privacy import ApproxDP, BoundedRange, Gaussian
from leakbound.stats import CategoricalLaw
from leakbound.stats.arrays import Floats
from leakbound.tasks import Aggregate, Job, Outputs, Task, Vector, Votes

EPSILON = 1.0
DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class VotingBase(ReportNoisyMax):
    """A private vote whose parts a defect replaces."""

    name: ClassVar[str] = "planted_votes"
    exactness = PartitionedMechanism.exactness
    vote_noise = ReportNoisyMax.vote_noise

    def noisy(self, votes: Votes, draws: int, rng: np.random.Generator) -> Floats:
        counts = np.asarray(votes.counts, float)
        return counts + rng.normal(0.0, self.sigma, (draws, counts.size))

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        noisy = self.noisy(aggregate, draws, rng)
        return Outputs(noisy.argmax(1), noisy)


class HalfNoiseInRelease(VotingBase):
    """The output distribution is as declared; the release adds half of the noise."""

    def noisy(self, votes: Votes, draws: int, rng: np.random.Generator) -> Floats:
        return VotingBase.noisy(replace(self, sigma=self.sigma / 2), votes, draws, rng)


class HalfNoise(VotingBase):
    """Half of the declared noise, in the release and in the output distribution."""

    @property
    def guarantee(self) -> Gaussian:
        """That of twice the noise."""
        return Gaussian(math.sqrt(2), 2 * self.sigma)


class OneClassNoise(VotingBase):
    """Noise on the first class only."""

    def noisy(self, votes: Votes, draws: int, rng: np.random.Generator) -> Floats:
        noisy = np.tile(np.asarray(votes.counts, float), (draws, 1))
        noisy[:, 0] += rng.normal(0.0, self.sigma, draws)
        return noisy


class ScalarSensitivity(VotingBase):
    """Sensitivity 1 for the vote histogram in place of sqrt(2)."""

    @property
    def guarantee(self) -> Gaussian:
        """As if one count moved."""
        return Gaussian(1.0, self.sigma)


class ClassicalNoise(VotingBase):
    """The classical formula, and the epsilon that was asked for, as the guarantee."""

    @classmethod
    def asked(cls, epsilon: float, delta: float) -> ClassicalNoise:
        return cls(cls.calibrated(epsilon, delta, calibration="classical").sigma)

    @property
    def guarantee(self) -> ApproxDP:  # type: ignore[override]
        """What was asked for: epsilon from sigma by the formula itself."""
        return ApproxDP(math.sqrt(2) * math.sqrt(2 * math.log(1.25 / DELTA)) / self.sigma, DELTA)


class BareMajority(VotingBase):
    """The majority of the votes; the noisy counts that come with it are right."""

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        best = int(np.argmax(aggregate.counts))
        return Outputs(np.full(draws, best), self.noisy(aggregate, draws, rng))


class HiddenMajority(VotingBase):
    """The majority of the votes, without counts and without an output distribution."""

    @property
    def vote_noise(self) -> None:
        return

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(np.full(draws, int(np.argmax(aggregate.counts))))

    def output_distribution(self, aggregate: Votes) -> None:  # type: ignore[override]
        return


class RetryUntil(VotingBase):
    """Draws again until one of the answers wins, so what is released is conditioned."""

    def noisy(self, votes: Votes, draws: int, rng: np.random.Generator) -> Floats:
        """Noise that makes no "none of them"."""
        kept = np.empty((0, len(votes.counts)))
        while len(kept) < draws:
            more = VotingBase.noisy(self, votes, 2 * draws, rng)
            kept = np.concatenate([kept, more[more.argmax(1) < more.shape[1] - 1]])
        return np.asarray(kept[:draws])


class InnerCount(HiddenMajority):
    """Answers by noisy counts, and abstains by an inner count at epsilon 10,000."""

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        """None of them where the first answer has less than half of the votes."""
        inner = aggregate.counts[0] + rng.laplace(0.0, 1 / 10_000.0, draws)
        answers = self.noisy(aggregate, draws, rng).argmax(1)
        return Outputs(
            np.where(inner > self.partitions / 2 - 0.5, answers, len(aggregate.counts) - 1)
        )


class CountedRanking(VotingBase):
    """Releases the answers in the order of their exact counts beside noisy ones."""

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        noisy = self.noisy(aggregate, draws, rng)
        order = np.argsort(-np.asarray(aggregate.counts), kind="stable")
        return Outputs(noisy.argmax(1), noisy, picked=np.tile(order, (draws, 1)))


@dataclass(frozen=True, slots=True)
class TestOneRankLate(HiddenMajority):
    """Releases the winner where the noisy gap is safe, and tests the gap behind the second."""

    __test__: ClassVar[bool] = False  # for pytest: no test
    epsilon: float = EPSILON
    rank: int = 1

    @classmethod
    def calibrated(  # type: ignore[override]
        cls, epsilon: float, delta: float, partitions: int = 50, rank: int = 1
    ) -> TestOneRankLate:
        """For a claim at `DELTA`."""
        return cls(sigma=1.0, partitions=partitions, epsilon=epsilon, rank=rank)

    @property
    def guarantee(self) -> ApproxDP:  # type: ignore[override]
        return ApproxDP(self.epsilon, DELTA)

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        ranked = np.sort(np.asarray(aggregate.counts, float)[:-1])[::-1]
        gap = ranked[self.rank] - (ranked[self.rank + 1] if len(ranked) > self.rank + 1 else 0.0)
        noisy = gap + rng.laplace(0.0, 2 / self.epsilon, draws)
        passed = noisy > 2 + 2 * math.log(1 / DELTA) / self.epsilon
        last = len(aggregate.counts) - 1
        return Outputs(np.where(passed, int(np.argmax(aggregate.counts[:-1])), last))


@dataclass(frozen=True, slots=True)
class ExponentialVotes(VotingBase):
    """Exponential mechanism over votes, with the exponent of monotone utilities."""

    epsilon: float = EPSILON
    share: float = 1.0  # of epsilon in the exponent; half of it is right

    @classmethod
    def calibrated(  # type: ignore[override]
        cls, epsilon: float, delta: float, partitions: int = 10, share: float = 1.0
    ) -> ExponentialVotes:
        return cls(sigma=1.0, partitions=partitions, epsilon=epsilon, share=share)

    @property
    def guarantee(self) -> BoundedRange:  # type: ignore[override]
        """epsilon, which half of the exponent would keep."""
        return BoundedRange(self.epsilon)

    @property
    def vote_noise(self) -> None:
        return

    def _exponents(self, aggregate: Votes) -> Floats:
        return self.share * self.epsilon * np.asarray(aggregate.counts, float)

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        return Outputs(gumbel_choices(self._exponents(aggregate), draws, rng))

    def output_distribution(self, aggregate: Votes) -> CategoricalLaw:  # type: ignore[override]
        return softmax_distribution(self._exponents(aggregate))


class UnitEmbeddings(EmbeddingMean):
    """Sensitivity B/T for a mean of embeddings, in place of 2B/T."""

    @property
    def guarantee(self) -> Gaussian:
        """As if an answer could only be taken away."""
        return Gaussian(self.clip / self.partitions, self.sigma)


class MonotoneExperts(ProductOfExperts):
    """Calibrated as monotone, and declared under replace_one."""

    @property
    def guarantee(self) -> BoundedRange:
        """Half of what holds."""
        return BoundedRange(self.epsilon / 2)

    @property
    def rate(self) -> float:
        """lambda = epsilon/(2C), for a declared epsilon/2."""
        return self.epsilon / (2 * self.clip)


class ClipToZero(ProductOfExperts):
    """Log-probabilities below -C count 0, so that the impossible answer gets the best score."""

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        found = ProductOfExperts.collect(self, task, jobs, draws, model)
        if not task.answers(jobs[0].query):
            return found
        each = answer_total(model, task, jobs, [self.requests(task, job, 0) for job in jobs])
        totals = [self._total(scores, 0) for scores in each]
        return [
            replace(one, values=tuple(total.tolist())) if isinstance(one, Vector) else one
            for one, total in zip(found, totals, strict=True)
        ]

    def _total(self, scores: Sequence[npt.ArrayLike], size: int) -> Floats:
        raw = np.nan_to_num(np.stack(scores), nan=-1e30, posinf=1e30, neginf=-1e30)
        shifted = raw - raw.max(1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        return np.asarray(np.where(logs < -self.clip, 0.0, logs).sum(0))
