"""ProductOfExperts: one exponential mechanism over summed, clipped log-probabilities (PoE Algorithm
1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.mechanisms.answering import Answering
from leakbound.mechanisms.single import as_given
from leakbound.mechanisms.tokens import Speller, finite, public_tokens
from leakbound.models import Model, NextLogits, Request, ScoreLabels
from leakbound.privacy import BoundedRange, Guarantee, Relation, compose
from leakbound.tasks import (
    Access,
    Aggregate,
    CategoricalLaw,
    Context,
    Job,
    Outputs,
    Query,
    Spoken,
    Task,
    Vector,
)
from leakbound.tasks.partition import split_by_position

__all__ = ["ProductOfExperts", "clipped"]

Floats = npt.NDArray[np.float64]
Calibration = Literal["replace_one", "add_remove", "paper"]


@dataclass(frozen=True, slots=True)
class ProductOfExperts(Answering):
    """P(y) proportional to exp(lambda U(y)), U(y) = sum over experts of clip(ln p_j(y), -C, 0); an
    expert is a group of examples.

    Inputs: context, U (PRIVATE); query, candidates, group size, C, epsilon (public). Candidates:
    the query's answers, with p_j
    normalised over them; for a free answer, token after token, the likeliest `candidates` tokens of
    the model without examples. Clip is
    a clamp: what lies below -C counts -C. Range of U: replacing an example replaces one expert, 2C;
    adding or removing an expert, C.
    Calibrations: `replace_one` lambda = epsilon/(2C); `add_remove` lambda = epsilon/C, a guarantee
    under that relation; `paper`
    lambda = epsilon/C read under replace_one, as published: its guarantee is 2 epsilon, since
    replacing is not monotone. One choice is
    epsilon-bounded-range. A free answer makes up to `tokens` choices of `token_epsilon` each
    (default epsilon/tokens; `calibrated`
    takes the most that composes to epsilon at delta). Noisy scores are not covered: black box only.
    """

    name: ClassVar[str] = "product_of_experts"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({ScoreLabels})
    epsilon: float
    group_size: int = 1
    clip: float = 2.0
    calibration: Calibration = "replace_one"
    tokens: int = 8
    candidates: int = 50
    token_epsilon: float | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "group_size", "clip", "tokens", "candidates"):
            positive(name, getattr(self, name))
        if self.calibration not in ("replace_one", "add_remove", "paper"):
            raise UsageError(
                f"calibration is {self.calibration!r}; it must be replace_one, add_remove or paper."
            )
        if self.calibration == "add_remove" and self.group_size > 1:
            raise UsageError(
                "add_remove needs a group_size of 1: an example less re-deals the others among "
                "larger groups, and a group that loses "
                "one of several is replaced, not removed. Use group_size 1, or the calibration "
                "replace_one."
            )

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, group_size: int = 1, clip: float = 2.0,
        calibration: Calibration = "replace_one", tokens: int = 8, candidates: int = 50,
    ) -> ProductOfExperts:  # fmt: skip
        """`epsilon` is that of one answer, whether one choice or many tokens."""
        each = (
            max(epsilon / tokens, _by_zcdp(epsilon, tokens, delta))
            if calibration != "paper"
            else None
        )
        return cls(epsilon, group_size, clip, calibration, tokens, candidates, each)

    @property
    def rate(self) -> float:
        """lambda of one choice among answers: how much a unit of U counts in the exponent."""
        return self._rate(self.epsilon)

    def _rate(self, epsilon: float) -> float:
        return epsilon / (2 * self.clip if self.calibration == "replace_one" else self.clip)

    @property
    def _each(self) -> float:
        return self.epsilon / self.tokens if self.token_epsilon is None else self.token_epsilon

    @property
    def guarantee(self) -> BoundedRange:
        """Of one choice: lambda times the range of U under the stated relation."""
        return self._promise(self.epsilon)

    def _promise(self, epsilon: float) -> BoundedRange:
        relation: Relation = "add_remove" if self.calibration == "add_remove" else "replace_one"
        return BoundedRange(epsilon * (2 if self.calibration == "paper" else 1), relation)

    def cost(self, task: Task, query: Query) -> Guarantee:
        """One choice among answers, or the composition over the tokens of a free answer."""
        return (
            self.guarantee
            if task.answers(query)
            else compose([self._promise(self._each)] * self.tokens)
        )

    def experts(self, context: Context) -> list[Context]:
        """Groups by position: an example's group does not depend on the other examples."""
        return split_by_position(context, -(-len(context) // self.group_size))

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """One scoring of all answers an expert; for a free answer, the first tokens."""
        prompts = [task.prompt(part, job.query) for part in self.experts(job.context)]
        if answers := task.answers(job.query):
            return [ScoreLabels(prompt, answers) for prompt in prompts]
        return [NextLogits(prompt, ()) for prompt in prompts]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """J scorings a job in one batch; a free answer is spelled token by token, its noise drawn
        from the job's draw.
        """
        scored = [
            (job, ask)
            for job in jobs
            if task.answers(job.query)
            for ask in self.requests(task, job, 0)
        ]
        replies = iter(model.answer([ask for _, ask in scored]))
        out: list[Aggregate] = []
        for job, draw in zip(jobs, draws, strict=True):
            if answers := task.answers(job.query):
                scores = np.stack([next(replies) for _ in self.experts(job.context)])
                out.append(Vector(tuple(clipped(scores, self.clip).sum(0).tolist()), answers))
            else:
                out.append(self._spell(task, job, draw, model))
        return out

    def _spell(self, task: Task, job: Job, draw: int, model: Model) -> Spoken:
        rng = np.random.default_rng(draw)
        prompts = [task.prompt(part, job.query) for part in self.experts(job.context)]
        speller = Speller(model, [task.prompt((), job.query), *prompts])
        for _ in range(self.tokens):
            public, *private = speller.logits()
            tokens = public_tokens(public, self.candidates)
            total = clipped(np.stack(private)[:, tokens], self.clip).sum(0)
            speller.add(int(tokens[_sampled(self._rate(self._each) * total, 1, rng)[0]]))
            if speller.ended:
                break
        return Spoken(speller.text)

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """A free answer is: its tokens are drawn while collecting."""
        return not task.answers(query)

    def release(self, aggregate: Vector | Spoken, draws: int, rng: np.random.Generator) -> Outputs:
        """Answers drawn from the exponential mechanism; a spelled answer is given as it is."""
        if isinstance(aggregate, Spoken):
            return as_given(aggregate, draws)
        return Outputs(_sampled(self.rate * np.asarray(aggregate.values), draws, rng))

    def output_distribution(self, aggregate: Vector | Spoken) -> CategoricalLaw | None:
        """softmax(lambda U); unknown for a spelled answer."""
        if isinstance(aggregate, Spoken):
            return None
        logits = self.rate * np.asarray(aggregate.values)
        weights = np.exp(logits - logits.max())
        return CategoricalLaw(weights / weights.sum())


def _by_zcdp(epsilon: float, count: int, delta: float) -> float:
    """The epsilon of each of `count` exponential mechanisms that compose to (epsilon, delta) as
    zCDP; 0 at delta = 0.

    count e^2/8 = rho with rho + 2 sqrt(rho ln(1/delta)) = epsilon; rounded down.
    """
    if delta == 0:
        return 0.0
    log = math.log(1 / delta)
    root = math.sqrt(log + epsilon) - math.sqrt(log)
    return root * math.sqrt(8 / count) * (1 - 1e-12)


def clipped(scores: npt.ArrayLike, clip: float) -> Floats:
    """ln p, normalised over the candidates (last axis), clamped to [-C, 0]; what is not a number
    counts -C.
    """
    raw = finite(scores)
    top = raw.max(-1, keepdims=True)
    log_p = raw - top - np.log(np.exp(raw - top).sum(-1, keepdims=True))
    return np.asarray(np.clip(log_p, -clip, 0.0))


def _sampled(logits: Floats, draws: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """(draws,) indices from softmax(logits), by Gumbel maxima."""
    return np.asarray((logits + rng.gumbel(size=(draws, logits.size))).argmax(1), np.int64)
