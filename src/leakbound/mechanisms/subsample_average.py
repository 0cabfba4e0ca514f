"""SubsampleAverage (PbS): noisy label probabilities of random subsamples, averaged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from leakbound._check import positive, whole, within
from leakbound.mechanisms.parts.base import CalibratedMechanism
from leakbound.mechanisms.parts.single import require_answers
from leakbound.mechanisms.parts.tokens import finite, log_softmax
from leakbound.models import Model, ScoreLabels
from leakbound.privacy import Subsampled, subsampled_gaussian_epsilon
from leakbound.privacy.compose import INTERVAL
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    Context,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
)
from leakbound.tasks.mechanism import Exactness

SENSITIVITY = math.sqrt(2)  # L2, of a probability vector: all mass moves to another answer
ACCURACY = 1.005  # sigma is found to this ratio, from above; the rest of 1 % is for the grid
PER_DEVIATION = 10  # grid steps per standard deviation of the loss; costs at most 0.2 % more noise


@dataclass(frozen=True, slots=True)
class SubsampleAverage(CalibratedMechanism):
    """Averages noisy probabilities over M Poisson subsamples; returns the most probable answer.

    Every example enters each subsample with probability q. Private: context, coins, probabilities.
    Public: query, answers, M, q, sigma. Queries must have given answers.

    Attributes:
        sigma: Standard deviation of the noise on each probability of each subsample.
        subsamples: M, the number of subsamples.
        rate: q, the probability with which an example enters a subsample.

    Guarantee:
        M Poisson-subsampled Gaussians under add_remove, by PLD, for the mean of the noisy vectors
        (white box) and hence for the answer. A probability vector changes by at most sqrt(2) in L2
        if its subsample gains or loses an example. The guarantee relies on separate, secret coins
        for every example, drawn anew for each answer. It is claimed neither for replace_one nor for
        a sample that is used twice. Proof: docs/mechanisms/subsample_average.md.

    Reference:
        Wu et al. (ICLR 2024), as run in PoE.
    """

    name: ClassVar[str] = "subsample_average"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box", "white_box"})
    needs: ClassVar[RequestKinds] = frozenset({ScoreLabels})
    exactness: ClassVar[Exactness] = "none"
    strongest_score: ClassVar[str | None] = "label_margin"
    sigma: float
    subsamples: int = 20
    rate: float = 0.5

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        whole("subsamples", self.subsamples)
        within("rate", self.rate, 0.0, 1.0)

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, subsamples: int = 20, rate: float = 0.5
    ) -> Self:
        """The mechanism with the least noise, to within 1 %, that satisfies a claim.

        Raises:
            UsageError: If dp-accounting is not installed.
        """
        made = cls(1.0, subsamples, rate)
        sigma = _least(lambda sigma: _quick_epsilon(replace(made, sigma=sigma), delta) <= epsilon)
        while replace(made, sigma=sigma).guarantee.epsilon(delta) > epsilon:
            sigma *= ACCURACY
        return replace(made, sigma=sigma)

    @property
    def guarantee(self) -> Subsampled:
        """M subsampled Gaussians with noise sigma on sensitivity sqrt(2)."""
        return Subsampled(self.sigma / SENSITIVITY, self.rate, self.subsamples)

    def voters(self, shots: int) -> int:
        """One probability vector for each subsample."""
        return self.subsamples

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """False: subsamples are drawn while collecting, and they ignore the size of the noise."""
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """One scoring for each subsample; an empty subsample gets a prompt without examples."""
        answers = require_answers(task, job.query, self.name)
        return [
            ScoreLabels(task.prompt(part, job.query), answers, alone=True)
            for part in self._samples(job.context, draw)
        ]

    def _samples(self, context: Context, draw: int) -> list[Context]:
        """Coins are seeded by draw and position: adding an example leaves those of others as is."""
        coins = [
            np.random.default_rng([draw, i]).random(self.subsamples) < self.rate
            for i in range(len(context))
        ]
        return [
            tuple(row for row, coin in zip(context, coins, strict=True) if coin[m])
            for m in range(self.subsamples)
        ]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Collect M scorings for each job, all in one batch."""
        found: list[Aggregate] = []
        for job, scores in zip(jobs, self._answer_jobs(task, jobs, draws, model), strict=True):
            p = np.exp(log_softmax(np.stack([finite(row) for row in scores])))
            found.append(Vector(tuple(p.mean(0).tolist()), task.answers(job.query)))
        return found

    def release(self, aggregate: Vector, draws: int, rng: np.random.Generator) -> Outputs:
        """Means of M noisy probability vectors, and their argmax."""
        mean = np.asarray(aggregate.values)
        noisy = mean + rng.normal(0.0, self.sigma / math.sqrt(self.subsamples), (draws, mean.size))
        return Outputs(noisy.argmax(1), noisy, scale=float(self.subsamples))

    def output_distribution(self, aggregate: Vector) -> None:
        """None: it is a mixture over the secret subsamples, and a mean shows only those drawn."""
        return None


def _least(keeps: Callable[[float], bool]) -> float:
    """The least noise for which a property holds that also holds for all larger noise."""
    low, high = 0.01, 1.0
    while not keeps(high):
        low, high = high, 2 * high
    while high / low > ACCURACY:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _quick_epsilon(mechanism: SubsampleAverage, delta: float) -> float:
    """An upper bound on epsilon from a coarser grid, at a hundredth of the work."""
    of = mechanism.guarantee
    interval = max(INTERVAL, of.rate / of.sigma / PER_DEVIATION)
    return subsampled_gaussian_epsilon(of.sigma, of.rate, of.steps, delta, interval)
