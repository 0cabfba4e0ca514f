"""Base classes of mechanisms that choose a given answer, or generate a free one token by token.

A mechanism defines which contexts its prompts contain, what it keeps of the scores of answers, and
how it weighs answers and draws a token. Requests, generation, release and output distribution
follow from that.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from leakbound.mechanisms.parts.base import MechanismBase, answer_each
from leakbound.mechanisms.parts.exponential import gumbel_choices, softmax_distribution
from leakbound.mechanisms.parts.single import release_unchanged
from leakbound.mechanisms.parts.tokens import TokenDecoder, finite, is_failed
from leakbound.mechanisms.parts.total_calls import answer_total
from leakbound.models import Model, NextLogits, ScoreLabels
from leakbound.privacy import Guarantee, NonPrivate, compose
from leakbound.stats.arrays import Floats
from leakbound.tasks import (
    Access,
    Aggregate,
    AnyRequest,
    CategoricalLaw,
    Context,
    GeneratedText,
    Job,
    Outputs,
    Query,
    RequestKinds,
    Task,
    Vector,
)
from leakbound.tasks.mechanism import Exactness


class Decoding(MechanismBase):
    """Base of mechanisms that choose one of the query's answers, or draw up to `tokens` freely."""

    __slots__ = ()
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[RequestKinds] = frozenset({ScoreLabels})
    exactness: ClassVar[Exactness] = "full"
    scores_prior: ClassVar[bool] = True  # whether answers are also scored without examples
    tokens: int

    # --- what a mechanism defines

    @property
    def _token_guarantee(self) -> Guarantee:
        return self.guarantee

    @abstractmethod
    def _parts(self, context: Context) -> list[Context]:
        """The contexts that are read, one for each prompt (PRIVATE)."""

    @abstractmethod
    def _kept(self, scores: Sequence[npt.ArrayLike], size: int) -> Floats:
        """The values that are kept of the replies to `requests`, for `size` answers."""

    @abstractmethod
    def _exponents(self, values: Floats) -> Floats:
        """(answers,) ln of the weights of the answers, from the values that were kept."""

    @abstractmethod
    def _token(self, rows: list[Floats], rng: np.random.Generator) -> int:
        """The next token, from the logits without examples and those of each part."""

    # --- what follows

    def cost(self, task: Task, query: Query) -> Guarantee:
        """Guarantee of one choice among answers, or the composition over a free answer's tokens."""
        if task.answers(query):
            return self.guarantee
        return compose([self._token_guarantee] * self.tokens)

    def noise_in_collect(self, task: Task, query: Query) -> bool:
        """Whether the answer is free: its tokens are drawn while collecting."""
        return not task.answers(query)

    def requests(self, task: Task, job: Job, draw: int) -> list[AnyRequest]:
        """Requests that score all answers for each prompt, or the first token of a free answer."""
        prior: list[Context] = [()] if self.scores_prior else []
        parts = [*prior, *self._parts(job.context)]
        prompts = [task.prompt(part, job.query) for part in parts]
        if answers := task.answers(job.query):
            return [ScoreLabels(prompt, answers, alone=True) for prompt in prompts]
        return [NextLogits(prompt, (), self.tokens, alone=True) for prompt in prompts]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Collect the scores of each job in one batch; generate free answers token by token."""
        replies = iter(self._scores(task, [j for j in jobs if task.answers(j.query)], model))
        found: list[Aggregate] = []
        for job, draw in zip(jobs, draws, strict=True):
            if answers := task.answers(job.query):
                kept = self._kept(next(replies), len(answers))
                found.append(Vector(tuple(kept.ravel().tolist()), answers))
            else:
                found.append(self._generate(task, job, draw, model))
        return found

    def _scores(
        self, task: Task, jobs: Sequence[Job], model: Model
    ) -> list[list[npt.NDArray[np.float32]]]:
        """Replies to the requests of each job. Public requests are sent in a separate call."""
        each = [self.requests(task, job, 0) for job in jobs]
        if isinstance(self.guarantee, NonPrivate):
            return answer_each(model, each)
        first = int(self.scores_prior)
        public = answer_total(model, task, jobs, [group[:first] for group in each])
        private = answer_total(model, task, jobs, [group[first:] for group in each])
        return [
            # a part without examples has the public prompt, and so the public scores
            a + [a[0] if a and one == group[0] else row
                 for one, row in zip(group[first:], b, strict=True)]
            for group, a, b in zip(each, public, private, strict=True)
        ]  # fmt: skip

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        rng = np.random.default_rng(draw)
        parts = [(), *self._parts(job.context)]
        prompts = [task.prompt(part, job.query) for part in parts]
        decoder = TokenDecoder(model, prompts, self.guarantee.relation == "add_remove")
        for _ in range(self.tokens):
            decoder.add(self._token(decoder.logits(), rng))
            if decoder.ended:
                break
        return GeneratedText(decoder.text)

    def release(
        self, aggregate: Vector | GeneratedText, draws: int, rng: np.random.Generator
    ) -> Outputs:
        """Draw answers by their weights; return a generated answer unchanged."""
        if isinstance(aggregate, GeneratedText):
            return release_unchanged(aggregate, draws)
        exponents = self._exponents(np.asarray(aggregate.values))
        return Outputs(gumbel_choices(exponents, draws, rng))

    def output_distribution(self, aggregate: Vector | GeneratedText) -> CategoricalLaw | None:
        if isinstance(aggregate, GeneratedText):
            return None
        return softmax_distribution(self._exponents(np.asarray(aggregate.values)))


class PairDecoding(Decoding):
    """Base of mechanisms over distributions with the context (or without it) and without it."""

    __slots__ = ()

    @abstractmethod
    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        """ln of the distribution of one choice, among answers or (`free`) tokens."""

    def voters(self, shots: int) -> int:
        return 1

    def _parts(self, context: Context) -> list[Context]:
        return [context]

    def _kept(self, scores: Sequence[npt.ArrayLike], size: int) -> Floats:
        return np.concatenate(_or_prior(*scores))

    def _exponents(self, values: Floats) -> Floats:
        context, prior = np.split(values, 2)
        return self._log_p(context, prior, free=False)

    def _token(self, rows: list[Floats], rng: np.random.Generator) -> int:
        context, prior = _or_prior(*rows)
        log_p = self._log_p(context, prior, free=True)
        return int(gumbel_choices(log_p, 1, rng)[0])


def _or_prior(prior: npt.ArrayLike, context: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Scores with the context and without it, as finite numbers."""
    without = finite(prior)
    return (without if is_failed(context) else finite(context)), without
