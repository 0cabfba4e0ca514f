"""DPFusion: a mixture of distributions within a Renyi divergence of the public one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from leakbound._check import positive
from leakbound.errors import UsageError
from leakbound.mechanisms.base import CalibratedMechanism
from leakbound.mechanisms.single import release_unchanged
from leakbound.mechanisms.tokens import TokenDecoder, finite, is_failed, log_softmax
from leakbound.mechanisms.total_calls import answer_total
from leakbound.models import Model, NextLogits, ScoreLabels
from leakbound.privacy import (
    RDP,
    Guarantee,
    compose,
    renyi_divergence,
    renyi_of_two_steps,
    renyi_value,
)
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

__all__ = ["DPFusion", "fused", "fusion_lambda"]

Floats = npt.NDArray[np.float64]
STEPS = 50  # halvings of [0, 1] for lambda: to 1e-15, about the rounding of a float near 1
ORDERS = 1 + np.geomspace(0.1, 2000.0, 96)  # that are tried for a claim; neighbours are 11 % apart


@dataclass(frozen=True, slots=True)
class DPFusion(CalibratedMechanism):
    """p = lambda p_private + (1 - lambda) p_public, for each choice with the largest lambda.

    p_private is the model's distribution with the context, p_public the one without it, from a pass
    of its own. lambda is the largest in [0, 1] with D_a(p||p_public) <= a beta and
    D_a(p_public||p) <= a beta, the Renyi divergences of order a over the whole vocabulary; no
    probability is clamped, and the first token counts like any other. One direction would not do:
    D_2((1, 0)||(.5, .5)) is ln 2, and infinite the other way round. A free answer makes up to
    `tokens` choices. Private: context, p_private, lambda. Public: query, p_public, a, beta.

    Attributes:
        beta: beta of one choice among the query's answers, in nats.
        order: a, above 1.
        temperature: Temperature of both distributions, above 0.
        tokens: Largest number of tokens of a free answer.
        token_beta: beta of each token; `beta` if None.

    Raises:
        UsageError: If a number is not positive, or the order is not above 1.

    Guarantee:
        (a, a beta)-RDP of one choice where the neighbour lacks the whole private part, and so gives
        p_public (`presence`). Under replace_one this does not hold: the distributions P and Q of
        two contexts both lie near p_public, and not that near each other. Hoelder's inequality (the
        weak triangle inequality of Renyi divergences) bounds D_b(P||Q) by
        (b - 1/s)/(b - 1) D_sb(P||p_public) + D_c(p_public||Q) with c = (b - 1/s) s/(s - 1). At
        b = a^2/(2a - 1) and s = a/b both orders are a, so one choice is
        (a^2/(2a - 1), a beta (2a - 1)/(a - 1))-RDP for any change of the context: `guarantee`. Two
        contexts that push a rare answer to opposite ends come as near to it as one likes. Tokens
        add.

    Reference:
        Thareja et al., "DP-Fusion: Token-level differentially private inference for large language
        models" (2025), arXiv 2507.04531; Mironov (CSF 2017), Proposition 11.

    Examples:
        >>> made = DPFusion(beta=0.01, order=8.0)
        >>> made.presence.describe(), made.guarantee.describe()
        ('(8, 0.08)-RDP (add_remove)', '(4.267, 0.1714)-RDP (replace_one)')
    """

    name: ClassVar[str] = "dp_fusion"
    access: ClassVar[frozenset[Access]] = frozenset({"black_box"})
    needs: ClassVar[RequestKinds] = frozenset({ScoreLabels})
    beta: float
    order: float = 8.0
    temperature: float = 1.0
    tokens: int = 24
    token_beta: float | None = None

    def __post_init__(self) -> None:
        for name in ("beta", "order", "temperature", "tokens"):
            positive(name, getattr(self, name))
        if self.token_beta is not None:
            positive("token_beta", self.token_beta)
        if self.order <= 1:
            raise UsageError(f"order is {self.order}; it must be above 1.")

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        order: float | None = None,
        temperature: float = 1.0,
        tokens: int = 24,
    ) -> Self:
        """With the beta that a claim allows for one answer, one choice or many tokens.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: delta of the claim in (0, 1).
            order: a, above 1; None for the order with the largest beta.
            temperature: Temperature of both distributions, above 0.
            tokens: Largest number of tokens of a free answer.

        Returns:
            A mechanism.

        Raises:
            UsageError: If delta is 0, at which a bounded divergence guarantees nothing.

        Examples:
            >>> made = DPFusion.calibrated(2.0, 1e-5, tokens=8)
            >>> round(made.guarantee.epsilon(1e-5), 6), round(made.beta / made.token_beta, 6)
            (2.0, 8.0)
        """
        if delta == 0:
            raise UsageError(
                "dp_fusion needs a delta above 0: a Renyi divergence of one order bounds no pure "
                "epsilon. State a delta, or use bounded_cid."
            )
        best = _best_order(epsilon, delta) if order is None else order
        beta = _beta(best, epsilon, delta)
        return cls(beta, best, temperature, tokens, beta / tokens * (1 - 1e-12))

    @property
    def guarantee(self) -> RDP:
        """Of one choice among answers, for any change of the context."""
        return self._choice(self.beta)

    @property
    def presence(self) -> RDP:
        """Of one choice among answers, where the private part is one record, present or absent."""
        return RDP(self.order, self.order * self.beta, "add_remove")

    def _choice(self, beta: float) -> RDP:
        return RDP(*renyi_of_two_steps(self.order, self.order * beta))

    @property
    def _token_beta(self) -> float:
        return self.beta if self.token_beta is None else self.token_beta

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
        return compose([self._choice(self._token_beta)] * self.tokens)

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
        """Without the context and with it: the query's answers, or the first token.

        Args:
            task: Renders the prompts.
            job: Context (PRIVATE) and query.
            draw: Not used.

        Returns:
            Two requests, the public one first.
        """
        prompts = [task.prompt(context, job.query) for context in ((), job.context)]
        if answers := task.answers(job.query):
            return [ScoreLabels(prompt, answers, alone=True) for prompt in prompts]
        return [NextLogits(prompt, (), self.tokens, alone=True) for prompt in prompts]

    def collect(
        self, task: Task, jobs: Sequence[Job], draws: Sequence[int], model: Model
    ) -> list[Aggregate]:
        """Two scorings for each job, the public one apart; a free answer token by token.

        Args:
            task: Renders the prompts.
            jobs: Contexts (PRIVATE) and queries.
            draws: One number for each job; the tokens of a free answer are drawn from it.
            model: Answers the requests.

        Returns:
            Scores without the context and then with it, or the generated text, of each job. Where
            the call with the context failed, the context says nothing.
        """
        scored = [job for job in jobs if task.answers(job.query)]
        each = [self.requests(task, job, 0) for job in scored]
        public = iter(answer_total(model, task, scored, [group[:1] for group in each]))
        private = iter(answer_total(model, task, scored, [group[1:] for group in each]))
        found: list[Aggregate] = []
        for job, draw in zip(jobs, draws, strict=True):
            if answers := task.answers(job.query):
                scores = finite(np.concatenate([*next(public), *next(private)]))
                found.append(Vector(tuple(scores.tolist()), answers))
            else:
                found.append(self._generate(task, job, draw, model))
        return found

    def _generate(self, task: Task, job: Job, draw: int, model: Model) -> GeneratedText:
        rng = np.random.default_rng(draw)
        prompts = [task.prompt(context, job.query) for context in ((), job.context)]
        decoder = TokenDecoder(model, prompts)
        for _ in range(self.tokens):
            public, private = decoder.logits()
            log_p = self._log_p(public, private, self._token_beta)
            decoder.add(int((log_p + rng.gumbel(size=log_p.size)).argmax()))
            if decoder.ended:
                break
        return GeneratedText(decoder.text)

    def _log_p(self, public: Floats, private: Floats, beta: float) -> Floats:
        """ln p of scores."""
        prior = log_softmax(public / self.temperature)
        if is_failed(private):
            return prior
        context = log_softmax(private / self.temperature)
        return fused(context, prior, fusion_lambda(context, prior, self.order, self.order * beta))

    def _probabilities(self, aggregate: Vector) -> Floats:
        public, private = np.split(np.asarray(aggregate.values), 2)
        return np.exp(self._log_p(public, private, self.beta))

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


def _beta(order: float, epsilon: float, delta: float) -> float:
    """The largest beta of one choice whose `guarantee` implies a claim."""
    at, unit = renyi_of_two_steps(order, order)
    return renyi_value(at, epsilon, delta) / unit


def _best_order(epsilon: float, delta: float) -> float:
    return float(max(ORDERS, key=lambda order: _beta(float(order), epsilon, delta)))


def fused(context: Floats, prior: Floats, lam: float) -> Floats:
    """ln of lam p_private + (1 - lam) p_public.

    Args:
        context: (vocabulary,) ln p_private (PRIVATE).
        prior: (vocabulary,) ln p_public.
        lam: Weight of p_private in [0, 1].

    Returns:
        (vocabulary,) log-probabilities.

    Examples:
        >>> np.exp(fused(np.log([1.0, 1e-9]), np.log([0.5, 0.5]), 0.5)).round(3).tolist()
        [0.75, 0.25]
    """
    if lam in (0.0, 1.0):
        return context if lam else prior
    return np.asarray(np.logaddexp(math.log(lam) + context, math.log1p(-lam) + prior))


def fusion_lambda(context: Floats, prior: Floats, order: float, bound: float) -> float:
    """The largest weight of p_private within a Renyi divergence of p_public, in both directions.

    Both divergences rise with the weight: sum p_public (1 + lambda (r - 1))^a is convex in lambda
    and level at 0.

    Args:
        context: (vocabulary,) ln p_private (PRIVATE).
        prior: (vocabulary,) ln p_public.
        order: a, above 1.
        bound: Largest divergence in nats.

    Returns:
        lambda in [0, 1] that bisection finds; it ends on the safe side.

    Examples:
        >>> fusion_lambda(np.array([0.0, -np.inf]), np.log([0.5, 0.5]), 2.0, 1.0) < 1
        True
    """

    def holds(lam: float) -> bool:
        p = fused(context, prior, lam)
        return bool(
            renyi_divergence(p, prior, order) <= bound
            and renyi_divergence(prior, p, order) <= bound
        )

    if holds(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
