"""Report noisy max: private voting over disjoint partitions (Wu et al.

2024; CL Algorithm 2; XL Algorithm 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.mechanisms.answering import Answering, with_gaussian_noise
from leakbound.mechanisms.single import one_each
from leakbound.models import Complete, Model, Request
from leakbound.privacy import Gaussian
from leakbound.tasks import Access, Aggregate, GaussianLaw, Job, Outputs, Task, Votes, parse_answer

__all__ = ["ReportNoisyMax"]

SENSITIVITY = math.sqrt(2)  # one partition's vote moves: one count falls by 1, another rises by 1


@dataclass(frozen=True, slots=True)
class ReportNoisyMax(Answering):
    """Each of T partitions votes once; Gaussian noise on every count; the noisiest maximum is
    released.

    Inputs: context, votes (PRIVATE); query, answers, T, sigma (public). Classes: the query's
    answers and one for
    "none of them", so an unparsable answer stays a vote. Sensitivity: replacing one example
    replaces one partition's
    answer, L2 sqrt(2). Guarantee: sqrt(2)/sigma-GDP under replace_one, for the whole noisy
    histogram (white box) and so
    for its argmax. Derived from the sigma in force, never from the epsilon asked for.
    """

    name: ClassVar[str] = "report_noisy_max"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box", "white_box"})
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({Complete})
    sigma: float
    partitions: int = 10

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        if self.partitions < 1:
            raise UsageError(f"partitions is {self.partitions}; it must be at least 1.")

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        partitions: int = 10,
        calibration: Literal["analytic", "classical"] = "analytic",
    ) -> ReportNoisyMax:
        """With the noise that `calibration` prescribes for (epsilon, delta); "classical" is XL's
        and CL's formula.
        """
        return with_gaussian_noise(cls(1.0, partitions), epsilon, delta, calibration)

    @property
    def guarantee(self) -> Gaussian:
        """mu-GDP with mu = sqrt(2)/sigma."""
        return Gaussian(SENSITIVITY, self.sigma)

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """One greedy completion a partition."""
        if not task.answers(job.query):
            raise UsageError(
                "report_noisy_max chooses among given answers; use a classification task, or "
                "keyword_mean."
            )
        return one_each(task, job, self.partitions, draw)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """T model calls a job, all jobs in one batch."""
        requests = [
            ask
            for job, draw in zip(jobs, draws, strict=True)
            for ask in self.requests(task, job, draw)
        ]
        texts = iter(model.answer(requests))
        return [
            self._count(task.answers(job.query), [next(texts) for _ in range(self.partitions)])
            for job in jobs
        ]

    def _count(self, answers: Sequence[str], texts: Sequence[str]) -> Votes:
        votes = [parse_answer(text, answers) for text in texts]
        return Votes(tuple(np.bincount(votes, minlength=len(answers) + 1).tolist()))

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        """Noisy histograms (draws, classes) and their argmax (ties have probability 0)."""
        noisy = np.asarray(aggregate.counts, float) + rng.normal(
            0.0, self.sigma, (draws, len(aggregate.counts))
        )
        return Outputs(noisy.argmax(1), noisy)

    def output_distribution(self, aggregate: Votes) -> GaussianLaw:
        """The noisy histogram is N(votes, sigma^2 I)."""
        return GaussianLaw(np.asarray(aggregate.counts, float), self.sigma)
