"""ContextInfluenceDecoding and BoundedCID:

how strongly the context may speak (CI Definition 3.4 and Algorithm 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, positive
from leakbound.mechanisms.answering import Answering
from leakbound.mechanisms.single import as_given
from leakbound.mechanisms.tokens import Speller, finite, log_softmax
from leakbound.models import Model, NextLogits, Request, ScoreLabels
from leakbound.privacy import Guarantee, NonPrivate, PureDP, compose
from leakbound.tasks import (
    Access,
    Aggregate,
    CategoricalLaw,
    Job,
    Outputs,
    Query,
    Spoken,
    Task,
    Vector,
)

__all__ = ["BoundedCID", "ContextInfluenceDecoding", "bounded_lambda", "mixed"]

Floats = npt.NDArray[np.float64]


def mixed(context: Floats, prior: Floats, lam: float, temperature: float) -> Floats:
    """ln of softmax[(lam context + (1 - lam) prior)/T] over the last axis:

    logits with and without the context.
    """
    return log_softmax((lam * context + (1 - lam) * prior) / temperature)


def bounded_lambda(
    context: Floats, prior: Floats, bound: float, largest: float, temperature: float
) -> float:
    """A lambda in [0, largest] with max |ln p_lambda - ln p_0| <= bound:

    by bisection for the largest, ending on the safe side.
    """
    p0 = mixed(context, prior, 0.0, temperature)

    def holds(lam: float) -> bool:
        return bool(np.abs(mixed(context, prior, lam, temperature) - p0).max() <= bound)

    if holds(largest):
        return largest
    low, high = 0.0, largest
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class _Decoding(Answering):
    """What both share: one choice among answers, or tokens sampled one after the other."""

    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[frozenset[type[Request[Any]]]] = frozenset({ScoreLabels})
    temperature: float = 1.0
    tokens: int = 24

    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """ln of the law of the next of so many choices."""
        raise NotImplementedError

    def requests(self, task: Task, job: Job, draw: int) -> list[Request[Any]]:
        """With the context and without it: the query's answers, or the first token."""
        prompts = [task.prompt(context, job.query) for context in (job.context, ())]
        if answers := task.answers(job.query):
            return [ScoreLabels(prompt, answers) for prompt in prompts]
        return [NextLogits(prompt, ()) for prompt in prompts]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Two scorings a job; a free answer is sampled token by token from the job's draw."""
        replies = iter(
            model.answer(
                [a for job in jobs if task.answers(job.query) for a in self.requests(task, job, 0)]
            )
        )
        out: list[Aggregate] = []
        for job, draw in zip(jobs, draws, strict=True):
            if answers := task.answers(job.query):
                scores = [finite(next(replies)) for _ in range(2)]
                out.append(Vector(tuple(np.concatenate(scores).tolist()), answers))
            else:
                out.append(self._spell(task, job, draw, model))
        return out

    def _spell(self, task: Task, job: Job, draw: int, model: Model) -> Spoken:
        rng = np.random.default_rng(draw)
        speller = Speller(model, [task.prompt(context, job.query) for context in (job.context, ())])
        for _ in range(self.tokens):
            with_context, without = speller.logits()
            law = self.log_p(with_context, without, self.tokens)
            speller.add(int((law + rng.gumbel(size=law.size)).argmax()))
            if speller.ended:
                break
        return Spoken(speller.text)

    def _law(self, aggregate: Vector) -> Floats:
        with_context, without = np.split(np.asarray(aggregate.values), 2)
        return np.exp(self.log_p(with_context, without))

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """A free answer is: its tokens are drawn while collecting."""
        return not task.answers(query)

    def release(self, aggregate: Vector | Spoken, draws: int, rng: np.random.Generator) -> Outputs:
        """Answers sampled from the law; a spelled answer as it is."""
        if isinstance(aggregate, Spoken):
            return as_given(aggregate, draws)
        p = self._law(aggregate)
        return Outputs(np.asarray(rng.choice(p.size, draws, p=p / p.sum()), np.int64))

    def output_distribution(self, aggregate: Vector | Spoken) -> CategoricalLaw | None:
        """The probabilities of the answers; unknown for a spelled answer."""
        return None if isinstance(aggregate, Spoken) else CategoricalLaw(self._law(aggregate))


@dataclass(frozen=True, slots=True)
class ContextInfluenceDecoding(_Decoding):
    """p proportional to exp[(lam logits with the context + (1 - lam) logits without)/T].

    Guarantee: none, except at lam = 0.
    """

    name: ClassVar[str] = "context_influence_decoding"
    lam: float = 1.0

    def __post_init__(self) -> None:
        at_least("lam", self.lam, 0.0)
        positive("temperature", self.temperature)

    @property
    def guarantee(self) -> Guarantee:
        """0-DP at lam = 0, where the context is not heard; none otherwise."""
        return PureDP(0.0) if self.lam == 0 else NonPrivate()

    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """The mixture."""
        return mixed(context, prior, self.lam, self.temperature)


@dataclass(frozen=True, slots=True)
class BoundedCID(_Decoding):
    """Per choice the largest lam in [0, largest] with |ln(p/p_prior)| <= epsilon/2 for every token
    (or answer).

    Both worlds stay within epsilon/2 of the same prior, whatever the whole context is: epsilon-DP
    per choice for any change of
    the context (stated under replace_one). A free answer makes up to `tokens` choices of
    epsilon/tokens each. The loss of a pair
    reaches epsilon only where two contexts pull to opposite ends.
    """

    name: ClassVar[str] = "bounded_cid"
    epsilon: float = 1.0
    largest: float = 1.5

    def __post_init__(self) -> None:
        for name in ("epsilon", "largest", "temperature", "tokens"):
            positive(name, getattr(self, name))

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        largest: float = 1.5,
        temperature: float = 1.0,
        tokens: int = 24,
    ) -> BoundedCID:
        """`epsilon` is that of one answer, whether one choice or many tokens."""
        return cls(temperature, tokens, epsilon, largest)

    @property
    def guarantee(self) -> PureDP:
        """epsilon-DP of one choice."""
        return PureDP(self.epsilon)

    def cost(self, task: Task, query: Query) -> Guarantee:
        """One choice among answers, or the composition over the tokens of a free answer."""
        return (
            self.guarantee
            if task.answers(query)
            else compose([PureDP(self.epsilon / self.tokens)] * self.tokens)
        )

    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """The bounded mixture, each of `choices` at its share of epsilon."""
        lam = bounded_lambda(
            context, prior, self.epsilon / choices / 2, self.largest, self.temperature
        )
        return mixed(context, prior, lam, self.temperature)
