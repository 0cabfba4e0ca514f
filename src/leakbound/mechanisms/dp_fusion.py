"""DPFusion: a mixture of distributions within a Renyi divergence of the public one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from leakbound._check import positive, whole
from leakbound.errors import UsageError
from leakbound.mechanisms.parts.base import CalibratedMechanism
from leakbound.mechanisms.parts.decoding import PairDecoding
from leakbound.mechanisms.parts.exponential import largest_weight
from leakbound.mechanisms.parts.tokens import log_softmax
from leakbound.privacy import RDP, renyi_divergence, renyi_of_two_steps, renyi_value
from leakbound.stats.arrays import Floats

STEPS = 50  # halvings of [0, 1] for lambda; reach 1e-15, about the rounding of a float near 1
ORDERS = 1 + np.geomspace(0.1, 2000.0, 96)  # orders tried for a claim; neighbours are 11 % apart


@dataclass(frozen=True, slots=True)
class DPFusion(PairDecoding, CalibratedMechanism):
    """Draws from lambda p_private + (1 - lambda) p_public, with the largest lambda that is allowed.

    p_private is the model's distribution with the context. p_public is the one without it, from a
    separate pass. p is their mixture. For each choice, lambda is the largest value in [0, 1] with
    D_a(p||p_public) <= a beta and D_a(p_public||p) <= a beta. These are the Renyi divergences of
    order a over the whole vocabulary. No probability is clamped, and the first token counts like
    any other. Both directions are needed: D_2((1, 0)||(.5, .5)) is ln 2, but the reverse is
    infinite. A free answer makes up to `tokens` choices. Private: context, p_private, lambda.
    Public: query, p_public, a, beta.

    Attributes:
        beta: beta of one choice among the query's answers, in nats.
        order: a, above 1.
        temperature: Temperature of both distributions, above 0.
        tokens: Largest number of tokens of a free answer.
        token_beta: beta of each token; `beta` if None.

    Guarantee:
        One choice is (a, a beta)-RDP if the neighbour lacks the whole private part and so gives
        p_public (`presence`). Under replace_one this does not hold: the distributions P and Q of
        two contexts are both close to p_public, but not as close to each other. Hoelder's
        inequality (the weak triangle inequality of Renyi divergences) bounds D_b(P||Q) by
        (b - 1/s)/(b - 1) D_sb(P||p_public) + D_c(p_public||Q) with c = (b - 1/s) s/(s - 1). At
        b = a^2/(2a - 1) and s = a/b both orders equal a, so one choice is
        (a^2/(2a - 1), a beta (2a - 1)/(a - 1))-RDP for any change of the context (`guarantee`). Two
        contexts that push a rare answer to opposite ends come arbitrarily close to this bound. The
        losses of tokens add. Proof: docs/mechanisms/dp_fusion.md.

    Reference:
        Thareja et al., "DP-Fusion: Token-level differentially private inference for large language
        models" (2025), arXiv 2507.04531; Mironov (CSF 2017), Proposition 11.

    Examples:
        >>> made = DPFusion(beta=0.01, order=8.0)
        >>> made.presence.describe(), made.guarantee.describe()
        ('(8, 0.08)-RDP (add_remove)', '(4.267, 0.1714)-RDP (replace_one)')
    """

    exactness = PairDecoding.exactness
    name: ClassVar[str] = "dp_fusion"
    beta: float
    order: float = 8.0
    temperature: float = 1.0
    tokens: int = 24
    token_beta: float | None = None

    def __post_init__(self) -> None:
        for name in ("beta", "order", "temperature"):
            positive(name, getattr(self, name))
        whole("tokens", self.tokens)
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
        """The mechanism with the beta that a claim allows for one answer, of one or many choices.

        Args:
            order: a, above 1; None for the order with the largest beta.

        Raises:
            UsageError: If delta is 0, where a bounded divergence guarantees nothing.

        Examples:
            >>> made = DPFusion.calibrated(2.0, 1e-5, tokens=8)
            >>> round(made.guarantee.epsilon(1e-5), 6), round(made.beta / made.token_beta, 6)
            (2.0, 8.0)
        """
        if delta == 0:
            raise UsageError(
                "dp_fusion needs a delta above 0: a Renyi divergence of one order does not bound "
                "pure epsilon. State a delta, or use bounded_cid."
            )
        best = order
        if best is None:
            best = float(max(ORDERS, key=lambda one: _beta(float(one), epsilon, delta)))
        beta = _beta(best, epsilon, delta)
        return cls(beta, best, temperature, tokens, beta / tokens * (1 - 1e-12))

    @property
    def guarantee(self) -> RDP:
        """Guarantee of one choice among answers, for any change of the context."""
        return self._choice(self.beta)

    @property
    def presence(self) -> RDP:
        """Guarantee of one choice, where the private part is one record, present or absent."""
        return RDP(self.order, self.order * self.beta, "add_remove")

    def _choice(self, beta: float) -> RDP:
        return RDP(*renyi_of_two_steps(self.order, self.order * beta))

    @property
    def _token_guarantee(self) -> RDP:
        return self._choice(self.beta if self.token_beta is None else self.token_beta)

    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        beta = self.token_beta if free and self.token_beta is not None else self.beta
        with_context = log_softmax(context / self.temperature)
        without = log_softmax(prior / self.temperature)
        lam = fusion_lambda(with_context, without, self.order, self.order * beta)
        return fuse(with_context, without, lam)


def _beta(order: float, epsilon: float, delta: float) -> float:
    """The largest beta of one choice whose `guarantee` implies a claim."""
    at, unit = renyi_of_two_steps(order, order)
    return renyi_value(at, epsilon, delta) / unit


def fuse(context: Floats, prior: Floats, lam: float) -> Floats:
    """ln of lam p_private + (1 - lam) p_public."""
    if lam in (0.0, 1.0):
        return context if lam else prior
    return np.asarray(np.logaddexp(math.log(lam) + context, math.log1p(-lam) + prior))


def fusion_lambda(context: Floats, prior: Floats, order: float, bound: float) -> float:
    """The largest weight of p_private within a Renyi divergence of p_public, in both directions.

    Both divergences increase with the weight: sum p_public (1 + lambda (r - 1))^a is convex in
    lambda, with slope 0 at 0.
    """

    def holds(lam: float) -> bool:
        p = fuse(context, prior, lam)
        return bool(
            renyi_divergence(p, prior, order) <= bound
            and renyi_divergence(prior, p, order) <= bound
        )

    return largest_weight(holds, 1.0, STEPS)
