"""KeywordMean (KSA): private counts of public keywords, and a public answer that is shown the
winners (CL Alg. 2, Wu et al.).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.mechanisms.answering import Answering, with_gaussian_noise
from leakbound.mechanisms.embedding_mean import public_candidates
from leakbound.mechanisms.single import one_each
from leakbound.mechanisms.top_k import joint_range, joint_top_k
from leakbound.mechanisms.wording import SHOWN_KEYWORDS
from leakbound.models import Complete, Model, Request
from leakbound.models.content import text_only
from leakbound.privacy import BoundedRange, Gaussian
from leakbound.tasks import (
    Access,
    Aggregate,
    CategoricalLaw,
    GaussianLaw,
    Job,
    Outputs,
    Query,
    Task,
    Vector,
)

__all__ = ["KeywordMean", "words_of"]

Selection = Literal["gaussian", "joint_exponential"]


@dataclass(frozen=True, slots=True)
class KeywordMean(Answering):
    """Each of T partitions answers; an answer counts its first m distinct keywords of a public
    domain once; the mean counts are noised.

    Inputs: context, answers, counts (PRIVATE); query, domain, T, m, k, noise (public). Domain: the
    words of the query's answers, or
    of zero-shot answers and the query, never of private answers. Released: the k words with the
    largest noisy counts, and the text of a
    zero-shot answer that is shown them. selection "gaussian": sensitivity sqrt(2m)/T in L2,
    guarantee (sqrt(2m)/T)/sigma-GDP under
    replace_one for the whole noisy vector. "joint_exponential": the ordered top k through one
    exponential mechanism (Gillenwater et
    al. 2022), utility -max_i (count of rank i less count of the i-th chosen), range 2/T at k = 1,
    4/T beyond; guarantee epsilon-DP.
    """

    name: ClassVar[str] = "keyword_mean"
    white_score: ClassVar[str] = "distance_gap"
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({Complete})
    noise: float  # sigma of "gaussian", epsilon of "joint_exponential"
    partitions: int = 10
    per_answer: int = 1
    top: int = 1
    candidates: int = 10
    selection: Selection = "gaussian"

    def __post_init__(self) -> None:
        for name in ("noise", "partitions", "per_answer", "top", "candidates"):
            positive(name, getattr(self, name))
        if self.selection not in ("gaussian", "joint_exponential"):
            raise UsageError(
                f"selection is {self.selection!r}; it must be gaussian or joint_exponential."
            )

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, partitions: int = 10, calibration: Literal["analytic", "classical"] = "analytic",
        per_answer: int = 1, top: int = 1, candidates: int = 10, selection: Selection = "gaussian",
    ) -> KeywordMean:  # fmt: skip
        """With the noise that (epsilon, delta) needs."""
        made = cls(epsilon, partitions, per_answer, top, candidates, selection)
        return (
            with_gaussian_noise(made, epsilon, delta, calibration, "noise")
            if selection == "gaussian"
            else made
        )

    @property
    def access(self) -> frozenset[Access]:
        """The noisy counts are covered by the Gaussian guarantee only."""
        return frozenset(
            {"black_box", "white_box"} if self.selection == "gaussian" else {"black_box"}
        )

    @property
    def guarantee(self) -> Gaussian | BoundedRange:
        """mu-GDP with mu = sqrt(2m)/(T sigma), or epsilon-DP of the exponential mechanism."""
        if self.selection == "gaussian":
            return Gaussian(math.sqrt(2 * self.per_answer) / self.partitions, self.noise)
        return BoundedRange(self.noise)

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """One greedy completion a partition."""
        return one_each(task, job, self.partitions, draw)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """T completions a job and the public candidates of each query."""
        requests = [
            ask
            for job, draw in zip(jobs, draws, strict=True)
            for ask in self.requests(task, job, draw)
        ]
        texts = iter(model.answer(requests))
        out: list[Aggregate] = []
        for job in jobs:
            said = [next(texts) for _ in range(self.partitions)]
            public = public_candidates(task, job.query, self.candidates, model)
            extra = () if task.answers(job.query) else (text_only(job.query.text, self.name),)
            domain = tuple(
                dict.fromkeys(word for text in (*public, *extra) for word in words_of(text))
            )
            counts = tuple(self._counts(said, domain).tolist())
            out.append(
                Vector(counts, public, _shares(public, domain))
                if not extra
                else Vector(counts, domain)
            )
        return out

    def _counts(self, said: Sequence[str], domain: tuple[str, ...]) -> npt.NDArray[np.float64]:
        """Mean over answers of 0/1 for each keyword of the domain; an answer counts its first m
        distinct ones.
        """
        at = {word: i for i, word in enumerate(domain)}
        counts = np.zeros(len(domain))
        for text in said:
            known = [word for word in dict.fromkeys(words_of(text)) if word in at]
            counts[[at[word] for word in known[: self.per_answer]]] += 1 / self.partitions
        return counts

    def release(self, aggregate: Vector, draws: int, rng: np.random.Generator) -> Outputs:
        """The k best words of each draw, best first.

        `answers`: the best word, or the answer that its words speak for most.
        """
        counts, points = (
            np.asarray(aggregate.values),
            np.asarray(aggregate.points) if aggregate.points else None,
        )
        noisy, picked = self._select(counts, draws, rng)
        seen = noisy if noisy is not None else np.eye(len(counts))[picked[:, 0]]
        answers = picked[:, 0] if points is None else (seen @ points.T).argmax(1)
        return Outputs(answers, noisy, aggregate.choices, points, float(self.partitions), picked)

    def _select(
        self, counts: npt.NDArray[np.float64], draws: int, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.int64]]:
        """(noisy counts, where they may be released; indices of the k best of each draw)."""
        k = min(self.top, len(counts))
        if self.selection == "joint_exponential":
            scale = self.noise / (joint_range(k) / self.partitions)
            picked = [joint_top_k(counts, k, scale, rng) for _ in range(draws)]
            return None, np.array(picked, np.int64).reshape(draws, k)
        noisy = counts + rng.normal(0.0, self.noise, (draws, len(counts)))
        return noisy, np.argsort(-noisy, axis=1)[:, :k]

    def output_distribution(self, aggregate: Vector) -> GaussianLaw | CategoricalLaw | None:
        """N(counts, sigma^2 I); for the exponential choice of one word its probabilities, of
        several none.
        """
        if self.selection == "gaussian":
            return GaussianLaw(np.asarray(aggregate.values), self.noise)
        if min(self.top, len(aggregate.values)) > 1:
            return None
        logits = self.noise / (joint_range(1) / self.partitions) * np.asarray(aggregate.values)
        weights = np.exp(logits - logits.max())
        return CategoricalLaw(weights / weights.sum())

    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        """The chosen answer; for a free query a zero-shot answer that is shown the words."""
        if task.answers(query):
            return Answering.decode(self, task, query, outputs, model)
        assert outputs.picked is not None
        rows = [", ".join(outputs.choices[i] for i in row) for row in outputs.picked]
        shown = [
            Query(
                SHOWN_KEYWORDS.format(query=text_only(query.text, self.name), keywords=row),
                free=True,
            )
            for row in rows
        ]
        requests = [
            Complete(task.prompt((), query), max_tokens=task.max_answer_tokens) for query in shown
        ]
        return [text.strip() for text in model.answer(requests)]


def _shares(answers: tuple[str, ...], domain: tuple[str, ...]) -> tuple[tuple[float, ...], ...]:
    """(answers, domain): which words speak for which answer, as shares of its words."""
    words = [words_of(answer) for answer in answers]
    return tuple(
        tuple(float(word in own) / max(1, len(set(own))) for word in domain) for own in words
    )


def words_of(text: str) -> list[str]:
    """Lower-case words."""
    return re.findall(r"\w+", text.casefold())
