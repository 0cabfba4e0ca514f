"""KeywordMean (KSA): noisy counts of public keywords, and an answer that is shown the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from leakbound._check import positive, whole
from leakbound.errors import UsageError
from leakbound.mechanisms.base import GaussianCalibration, PartitionedMechanism
from leakbound.mechanisms.discrete_noise import discrete_gaussian, require_analytic
from leakbound.mechanisms.embedding_mean import public_candidates
from leakbound.mechanisms.exponential import softmax_distribution
from leakbound.mechanisms.keywords import mean_counts, word_shares, words_of
from leakbound.mechanisms.single import partition_requests
from leakbound.mechanisms.top_k import joint_range, joint_top_k
from leakbound.mechanisms.total_calls import answer_total
from leakbound.mechanisms.wording import SHOWN_KEYWORDS
from leakbound.models import Complete, Model
from leakbound.models.content import text_only
from leakbound.privacy import (
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    calibrate_discrete_gaussian,
    calibrate_gaussian,
)
from leakbound.stats.output_distributions import DiscreteGaussianLaw
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    GaussianLaw,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
)

__all__ = ["KeywordMean"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Selection = Literal["gaussian", "discrete_gaussian", "joint_exponential"]


@dataclass(frozen=True, slots=True)
class KeywordMean(PartitionedMechanism):
    """Each of T partitions answers; the k public words with the largest noisy counts are released.

    An answer counts its first m distinct keywords once. The domain of keywords is the words of the
    query's answers, or of zero-shot answers and the query, never of private answers. A free query
    is answered by a zero-shot answer that is shown the released words. Private: context, answers,
    counts. Public: query, domain, T, m, k, noise.

    Attributes:
        noise: Standard deviation on each mean count ("gaussian"); parameter of the noise on each
            count ("discrete_gaussian"); or epsilon ("joint_exponential").
        partitions: T, the number of disjoint parts of the context.
        per_answer: m, the number of keywords that one answer counts.
        top: k, the number of words that are released together.
        candidates: Number of zero-shot answers that are sampled for a free query.
        selection: "gaussian" releases noisy counts; "discrete_gaussian" whole ones, with noise
            that is sampled exactly from random bits, and breaks ties at random; "joint_exponential"
            draws the ordered top k through one exponential mechanism with utility -max_i (count of
            rank i less count of the i-th chosen), of range 2/T at k = 1 and 4/T beyond.

    Raises:
        UsageError: If a number is not positive, or the selection is another.

    Guarantee:
        Under replace_one. "gaussian": (sqrt(2m)/T)/sigma-GDP for the whole noisy vector, because an
        answer moves 2m counts by 1/T each. "discrete_gaussian": m/sigma^2-zCDP for the whole
        counts, 2m of which move by one. "joint_exponential": epsilon-bounded range, so epsilon-DP,
        for the ordered words.

    Reference:
        Wu et al. (ICLR 2024), keyword space aggregation; CL Algorithm 2; Gillenwater, Joseph, Munoz
        and Diaz, "A joint exponential mechanism for differentially private top-k" (ICML 2022).
        Canonne, Kamath and Steinke (NeurIPS 2020) for discrete noise.
    """

    name: ClassVar[str] = "keyword_mean"
    white_box_score: ClassVar[str | None] = "distance_gap"
    needs: ClassVar[RequestKinds] = frozenset({Complete})
    noise: float
    partitions: int = 10
    per_answer: int = 1
    top: int = 1
    candidates: int = 10
    selection: Selection = "gaussian"

    def __post_init__(self) -> None:
        positive("noise", self.noise)
        whole("partitions", self.partitions)
        whole("per_answer", self.per_answer)
        whole("top", self.top)
        whole("candidates", self.candidates)
        if self.selection not in get_args(Selection):
            raise UsageError(
                f"selection is {self.selection!r}; it must be gaussian, discrete_gaussian or "
                "joint_exponential."
            )

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        partitions: int = 10,
        calibration: GaussianCalibration = "analytic",
        per_answer: int = 1,
        top: int = 1,
        candidates: int = 10,
        selection: Selection = "gaussian",
    ) -> Self:
        """With the noise that a claim needs.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: delta of the claim in (0, 1).
            partitions: Number of disjoint parts of the context.
            calibration: Of Gaussian noise: "analytic" is exact; "classical" does not keep every
                claim above epsilon 1.
            per_answer: Number of keywords that one answer counts.
            top: Number of words that are released together.
            candidates: Number of zero-shot answers that are sampled for a free query.
            selection: "gaussian", "discrete_gaussian" or "joint_exponential".

        Returns:
            A mechanism.

        Raises:
            UsageError: If discrete noise is to be calibrated by the classical formula.
        """
        made = cls(epsilon, partitions, per_answer, top, candidates, selection)
        if selection == "joint_exponential":
            return made
        if selection == "discrete_gaussian":
            require_analytic(calibration)
            return replace(made, noise=calibrate_discrete_gaussian(epsilon, delta, made._moves))
        sensitivity = made._sensitivity
        return replace(made, noise=calibrate_gaussian(epsilon, delta, sensitivity, calibration))

    @property
    def access(self) -> frozenset[Access]:
        """White box where noisy counts are released; "joint_exponential" covers the words alone."""
        return frozenset(
            {"black_box"} if self.selection == "joint_exponential" else {"black_box", "white_box"}
        )

    @property
    def guarantee(self) -> Gaussian | DiscreteGaussian | BoundedRange:
        """mu-GDP with mu = sqrt(2m)/(T sigma), 2m counts with discrete noise, or the range of the
        exponential mechanism.
        """
        if self.selection == "gaussian":
            return Gaussian(self._sensitivity, self.noise)
        if self.selection == "discrete_gaussian":
            return DiscreteGaussian(self.noise, self._moves)
        return BoundedRange(self.noise)

    @property
    def _moves(self) -> int:
        """Counts that one answer moves by one."""
        return 2 * self.per_answer

    @property
    def _sensitivity(self) -> float:
        return math.sqrt(2 * self.per_answer) / self.partitions

    @property
    def sampled_candidates(self) -> int:
        """`candidates`."""
        return self.candidates

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Noise is drawn in `release` only.

        Args:
            task: The task of the context.
            query: The query that is answered.

        Returns:
            False.
        """
        return False

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """One greedy completion for each partition.

        Args:
            task: Renders the prompts.
            job: Context (PRIVATE) and query.
            draw: Names the random draw.

        Returns:
            `partitions` requests.

        Raises:
            UsageError: If a partition would be empty.
        """
        return partition_requests(task, job, self.partitions, draw)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """T completions for each job, and the public candidates of each query.

        Args:
            task: Renders the prompts.
            jobs: Contexts (PRIVATE) and queries.
            draws: One number for each job.
            model: Answers the requests.

        Returns:
            The mean counts of each job, with the domain or the answers. A call that fails counts no
            keyword.
        """
        each = [self.requests(task, job, draw) for job, draw in zip(jobs, draws, strict=True)]
        replies = answer_total(model, task, jobs, each)
        return [
            self._aggregate(task, job.query, texts, model)
            for job, texts in zip(jobs, replies, strict=True)
        ]

    def _aggregate(self, task: Task, query: Query, texts: Sequence[str], model: Model) -> Vector:
        public = public_candidates(task, query, self.candidates, model)
        extra = () if task.answers(query) else (text_only(query.text, self.name),)
        words = dict.fromkeys(word for text in (*public, *extra) for word in words_of(text))
        domain = tuple(words) or ("",)  # queries and answers may be made of signs alone
        counts = tuple(mean_counts(texts, domain, self.per_answer).tolist())
        if extra:
            return Vector(counts, domain)
        return Vector(counts, public, word_shares(public, domain))

    def release(self, aggregate: Vector, draws: int, rng: np.random.Generator) -> Outputs:
        """The k best words of each draw, best first.

        Args:
            aggregate: Mean counts of one job (PRIVATE).
            draws: Number of independent outputs.
            rng: Source of the noise.

        Returns:
            `picked` of shape (draws, k); `answers`: the best word, or the answer that the words
            speak for most; `noisy` means for "gaussian", and whole counts for "discrete_gaussian",
            where `points` are those of counts.
        """
        counts = self._noised(aggregate)
        points = np.asarray(aggregate.points) if aggregate.points else None
        if points is not None and self.selection == "discrete_gaussian":
            points = self.partitions * points
        noisy, picked = self._select(counts, draws, rng)
        seen = noisy if noisy is not None else np.eye(len(counts))[picked[:, 0]]
        answers = picked[:, 0] if points is None else (seen @ points.T).argmax(1)
        return Outputs(answers, noisy, aggregate.choices, points, float(self.partitions), picked)

    def _noised(self, aggregate: Vector) -> Floats:
        """What the noise is added to: means, or whole counts."""
        means = np.asarray(aggregate.values)
        return means if self.selection != "discrete_gaussian" else np.rint(means * self.partitions)

    def _select(
        self, counts: Floats, draws: int, rng: np.random.Generator
    ) -> tuple[Floats | None, Integers]:
        """(noisy counts, where they may be released; indices of the k best of each draw)."""
        k = min(self.top, len(counts))
        if self.selection == "joint_exponential":
            scale = self.noise / (joint_range(k) / self.partitions)
            picked = [joint_top_k(counts, k, scale, rng) for _ in range(draws)]
            return None, np.array(picked, np.int64).reshape(draws, k)
        shape = (draws, len(counts))
        if self.selection == "discrete_gaussian":
            noisy = counts + discrete_gaussian(self.noise, shape, rng)
            return noisy, np.lexsort((rng.random(shape), -noisy))[:, :k]
        noisy = counts + rng.normal(0.0, self.noise, shape)
        return noisy, np.argsort(-noisy, axis=1)[:, :k]

    def output_distribution(
        self, aggregate: Vector
    ) -> GaussianLaw | DiscreteGaussianLaw | CategoricalLaw | None:
        """Distribution of the noisy counts, or of one word.

        Args:
            aggregate: Mean counts of one job (PRIVATE).

        Returns:
            N(counts, sigma^2 I), whole counts with discrete noise, or the probabilities of the
            exponential mechanism for one word; None for several words.
        """
        counts = self._noised(aggregate)
        if self.selection == "gaussian":
            return GaussianLaw(counts, self.noise)
        if self.selection == "discrete_gaussian":
            return DiscreteGaussianLaw(counts, self.noise)
        if min(self.top, len(counts)) > 1:
            return None
        return softmax_distribution(self.noise / (joint_range(1) / self.partitions) * counts)

    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        """The chosen answer; for a free query a zero-shot answer that is shown the words.

        Args:
            task: Renders the prompts.
            query: The query that was answered.
            outputs: What `release` returned.
            model: Asked about a free query and the released words.

        Returns:
            One text for each draw.

        Raises:
            UsageError: If the outputs are not those of this mechanism.
        """
        if task.answers(query):
            return PartitionedMechanism.decode(self, task, query, outputs, model)
        if outputs.picked is None:
            raise UsageError(
                "the outputs hold no keywords; decode must be given what release returned."
            )
        rows = [", ".join(outputs.choices[i] for i in row) for row in outputs.picked]
        text = text_only(query.text, self.name)
        shown = [Query(SHOWN_KEYWORDS.format(query=text, keywords=row), free=True) for row in rows]
        requests = [
            Complete(task.prompt((), query), max_tokens=task.max_answer_tokens) for query in shown
        ]
        return [text.strip() for text in model.answer(requests)]
