"""ContextInfluenceDecoding and BoundedCID: how strongly the context may speak (CI, 3.4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from leakbound._check import at_least, positive
from leakbound.mechanisms.base import MechanismBase, answer_each
from leakbound.mechanisms.mixture import bounded_lambda, mixed
from leakbound.mechanisms.single import release_unchanged
from leakbound.mechanisms.tokens import TokenDecoder, finite, is_failed
from leakbound.mechanisms.total_calls import answer_total
from leakbound.models import Model, NextLogits, ScoreLabels
from leakbound.privacy import Guarantee, NonPrivate, PureDP, compose, share_down
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    GeneratedText,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
)

__all__ = ["BoundedCID", "ContextInfluenceDecoding"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Decoding(MechanismBase):
    """What both share: one choice among answers, or tokens sampled one after the other."""

    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[RequestKinds] = frozenset({ScoreLabels})
    temperature: float = 1.0
    tokens: int = 24

    @abstractmethod
    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """ln of the distribution of the next of so many choices.

        Args:
            context: (vocabulary,) logits with the context (PRIVATE).
            prior: (vocabulary,) logits without it.
            choices: Number of choices that share the budget.

        Returns:
            (vocabulary,) log-probabilities.
        """

    def voters(self, shots: int) -> int:
        """A single answer.

        Args:
            shots: Number of examples in the context.

        Returns:
            1.
        """
        return 1

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """The tokens of a free answer are drawn while collecting.

        Args:
            task: The task of the context.
            query: The query that is answered.

        Returns:
            True for a free answer.
        """
        return not task.answers(query)

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """With the context and without it: the query's answers, or the first token.

        Args:
            task: Renders the prompts.
            job: Context (PRIVATE) and query.
            draw: Not used.

        Returns:
            Two requests.
        """
        prompts = [task.prompt(context, job.query) for context in (job.context, ())]
        if answers := task.answers(job.query):
            return [ScoreLabels(prompt, answers, alone=True) for prompt in prompts]
        return [NextLogits(prompt, (), self.tokens, alone=True) for prompt in prompts]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Two scorings for each job; a free answer is generated token by token.

        Args:
            task: Renders the prompts.
            jobs: Contexts (PRIVATE) and queries.
            draws: One number for each job; the tokens of a free answer are drawn from it.
            model: Answers the requests.

        Returns:
            Scores with the context and then without it, or the generated text, of each job.
        """
        scored = [job for job in jobs if task.answers(job.query)]
        each = [self.requests(task, job, 0) for job in scored]
        if isinstance(self.guarantee, NonPrivate):
            replies = iter(answer_each(model, each))
        else:
            replies = iter(answer_total(model, task, scored, each))
        found: list[Aggregate] = []
        for job, draw in zip(jobs, draws, strict=True):
            if answers := task.answers(job.query):
                scores = np.concatenate(_or_prior(*next(replies)))
                found.append(Vector(tuple(scores.tolist()), answers))
            else:
                found.append(self._generate(task, job, draw, model))
        return found

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        rng = np.random.default_rng(draw)
        prompts = [task.prompt(context, job.query) for context in ((), job.context)]
        decoder = TokenDecoder(model, prompts)
        for _ in range(self.tokens):
            without, with_context = decoder.logits()
            with_context, without = _or_prior(with_context, without)
            log_p = self.log_p(with_context, without, self.tokens)
            decoder.add(int((log_p + rng.gumbel(size=log_p.size)).argmax()))
            if decoder.ended:
                break
        return GeneratedText(decoder.text)

    def _probabilities(self, aggregate: Vector) -> Floats:
        with_context, without = np.split(np.asarray(aggregate.values), 2)
        return np.exp(self.log_p(with_context, without))

    def release(
        self, aggregate: Vector | GeneratedText, draws: int, rng: np.random.Generator
    ) -> Outputs:
        """Sampled answers; a generated answer as it is.

        Args:
            aggregate: Scores or a generated text of one job (PRIVATE).
            draws: Number of outputs.
            rng: Source of the choices; not used for a generated answer.

        Returns:
            `draws` outputs.
        """
        if isinstance(aggregate, GeneratedText):
            return release_unchanged(aggregate, draws)
        p = self._probabilities(aggregate)
        return Outputs(np.asarray(rng.choice(p.size, draws, p=p / p.sum()), np.int64))

    def output_distribution(self, aggregate: Vector | GeneratedText) -> CategoricalLaw | None:
        """Probabilities of the answers.

        Args:
            aggregate: Scores or a generated text of one job (PRIVATE).

        Returns:
            The distribution; None for a generated answer.
        """
        if isinstance(aggregate, GeneratedText):
            return None
        return CategoricalLaw(self._probabilities(aggregate))


