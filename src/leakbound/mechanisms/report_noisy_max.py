"""ReportNoisyMax: private voting over disjoint partitions (CL Algorithm 2; XL Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from leakbound._check import one_of, positive, whole
from leakbound.mechanisms.parts.base import GaussianCalibration, PartitionedMechanism
from leakbound.mechanisms.parts.contextual_calibration import Prior, less_prior, score_requests
from leakbound.mechanisms.parts.discrete_noise import discrete_gaussian, require_analytic
from leakbound.mechanisms.parts.single import partition_requests, require_answers
from leakbound.mechanisms.parts.tokens import finite, is_failed
from leakbound.models import Complete, Model, ScoreLabels
from leakbound.privacy import (
    DiscreteGaussian,
    Gaussian,
    calibrate_discrete_gaussian,
    calibrate_gaussian,
)
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    GaussianLaw,
    Job,
    Outputs,
    RequestKinds,
    Task,
    Votes,
    parse_answer,
)
from leakbound.tasks.mechanism import VoteNoise
from leakbound.tasks.partition import Sampling, split

NoiseKind = Literal["gaussian", "discrete_gaussian"]
SENSITIVITY = math.sqrt(2)  # one partition's vote moves: one count falls by 1, another rises by 1


class _Needs:
    """Kinds of requests of an instance; for the class, those with the default options."""

    def __get__(self, mechanism: ReportNoisyMax | None, kind: type | None = None) -> RequestKinds:
        scored = mechanism is not None and mechanism.prior != "none"
        return frozenset({ScoreLabels}) if scored else frozenset({Complete})


@dataclass(frozen=True, slots=True)
class ReportNoisyMax(PartitionedMechanism):
    """Each of T partitions votes once; the output is the answer with the largest noisy count.

    The classes are the query's answers and one for "none of them", so an unparsable reply or a
    failed call is still a vote. Noise is added to every count, including that of the last class. If
    the last class has the largest count, the output is "(no answer)", a public outcome that costs
    as much as any other. A partition with one or two examples tends to vote for the label that they
    show, whatever the query, and less noise then makes answers worse. Give each partition several
    examples, or calibrate its vote (`prior`). Private: context, votes. Public: query, answers, T,
    sigma, prior.

    Attributes:
        sigma: Standard deviation of the noise on each count, in votes.
        partitions: T, the number of disjoint parts of the context.
        noise: "gaussian": floating-point noise. "discrete_gaussian": noise in whole votes, sampled
            exactly from random bits, so the last bits reveal nothing. Ties are broken at random.
        prior: "none": a partition votes for the answer that it writes. "uniform": it votes for the
            answer with the largest log-probability, so that no reply is unreadable; T scorings
            instead of T replies. "content_free": it votes for the answer whose log-probability
            increases most over that for the query "N/A", with the same partition (contextual
            calibration); 2T scorings.
        sampling: "position": each example is in one partition. "poisson": coin flips assign
            examples to partitions anew for each answer; partitions may be empty, and some examples
            are in none. The guarantee is the same for every outcome of the coins, and hence on
            average.

    Guarantee:
        sqrt(2)/sigma-GDP under replace_one, for the whole noisy histogram (white box) and hence for
        its argmax. Replacing one example replaces one partition's vote, a change of sqrt(2) in L2.
        Calibrated or not, a vote depends only on one partition and public information. The
        guarantee is derived from the sigma that is used, never from the requested epsilon. Discrete
        noise: 1/sigma^2-zCDP, that is Delta^2/(2 sigma^2), and epsilon(delta) exactly from the loss
        of two changed counts. Proof: docs/mechanisms/report_noisy_max.md.

    Reference:
        Wu et al., "Privacy-preserving in-context learning for large language models" (ICLR 2024);
        CL Algorithms 2 and 3; XL Algorithm 2. Canonne, Kamath and Steinke (NeurIPS 2020) for
        discrete noise. Zhao et al. (ICML 2021) for contextual calibration.

    Examples:
        >>> mechanism = ReportNoisyMax.calibrated(4.0, 1e-5, partitions=10)
        >>> round(mechanism.guarantee.epsilon(1e-5), 6)
        4.0
    """

    name: ClassVar[str] = "report_noisy_max"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box", "white_box"})
    needs: ClassVar[_Needs] = _Needs()
    exactness = PartitionedMechanism.exactness
    disjoint_parts = PartitionedMechanism.disjoint_parts
    strongest_score: ClassVar[str | None] = "label_margin"
    unwritten: ClassVar[tuple[str, ...]] = ("noise", "prior", "sampling")
    sigma: float
    partitions: int = 10
    noise: NoiseKind = "gaussian"
    prior: Prior = "none"
    sampling: Sampling = "position"

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        one_of("noise", self.noise, get_args(NoiseKind))
        one_of("prior", self.prior, get_args(Prior))
        one_of("sampling", self.sampling, get_args(Sampling))
        whole("partitions", self.partitions)

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        partitions: int = 10,
        calibration: GaussianCalibration = "analytic",
        noise: NoiseKind = "gaussian",
        prior: Prior = "none",
        sampling: Sampling = "position",
    ) -> Self:
        """The mechanism with the noise that a claim requires.

        Args:
            calibration: "analytic" is exact; "classical" is the formula of XL and CL, which does
                not satisfy every claim above epsilon 1.

        Raises:
            UsageError: If discrete noise is to be calibrated with the classical formula.
        """
        if noise == "gaussian":
            sigma = calibrate_gaussian(epsilon, delta, SENSITIVITY, calibration)
            return cls(sigma, partitions, prior=prior, sampling=sampling)
        require_analytic(calibration)
        made = calibrate_discrete_gaussian(epsilon, delta)
        return cls(made, partitions, noise, prior, sampling)

    @property
    def guarantee(self) -> Gaussian | DiscreteGaussian:
        """mu-GDP with mu = sqrt(2)/sigma, or discrete noise on two counts."""
        if self.noise == "gaussian":
            return Gaussian(SENSITIVITY, self.sigma)
        return DiscreteGaussian(self.sigma, moves=2)

    @property
    def vote_noise(self) -> VoteNoise | None:
        """`sigma`, in whole votes if the noise is discrete."""
        return VoteNoise(self.sigma, self.noise == "discrete_gaussian")

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """One greedy completion for each partition, or one or two scorings of the answers."""
        require_answers(task, job.query, self.name, "keyword_mean")
        if self.prior == "none":
            return partition_requests(task, job, self.partitions, draw, self.sampling)
        parts = split(job.context, self.partitions, draw, self.sampling)
        return [*score_requests(task, parts, job.query, self.prior == "content_free")]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Make T or 2T model calls for each job, with all jobs in one batch."""
        replies = self._answer_jobs(task, jobs, draws, model)
        return [
            self._count(task.answers(job.query), found)
            for job, found in zip(jobs, replies, strict=True)
        ]

    def _count(self, answers: Sequence[str], replies: Sequence[Any]) -> Votes:
        if self.prior == "none":
            votes = [parse_answer(text, answers) for text in replies]
        else:
            risen = less_prior(replies) if self.prior == "content_free" else np.asarray(replies)
            votes = np.where(is_failed(risen), len(answers), finite(risen).argmax(1)).tolist()
        return Votes(tuple(np.bincount(votes, minlength=len(answers) + 1).tolist()))

    def release(self, aggregate: Votes, draws: int, rng: np.random.Generator) -> Outputs:
        """Noisy histograms and their argmax; ties of discrete noise are broken at random."""
        counts, shape = np.asarray(aggregate.counts, float), (draws, len(aggregate.counts))
        if self.noise == "gaussian":
            noisy = counts + rng.normal(0.0, self.sigma, shape)
            return Outputs(noisy.argmax(1), noisy)
        noisy = counts + discrete_gaussian(self.sigma, shape, rng)
        largest = noisy == noisy.max(1, keepdims=True)
        return Outputs((largest * (1.0 - rng.random(shape))).argmax(1), noisy)

    def output_distribution(self, aggregate: Votes) -> GaussianLaw | DiscreteGaussianLaw:
        counts = np.asarray(aggregate.counts, float)
        if self.noise == "gaussian":
            return GaussianLaw(counts, self.sigma)
        return DiscreteGaussianLaw(counts, self.sigma)
