"""InvisibleInk: clipped differences from the public logits, averaged over a batch of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.mechanisms.base import CalibratedMechanism
from leakbound.mechanisms.exponential import (
    epsilon_per_choice,
    gumbel_choices,
    softmax_distribution,
)
from leakbound.mechanisms.single import release_unchanged
from leakbound.mechanisms.tokens import TokenDecoder, finite, log_softmax
from leakbound.mechanisms.total_calls import answer_total
from leakbound.models import Model, NextLogits, ScoreLabels
from leakbound.privacy import BoundedRange, Guarantee, Relation, compose
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
from leakbound.tasks.partition import places_by_position, split_by_position

__all__ = ["InvisibleInk", "near_top"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class InvisibleInk(CalibratedMechanism):
    """A choice from softmax(phi/tau), phi = phi_pub + mean_i clip(phi_i - phi_pub, -C, C).

    phi_pub are the scores of a prompt without examples, phi_i those of the i-th of B prompts with
    disjoint parts of the context. Scores have no zero of their own, so each difference is taken
    from its median over the choices before it is clipped; that of a failed call is 0. The choices
    are the query's answers; for a free answer, token after token, all tokens whose public logit
    lies at most 2C/B below the k-th largest one. The public prompt is asked in a pass of its own.
    Private: context, phi_i. Public: query, phi_pub, choices, B, C, tau.

    Attributes:
        clip: C of one choice among the query's answers, in nats.
        partitions: B, the number of disjoint parts of the context.
        temperature: tau, above 0.
        tokens: T, the largest number of tokens of a free answer.
        candidates: k, the number of public tokens that are always among the choices.
        relation: "replace_one"; or "add_remove", where each part is one example or none.
        token_clip: C of each token; `clip` if None.

    Raises:
        UsageError: If a number is not positive, or the relation is another.

    Guarantee:
        One choice is an exponential mechanism. Replacing an example replaces one clipped
        difference, which moves each entry of phi/tau by at most 2C/(B tau) either way: a bounded
        range of 4C/(B tau), so rho = 2 (C/(B tau))^2 of zCDP. Under "add_remove" a missing
        example leaves its slot to the public scores and its difference is 0 (zero-out), so the
        range is 2C/(B tau) and rho = (C/(B tau))^2/2, a quarter. A free answer is the composition
        of T choices, rho = T/2 (C/(B tau))^2 under zero-out.

    Reference:
        Vinod, Pillutla and Thakurta, "InvisibleInk: High-utility and low-cost text generation with
        differential privacy" (2025), arXiv 2507.02974; Cesar and Rogers (ALT 2021) for the range.

    Examples:
        >>> made = InvisibleInk(clip=1.0, partitions=8, tokens=16, relation="add_remove")
        >>> made.guarantee.rho == 0.5 * (1 / 8) ** 2
        True
        >>> InvisibleInk(clip=1.0, partitions=8).guarantee.rho / made.guarantee.rho
        4.0
    """

    name: ClassVar[str] = "invisible_ink"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[RequestKinds] = frozenset({ScoreLabels})
    clip: float
    partitions: int = 10
    temperature: float = 1.0
    tokens: int = 24
    candidates: int = 100
    relation: Relation = "replace_one"
    token_clip: float | None = None

    def __post_init__(self) -> None:
        for name in ("clip", "partitions", "temperature", "tokens", "candidates"):
            positive(name, getattr(self, name))
        if self.token_clip is not None:
            positive("token_clip", self.token_clip)
        if self.relation not in ("replace_one", "add_remove"):
            raise UsageError(
                f"relation is {self.relation!r}; it must be replace_one or add_remove."
            )

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        partitions: int = 10,
        temperature: float = 1.0,
        tokens: int = 24,
        candidates: int = 100,
        relation: Relation = "replace_one",
    ) -> Self:
        """With the clips that a claim allows for one answer, one choice or many tokens.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: delta of the claim in [0, 1); used for the tokens of free answers.
            partitions: B, the number of disjoint parts of the context.
            temperature: tau, above 0.
            tokens: T, the largest number of tokens of a free answer.
            candidates: k, the number of public tokens that are always among the choices.
            relation: "replace_one" or "add_remove".

        Returns:
            A mechanism.

        Examples:
            >>> made = InvisibleInk.calibrated(2.0, 1e-5, partitions=20)
            >>> made.clip, made.guarantee.epsilon(1e-5)
            (10.0, 2.0)
        """
        positive("epsilon", epsilon)
        unit = cls(1.0, partitions, temperature, tokens, candidates, relation)
        each = epsilon_per_choice(epsilon, delta, tokens)
        value = unit.guarantee.value
        return replace(unit, clip=epsilon / value, token_clip=each / value)

    @property
    def guarantee(self) -> BoundedRange:
        """Of one choice among answers: 4C/(B tau), or 2C/(B tau) under add_remove."""
        return self._choice(self.clip)

    def _choice(self, clip: float) -> BoundedRange:
        moved = 4 if self.relation == "replace_one" else 2
        return BoundedRange(moved * clip / (self.partitions * self.temperature), self.relation)

    @property
    def _token_clip(self) -> float:
        return self.clip if self.token_clip is None else self.token_clip

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
        return compose([self._choice(self._token_clip)] * self.tokens)

    def voters(self, shots: int) -> int:
        """One difference for each part.

        Args:
            shots: Number of examples in the context.

        Returns:
            `partitions`.
        """
        return self.partitions

    def disjoint_parts(self, shots: int) -> tuple[tuple[int, ...], ...]:
        """The parts.

        Args:
            shots: Number of examples in the context.

        Returns:
            Places of the examples of each part; empty under add_remove for more examples than
            parts, which are refused.
        """
        if self.relation == "add_remove" and shots > self.partitions:
            return ()
        return places_by_position(shots, self.partitions)

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
        """The public prompt, then one for each part: all answers, or the first token.

        Args:
            task: Renders the prompts.
            job: Context (PRIVATE) and query.
            draw: Not used.

        Returns:
            B + 1 requests.

        Raises:
            UsageError: If a part would be empty; under add_remove, if there are more examples than
                parts.
        """
        prompts = [task.prompt(part, job.query) for part in ((), *self._parts(job.context))]
        if answers := task.answers(job.query):
            return [ScoreLabels(prompt, answers, alone=True) for prompt in prompts]
        return [NextLogits(prompt, (), self.tokens, alone=True) for prompt in prompts]

    def _parts(self, context: Context) -> list[Context]:
        """By position; under add_remove one example each, and empty ones for those that lack."""
        if self.relation == "replace_one":
            return split_by_position(context, self.partitions)
        if len(context) > self.partitions:
            raise UsageError(
                f"{len(context)} examples are more than {self.partitions} partitions; under "
                "add_remove each example needs a partition of its own. Use more partitions, or "
                "the relation replace_one."
            )
        return [(row,) for row in context] + [()] * (self.partitions - len(context))

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """B + 1 scorings for each job, the public one apart; a free answer token by token.

        Args:
            task: Renders the prompts.
            jobs: Contexts (PRIVATE) and queries.
            draws: One number for each job; the noise of a free answer comes from it.
            model: Answers the requests.

        Returns:
            phi_pub and all phi_i of each job, or the generated text.
        """
        scored = [job for job in jobs if task.answers(job.query)]
        each = [self.requests(task, job, 0) for job in scored]
        public = iter(answer_total(model, task, scored, [group[:1] for group in each]))
        private = iter(answer_total(model, task, scored, [group[1:] for group in each]))
        found: list[Aggregate] = []
        for job, draw in zip(jobs, draws, strict=True):
            if answers := task.answers(job.query):
                scores = finite(np.stack([*next(public), *next(private)]))
                found.append(Vector(tuple(scores.ravel().tolist()), answers))
            else:
                found.append(self._generate(task, job, draw, model))
        return found

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        rng, clip = np.random.default_rng(draw), self._token_clip
        prompts = [task.prompt(part, job.query) for part in ((), *self._parts(job.context))]
        decoder = TokenDecoder(model, prompts)
        for _ in range(self.tokens):
            rows = np.stack(decoder.logits())
            tokens = near_top(rows[0], self.candidates, 2 * clip / self.partitions)
            exponents = self._exponents(rows[:, tokens], clip)
            decoder.add(int(tokens[gumbel_choices(exponents, 1, rng)[0]]))
            if decoder.ended:
                break
        return GeneratedText(decoder.text)

    def _exponents(self, rows: Floats, clip: float) -> Floats:
        """phi/tau of (B + 1, choices) scores, the public ones first."""
        moved = rows[1:] - rows[0]
        moved = np.clip(moved - np.median(moved, axis=1, keepdims=True), -clip, clip)
        return np.asarray((log_softmax(rows[0]) + moved.sum(0) / self.partitions)
                          / self.temperature)  # fmt: skip

    def _of(self, aggregate: Vector) -> Floats:
        rows = np.asarray(aggregate.values).reshape(self.partitions + 1, -1)
        return self._exponents(rows, self.clip)

    def release(
        self, aggregate: Vector | GeneratedText, draws: int, rng: np.random.Generator
    ) -> Outputs:
        """Answers drawn from the exponential mechanism; a generated answer as it is.

        Args:
            aggregate: Scores or a generated text of one job (PRIVATE).
            draws: Number of outputs.
            rng: Source of the noise; not used for a generated answer.

        Returns:
            `draws` outputs.
        """
        if isinstance(aggregate, GeneratedText):
            return release_unchanged(aggregate, draws)
        return Outputs(gumbel_choices(self._of(aggregate), draws, rng))

    def output_distribution(self, aggregate: Vector | GeneratedText) -> CategoricalLaw | None:
        """Probabilities of the answers.

        Args:
            aggregate: Scores or a generated text of one job (PRIVATE).

        Returns:
            softmax(phi/tau); None for a generated answer.
        """
        if isinstance(aggregate, GeneratedText):
            return None
        return softmax_distribution(self._of(aggregate))


def near_top(logits: Floats, count: int, below: float) -> npt.NDArray[np.int64]:
    """The likeliest tokens of a model that sees no example, and those that lie little below them.

    Args:
        logits: (vocabulary,) of a prompt without examples (public).
        count: k, at least 1.
        below: How far below the k-th largest logit a token may lie.

    Returns:
        (tokens,) token ids, rising; at least min(k, vocabulary).

    Examples:
        >>> near_top(np.array([0.0, 3.0, 2.5, -1.0]), 1, 0.5).tolist()
        [1, 2]
    """
    last = np.partition(logits, -min(count, logits.size))[-min(count, logits.size)]
    return np.asarray(np.flatnonzero(logits >= last - below), np.int64)
