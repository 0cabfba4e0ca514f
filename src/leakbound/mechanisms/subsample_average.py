"""SubsampleAverage (PbS):

noisy label probabilities of random subsamples, averaged (Wu et al., as run in PoE).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from leakbound._check import positive, within
from leakbound.errors import UsageError
from leakbound.mechanisms.answering import Answering
from leakbound.mechanisms.tokens import finite, log_softmax
from leakbound.models import Model, Request, ScoreLabels
from leakbound.privacy import Subsampled
from leakbound.tasks import Access, Aggregate, Context, Job, Outputs, Task, Vector

__all__ = ["SubsampleAverage"]

ROOT2 = math.sqrt(2)


@dataclass(frozen=True, slots=True)
class SubsampleAverage(Answering):
    """M Poisson subsamples of rate q; each gives the query's answers probabilities and gets
    Gaussian noise; the largest mean is released.

    Inputs: context, coins, probabilities (PRIVATE); query, answers, M, q, sigma (public).
    Sensitivity: a probability vector moves by
    at most sqrt(2) in L2 when its subsample gains or loses an example. Guarantee: M
    Poisson-subsampled Gaussians under add_remove,
    by PLD; for the mean of the noisy vectors (white box) and so for the answer. It holds because
    every example tosses its own secret
    coins, afresh for each answer; it is claimed neither for replace_one nor for a sample used
    twice. Queries need answers.
    """

    name: ClassVar[str] = "subsample_average"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box", "white_box"})
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({ScoreLabels})
    sigma: float
    subsamples: int = 20
    rate: float = 0.5

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        positive("subsamples", self.subsamples)
        within("rate", self.rate, 0.0, 1.0)

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, subsamples: int = 20, rate: float = 0.5
    ) -> SubsampleAverage:
        """With the least noise, to a part in 100, that keeps (epsilon, delta)."""
        made, low, high = cls(1.0, subsamples, rate), 0.01, 1.0
        while replace(made, sigma=high).guarantee.epsilon(delta) > epsilon:
            low, high = high, 2 * high
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (
                (low, middle)
                if replace(made, sigma=middle).guarantee.epsilon(delta) <= epsilon
                else (middle, high)
            )
        return replace(made, sigma=high)

    @property
    def guarantee(self) -> Subsampled:
        """M subsampled Gaussians of noise sigma on sensitivity sqrt(2)."""
        return Subsampled(self.sigma / ROOT2, self.rate, self.subsamples)

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """One scoring a subsample; an empty one is asked without examples."""
        answers = task.answers(job.query)
        if not answers:
            raise UsageError(
                "subsample_average chooses among given answers; use a classification task, or "
                "another mechanism."
            )
        return [
            ScoreLabels(task.prompt(part, job.query), answers)
            for part in self._samples(job.context, draw)
        ]

    def _samples(self, context: Context, draw: int) -> list[Context]:
        """Every example's coins come from (draw, its place), so one example more changes no
        other's.
        """
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
        """M scorings a job, all in one batch."""
        requests = [
            ask
            for job, draw in zip(jobs, draws, strict=True)
            for ask in self.requests(task, job, draw)
        ]
        replies = iter(model.answer(requests))
        return [
            self._mean([next(replies) for _ in range(self.subsamples)], task.answers(job.query))
            for job in jobs
        ]

    def _mean(self, scores: Sequence[npt.ArrayLike], answers: tuple[str, ...]) -> Vector:
        p = np.exp(log_softmax(np.stack([finite(row) for row in scores])))
        return Vector(tuple(p.mean(0).tolist()), answers)

    def release(self, aggregate: Vector, draws: int, rng: np.random.Generator) -> Outputs:
        """Noisy means (draws, answers), each of M noisy vectors, and their argmax."""
        mean = np.asarray(aggregate.values)
        noisy = mean + rng.normal(0.0, self.sigma / math.sqrt(self.subsamples), (draws, mean.size))
        return Outputs(noisy.argmax(1), noisy, scale=float(self.subsamples))

    def output_distribution(self, aggregate: Vector) -> None:
        """None: the law is a mixture over the secret subsamples, and one clean mean knows only its
        own.
        """
        return None
