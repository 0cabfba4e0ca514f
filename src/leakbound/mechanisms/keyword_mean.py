"""KeywordMean (KSA): noisy counts of public keywords, and an answer prompted with the best ones."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from leakbound._check import one_of, positive, whole
from leakbound.errors import UsageError
from leakbound.mechanisms.embedding_mean import public_candidates
from leakbound.mechanisms.parts.base import GaussianCalibration, PartitionedMechanism
from leakbound.mechanisms.parts.discrete_noise import discrete_gaussian, require_analytic
from leakbound.mechanisms.parts.exponential import softmax_distribution
from leakbound.mechanisms.parts.single import partition_requests
from leakbound.models import Complete, Model
from leakbound.models.content import text_only
from leakbound.privacy import (
    BoundedRange,
    DiscreteGaussian,
    Gaussian,
    calibrate_discrete_gaussian,
    calibrate_gaussian,
)
from leakbound.stats.arrays import Floats, Ints
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
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

SHOWN_KEYWORDS = "{query} Use these words if they help: {keywords}."


def joint_range(k: int, per_answer: int) -> float:
    """Range of the change in utilities when one answer is replaced.

    Guarantee: Under replace_one, `per_answer` counts may increase by 1 and as many decrease by 1.
    For k = 1 the maximum is common to all words. For larger k, the rank that decides may change
    with the sequence. If one count increases and one decreases, none gains 2 and another loses 2.
    """
    if k == 1:
        return 2.0
    return 3.0 if per_answer == 1 else 4.0


def joint_top_k(counts: Floats, k: int, scale: float, rng: np.random.Generator) -> Ints:
    """k distinct indices, drawn with probability proportional to exp(scale u).

    u = -max_i (c_(i) - c_(s_i)), where c_(i) is the i-th largest count. Sequences are grouped by
    their utility -v, where v is one of the k d differences. With n_i(v) words within v of rank i,
    there are prod (n_i(v) - i) sequences of utility -v or better. A Gumbel draw therefore chooses
    v, and a uniform draw chooses a sequence with that utility. Exact, in O(k d log(k d)).

    Guarantee: Bounded range of scale * range, where the utilities of neighbours differ by `range`
    (`joint_range` in the units of the counts).
    Reference: Gillenwater, Joseph, Munoz and Diaz (ICML 2022), Algorithm 2.
    """
    order = np.argsort(-counts, kind="stable")
    ranked = counts[order]
    # (k, d), each row ascending; values below 0 gain nothing
    gaps = np.maximum(ranked[:k, None] - ranked[None, :], 0.0)
    levels = np.unique(gaps)
    # counted among the same differences
    within = np.array([[np.searchsorted(row, v, side="right") for row in gaps] for v in levels])
    free = np.maximum(within - np.arange(k), 0).astype(float)
    with np.errstate(divide="ignore"):
        better = np.log(free).sum(1)
    below = np.concatenate([[-np.inf], better[:-1]])
    with np.errstate(divide="ignore", invalid="ignore"):  # ln(n_j - n_{j-1}) from ln n_j
        fresh = np.where(better > below, better + np.log1p(-np.exp(below - better)), -np.inf)
    chosen = int(np.argmax(-scale * levels + fresh + rng.gumbel(size=levels.size)))
    return order[_sequence(within[chosen], within[chosen - 1] if chosen else np.zeros(k, int), rng)]


def _sequence(within: npt.ArrayLike, before: npt.ArrayLike, rng: np.random.Generator) -> Ints:
    """A uniform sequence of distinct ranks s_i < within_i that does not also fit `before`."""
    top, lower = np.asarray(within, int), np.asarray(before, int)
    while True:
        taken: list[int] = []
        for size in top:
            free = [rank for rank in range(size) if rank not in taken]
            taken.append(int(rng.choice(free)))
        found = np.array(taken, np.int64)
        if np.any(found >= lower):
            return found


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def mean_counts(texts: Sequence[str], domain: Sequence[str], per_answer: int) -> Floats:
    """Share of answers with each keyword; one changes 2 per_answer of them by 1/len(texts)."""
    at = {word: i for i, word in enumerate(domain)}
    counts = np.zeros(len(domain))
    for text in texts:
        known = [word for word in dict.fromkeys(words_of(text)) if word in at]
        counts[[at[word] for word in known[:per_answer]]] += 1 / len(texts)
    return counts


def word_shares(answers: Sequence[str], domain: Sequence[str]) -> tuple[tuple[float, ...], ...]:
    """Weights of the words of a domain for each answer."""
    words = [words_of(answer) for answer in answers]
    return tuple(
        tuple(float(word in own) / max(1, len(set(own))) for word in domain) for own in words
    )


Selection = Literal["gaussian", "discrete_gaussian", "joint_exponential"]


@dataclass(frozen=True, slots=True)
class KeywordMean(PartitionedMechanism):
    """Each of T partitions answers. The output is the k public words with the largest noisy counts.

    The first m distinct keywords of each answer are counted once. The domain of keywords consists
    of the words of the query's answers, or of zero-shot answers and the query, but never of private
    answers. A free query gets a zero-shot answer whose prompt contains the chosen words. Private:
    context, answers, counts. Public: query, domain, T, m, k, noise.

    Attributes:
        noise: Standard deviation on each mean count ("gaussian"); parameter of the noise on each
            count ("discrete_gaussian"); or epsilon ("joint_exponential").
        partitions: T, the number of disjoint parts of the context.
        per_answer: m, the number of keywords that are counted for one answer.
        top: k, the number of words in one output.
        candidates: Number of zero-shot answers that are sampled for a free query.
        selection: "gaussian": the output contains noisy counts. "discrete_gaussian": it contains
            integer counts, whose noise is sampled exactly from random bits; ties are broken at
            random. "joint_exponential": the ordered top k are drawn by one exponential mechanism
            with utility -max_i (count of rank i minus count of the i-th chosen word), of range 2/T
            for k = 1, 3/T for m = 1, and 4/T otherwise.

    Guarantee:
        Under replace_one. "gaussian": (sqrt(2m)/T)/sigma-GDP for the whole noisy vector, because an
        answer changes 2m counts by 1/T each. "discrete_gaussian": m/sigma^2-zCDP for the integer
        counts, 2m of which change by one. "joint_exponential": epsilon-bounded range, hence
        epsilon-DP, for the ordered words. Proof: docs/mechanisms/keyword_mean.md.

    Reference:
        Wu et al. (ICLR 2024), keyword space aggregation; CL Algorithm 2; Gillenwater, Joseph, Munoz
        and Diaz, "A joint exponential mechanism for differentially private top-k" (ICML 2022).
        Canonne, Kamath and Steinke (NeurIPS 2020) for discrete noise.
    """

    name: ClassVar[str] = "keyword_mean"
    strongest_score: ClassVar[str | None] = "distance_gap"
    needs: ClassVar[RequestKinds] = frozenset({Complete})
    exactness = PartitionedMechanism.exactness
    disjoint_parts = PartitionedMechanism.disjoint_parts
    noise: float
    partitions: int = 10
    per_answer: int = 1
    top: int = 1
    candidates: int = 10
    selection: Selection = "gaussian"

    def __post_init__(self) -> None:
        positive("noise", self.noise)
        for name in ("partitions", "per_answer", "top", "candidates"):
            whole(name, getattr(self, name))
        one_of("selection", self.selection, get_args(Selection))

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
        """The mechanism with the noise that a claim requires.

        Args:
            calibration: "analytic" is exact; "classical" does not satisfy every claim above
                epsilon 1.

        Raises:
            UsageError: If discrete noise is to be calibrated with the classical formula.
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
        """White box too if noisy counts are output; "joint_exponential" covers only the words."""
        return frozenset(
            {"black_box"} if self.selection == "joint_exponential" else {"black_box", "white_box"}
        )

    @property
    def guarantee(self) -> Gaussian | DiscreteGaussian | BoundedRange:
        """mu-GDP with mu = sqrt(2m)/(T sigma), discrete noise on 2m counts, or the bounded range of
        the exponential mechanism.
        """
        if self.selection == "gaussian":
            return Gaussian(self._sensitivity, self.noise)
        if self.selection == "discrete_gaussian":
            return DiscreteGaussian(self.noise, self._moves)
        return BoundedRange(self.noise)

    @property
    def _moves(self) -> int:
        """Number of counts that one answer changes by one."""
        return 2 * self.per_answer

    @property
    def _sensitivity(self) -> float:
        return math.sqrt(2 * self.per_answer) / self.partitions

    @property
    def sampled_candidates(self) -> int:
        return self.candidates

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """One greedy completion for each partition."""
        return partition_requests(task, job, self.partitions, draw)

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Collect T completions for each job, and the public candidates of each query."""
        replies = self._answer_jobs(task, jobs, draws, model)
        return [
            self._aggregate(task, job.query, texts, model)
            for job, texts in zip(jobs, replies, strict=True)
        ]

    def _aggregate(self, task: Task, query: Query, texts: Sequence[str], model: Model) -> Vector:
        public = public_candidates(task, query, self.candidates, model)
        extra = () if task.answers(query) else (text_only(query.text, self.name),)
        words = dict.fromkeys(word for text in (*public, *extra) for word in words_of(text))
        domain = tuple(words) or ("",)  # queries and answers may contain no words
        counts = tuple(mean_counts(texts, domain, self.per_answer).tolist())
        if extra:
            return Vector(counts, domain)
        return Vector(counts, public, word_shares(public, domain))

    def release(self, aggregate: Vector, draws: int, rng: np.random.Generator) -> Outputs:
        """The k best words of each draw, best first."""
        counts = self._noised(aggregate)
        points = np.asarray(aggregate.points) if aggregate.points else None
        if points is not None and self.selection == "discrete_gaussian":
            points = self.partitions * points
        noisy, picked = self._select(counts, draws, rng)
        seen = noisy if noisy is not None else np.eye(len(counts))[picked[:, 0]]
        answers = picked[:, 0] if points is None else (seen @ points.T).argmax(1)
        return Outputs(answers, noisy, aggregate.choices, points, float(self.partitions), picked)

    def _noised(self, aggregate: Vector) -> Floats:
        """The values that the noise is added to: means or integer counts."""
        means = np.asarray(aggregate.values)
        return means if self.selection != "discrete_gaussian" else np.rint(means * self.partitions)

    def _select(
        self, counts: Floats, draws: int, rng: np.random.Generator
    ) -> tuple[Floats | None, Ints]:
        """(noisy counts, if they may be output; indices of the k best words of each draw)."""
        k = min(self.top, len(counts))
        if self.selection == "joint_exponential":
            scale = self.noise / (joint_range(k, self.per_answer) / self.partitions)
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
        """Distribution of the noisy counts, or of one word."""
        counts = self._noised(aggregate)
        if self.selection == "gaussian":
            return GaussianLaw(counts, self.noise)
        if self.selection == "discrete_gaussian":
            return DiscreteGaussianLaw(counts, self.noise)
        if min(self.top, len(counts)) > 1:
            return None
        return softmax_distribution(
            self.noise / (joint_range(1, self.per_answer) / self.partitions) * counts
        )

    def decode(self, task: Task, query: Query, outputs: Outputs, model: Model) -> list[str]:
        """The chosen answer, or for a free query a zero-shot answer prompted with the words."""
        if task.answers(query):
            return PartitionedMechanism.decode(self, task, query, outputs, model)
        if outputs.picked is None:
            raise UsageError(
                "the outputs contain no keywords; call decode with the outputs of release."
            )
        rows = [", ".join(outputs.choices[i] for i in row) for row in outputs.picked]
        text = text_only(query.text, self.name)
        shown = [Query(SHOWN_KEYWORDS.format(query=text, keywords=row), free=True) for row in rows]
        requests = [
            Complete(task.prompt((), query), max_tokens=task.max_answer_tokens) for query in shown
        ]
        return [text.strip() for text in model.answer(requests)]