def _or_prior(context: npt.ArrayLike, prior: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Both as finite numbers; where the call with the context failed, the context says nothing."""
    without = finite(prior)
    return (without if is_failed(context) else finite(context)), without


@dataclass(frozen=True, slots=True)
class ContextInfluenceDecoding(_Decoding):
    """p proportional to exp[(lam logits with the context + (1 - lam) logits without)/T].

    Attributes:
        temperature: T, above 0.
        tokens: Largest number of tokens of a free answer.
        lam: Weight of the context, at least 0.

    Raises:
        UsageError: If lam is negative or the temperature is not positive.

    Guarantee:
        0-DP under any relation at lam = 0, where the context is not read; none otherwise.

    Reference:
        CI Definition 3.4.
    """

    name: ClassVar[str] = "context_influence_decoding"
    lam: float = 1.0

    def __post_init__(self) -> None:
        at_least("lam", self.lam, 0.0)
        positive("temperature", self.temperature)

    @property
    def guarantee(self) -> Guarantee:
        """0-DP at lam = 0; none otherwise."""
        return PureDP(0.0) if self.lam == 0 else NonPrivate()

    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """The mixture.

        Args:
            context: (vocabulary,) logits with the context (PRIVATE).
            prior: (vocabulary,) logits without it.
            choices: Not used.

        Returns:
            (vocabulary,) log-probabilities.
        """
        return mixed(context, prior, self.lam, self.temperature)


@dataclass(frozen=True, slots=True)
class BoundedCID(_Decoding):
    """For each choice the largest lam in [0, largest] with |ln(p/p_prior)| <= epsilon/2 everywhere.

    A free answer makes up to `tokens` choices of epsilon/tokens each.

    Attributes:
        temperature: T, above 0.
        tokens: Largest number of tokens of a free answer.
        epsilon: epsilon of one answer.
        largest: Largest weight of the context.

    Raises:
        UsageError: If one of them is not positive.

    Guarantee:
        epsilon-DP for any change of the context, stated under replace_one: neighbouring contexts
        stay within epsilon/2 of the same prior. The loss of a pair reaches epsilon only where two
        contexts pull to opposite ends.

    Reference:
        CI Algorithm 1.
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
    ) -> Self:
        """With a claim for one answer, whether it is one choice or many tokens.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: Not used: the guarantee is pure.
            largest: Largest weight of the context.
            temperature: T, above 0.
            tokens: Largest number of tokens of a free answer.

        Returns:
            A mechanism.
        """
        return cls(temperature, tokens, epsilon, largest)

    @property
    def guarantee(self) -> PureDP:
        """epsilon-DP of one choice among answers."""
        return PureDP(self.epsilon)

    def cost(self, task: Task, query: Query) -> Guarantee:
        """One choice among answers, or the composition over the tokens of a free answer.

        Args:
            task: The task of the context.
            query: The query that is answered.

        Returns:
            `guarantee`, or a composition of `tokens` parts.
        """
        if task.answers(query):
            return self.guarantee
        return compose([PureDP(share_down(self.epsilon, self.tokens))] * self.tokens)

    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """The bounded mixture.

        Args:
            context: (vocabulary,) logits with the context (PRIVATE).
            prior: (vocabulary,) logits without it.
            choices: Number of choices that share epsilon.

        Returns:
            (vocabulary,) log-probabilities.
        """
        bound = self.epsilon / choices / 2
        lam = bounded_lambda(context, prior, bound, self.largest, self.temperature)
        return mixed(context, prior, lam, self.temperature)
