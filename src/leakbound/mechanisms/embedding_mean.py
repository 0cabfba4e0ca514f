"""EmbeddingMean (ESA): the noisy mean of answer embeddings picks one of the public candidates (CL
Alg. 2, XL Alg. 3, Wu et al.).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from leakbound._check import positive
from leakbound.mechanisms.answering import Answering, with_gaussian_noise
from leakbound.mechanisms.single import answer_tokens, one_each
from leakbound.models import Complete, Embed, Model, Request
from leakbound.privacy import Gaussian
from leakbound.tasks import Access, Aggregate, GaussianLaw, Job, Outputs, Query, Task, Vector

__all__ = ["EmbeddingMean", "public_candidates"]

Floats = npt.NDArray[np.float64]
Calibration = Literal["analytic", "classical"]


@dataclass(frozen=True, slots=True)
class EmbeddingMean(Answering):
    """Each of T partitions answers; the answers' embeddings, clipped to norm B, are averaged;
    noise; the nearest candidate is released.

    Inputs: context, answers, mean (PRIVATE); query, candidates, T, B, sigma (public). Candidates
    are the query's answers, or
    zero-shot answers of the model, which see no example. Sensitivity: one answer moves the mean by
    at most 2B/T in L2.
    Guarantee: (2B/T)/sigma-GDP under replace_one, for the noisy mean (white box) and so for the
    choice. It is reached only if an
    answer can move to the antipode; answers closer together leak less (see `law`).
    """

    name: ClassVar[str] = "embedding_mean"
    white_score: ClassVar[str] = "distance_gap"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box", "white_box"})
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({Complete, Embed})
    sigma: float
    partitions: int = 10
    clip: float = 1.0
    candidates: int = 10

    def __post_init__(self) -> None:
        for name in ("sigma", "partitions", "clip", "candidates"):
            positive(name, getattr(self, name))

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, partitions: int = 10, calibration: Calibration = "analytic",
        clip: float = 1.0, candidates: int = 10,
    ) -> EmbeddingMean:  # fmt: skip
        """With the noise that `calibration` prescribes for (epsilon, delta)."""
        return with_gaussian_noise(
            cls(1.0, partitions, clip, candidates), epsilon, delta, calibration
        )

    @property
    def guarantee(self) -> Gaussian:
        """mu-GDP with mu = 2B/(T sigma)."""
        return Gaussian(2 * self.clip / self.partitions, self.sigma)

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """One greedy completion a partition."""
        return one_each(task, job, self.partitions, draw)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """T completions a job, the public candidates of each query, and an embedding of every text."""
        requests = [
            ask
            for job, draw in zip(jobs, draws, strict=True)
            for ask in self.requests(task, job, draw)
        ]
        texts = [text.strip() for text in model.answer(requests)]
        choices = [public_candidates(task, job.query, self.candidates, model) for job in jobs]
        public = list(dict.fromkeys(text for names in choices for text in names))
        points = [
            self._clipped(e) for e in model.answer([Embed(text) for text in (*texts, *public)])
        ]  # one each: no count tells
        known, said = (
            dict(zip(public, points[len(texts) :], strict=True)),
            np.stack(points[: len(texts)]),
        )
        return [
            Vector(_floats(mean), names, tuple(_floats(known[t]) for t in names))
            for mean, names in zip(
                said.reshape(len(jobs), self.partitions, -1).mean(1), choices, strict=True
            )
        ]

    def _clipped(self, embedding: npt.ArrayLike) -> Floats:
        """Scaled down to norm B; an embedding that is not finite becomes 0."""
        e = np.nan_to_num(np.asarray(embedding, float), nan=0.0, posinf=0.0, neginf=0.0)
        return np.asarray(e * min(1.0, self.clip / max(float(np.linalg.norm(e)), 1e-12)))

    def release(self, aggregate: Vector, draws: int, rng: np.random.Generator) -> Outputs:
        """Noisy means (draws, dim) and the candidate nearest to each."""
        noisy = np.asarray(aggregate.values) + rng.normal(
            0.0, self.sigma, (draws, len(aggregate.values))
        )
        points = np.asarray(aggregate.points)
        far = (points**2).sum(
            1
        ) - 2 * noisy @ points.T  # squared distance, less the same for all candidates
        return Outputs(far.argmin(1), noisy, aggregate.choices, points, float(self.partitions))

    def output_distribution(self, aggregate: Vector) -> GaussianLaw:
        """The noisy mean is N(mean, sigma^2 I)."""
        return GaussianLaw(np.asarray(aggregate.values), self.sigma)


def public_candidates(task: Task, query: Query, count: int, model: Model) -> tuple[str, ...]:
    """The query's answers; else distinct zero-shot answers, sampled from the model without any
    example.
    """
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
