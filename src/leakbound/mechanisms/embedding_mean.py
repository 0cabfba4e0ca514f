"""EmbeddingMean (ESA): the noisy mean of answer embeddings selects a public candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt

from leakbound._check import one_of, positive, whole
from leakbound.mechanisms.parts.base import GaussianCalibration, PartitionedMechanism
from leakbound.mechanisms.parts.single import answer_tokens, partition_requests
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.models import Complete, Embed, Model
from leakbound.privacy import Gaussian, calibrate_gaussian
from leakbound.stats.arrays import Floats
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    GaussianLaw,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
)
from leakbound.tasks.partition import Sampling


@dataclass(frozen=True, slots=True)
class EmbeddingMean(PartitionedMechanism):
    """Each of T partitions answers; the candidate nearest to the noisy mean embedding is returned.

    Embeddings are clipped to norm B before they are averaged. The candidates are the query's
    answers, or zero-shot answers of the model, which sees no examples for them. Private: context,
    answers, mean. Public: query, candidates, T, B, sigma.

    Attributes:
        sigma: Standard deviation of the noise on each coordinate of the mean.
        partitions: T, the number of disjoint parts of the context.
        clip: B, the largest L2 norm of an embedding.
        candidates: Number of zero-shot answers that are sampled for a free query.
        sampling: "position" or "poisson", as for `ReportNoisyMax`.

    Guarantee:
        (2B/T)/sigma-GDP under replace_one, for the noisy mean (white box) and hence for the choice.
        One answer changes the mean by at most 2B/T in L2. The guarantee is tight only if an answer
        can move to its antipode; answers that are closer together leak less
        (`output_distribution`). Proof: docs/mechanisms/embedding_mean.md.

    Reference:
        Wu et al. (ICLR 2024), embedding space aggregation; CL Algorithms 2 and 3; XL Algorithm 3.
    """

    name: ClassVar[str] = "embedding_mean"
    strongest_score: ClassVar[str | None] = "distance_gap"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box", "white_box"})
    needs: ClassVar[RequestKinds] = frozenset({Complete, Embed})
    exactness = PartitionedMechanism.exactness
    disjoint_parts = PartitionedMechanism.disjoint_parts
    unwritten: ClassVar[tuple[str, ...]] = ("sampling",)
    sigma: float
    partitions: int = 10
    clip: float = 1.0
    candidates: int = 10
    sampling: Sampling = "position"

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        whole("partitions", self.partitions)
        positive("clip", self.clip)
        whole("candidates", self.candidates)
        one_of("sampling", self.sampling, get_args(Sampling))

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        partitions: int = 10,
        calibration: GaussianCalibration = "analytic",
        clip: float = 1.0,
        candidates: int = 10,
        sampling: Sampling = "position",
    ) -> Self:
        """The mechanism with the noise that a claim requires.

        Args:
            calibration: "analytic" is exact; "classical" does not satisfy every claim above
                epsilon 1.
        """
        made = cls(1.0, partitions, clip, candidates, sampling)
        sensitivity = made.guarantee.sensitivity
        return replace(made, sigma=calibrate_gaussian(epsilon, delta, sensitivity, calibration))

    @property
    def guarantee(self) -> Gaussian:
        """mu-GDP with mu = 2B/(T sigma)."""
        return Gaussian(2 * self.clip / self.partitions, self.sigma)

    @property
    def sampled_candidates(self) -> int:
        return self.candidates

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """One greedy completion for each partition."""
        return partition_requests(task, job, self.partitions, draw, self.sampling)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Collect T completions for each job, the public candidates, and all embeddings."""
        replies = self._answer_jobs(task, jobs, draws, model)
        texts = [text.strip() for group in replies for text in group]
        choices = [public_candidates(task, job.query, self.candidates, model) for job in jobs]
        public = list(dict.fromkeys(text for names in choices for text in names))
        # Every private answer is embedded, even if equal ones repeat: the number of requests must
        # not depend on how many differ.
        (found,) = answer_total(
            model, task, jobs, [[Embed(t, alone=True) for t in (*texts, *public)]]
        )
        size = max(1, *(len(e) for e in found[len(texts) :]))  # the size of public embeddings
        points = [self._clipped(e) if len(e) == size else np.zeros(size) for e in found]
        known = dict(zip(public, points[len(texts) :], strict=True))
        private = np.stack(points[: len(texts)]).reshape(len(jobs), self.partitions, -1)
        return [
            Vector(_floats(mean), names, tuple(_floats(known[name]) for name in names))
            for mean, names in zip(private.mean(1), choices, strict=True)
        ]

    def _clipped(self, embedding: npt.ArrayLike) -> Floats:
        """Scale down to norm B; coordinates that are not finite become 0."""
        e = np.nan_to_num(np.asarray(embedding, float), nan=0.0, posinf=0.0, neginf=0.0)
        return np.asarray(e * min(1.0, self.clip / max(float(np.linalg.norm(e)), 1e-12)))

    def release(self, aggregate: Vector, draws: int, rng: np.random.Generator) -> Outputs:
        """Noisy means and the candidate nearest to each."""
        noisy = np.asarray(aggregate.values) + rng.normal(
            0.0, self.sigma, (draws, len(aggregate.values))
        )
        points = np.asarray(aggregate.points)
        # squared distance, without the terms that are the same for all candidates
        distance = (points**2).sum(1) - 2 * noisy @ points.T
        return Outputs(distance.argmin(1), noisy, aggregate.choices, points, float(self.partitions))

    def output_distribution(self, aggregate: Vector) -> GaussianLaw:
        return GaussianLaw(np.asarray(aggregate.values), self.sigma)


def public_candidates(task: Task, query: Query, count: int, model: Model) -> tuple[str, ...]:
    """Candidate answers that do not depend on any example."""
    if task.answers(query):
        return task.answers(query)
    prompt, length = task.prompt((), query), answer_tokens(task, query)
    requests = [
        Complete(prompt, max_tokens=length, temperature=1.0 if k else 0.0, draw=k)
        for k in range(count)
    ]
    return tuple(dict.fromkeys(text.strip() for text in model.answer(requests)))


def _floats(values: npt.ArrayLike) -> tuple[float, ...]:
    return tuple(np.asarray(values, float).tolist())
