"""ContextInfluenceDecoding and BoundedCID: decoding with limited context influence (CI, 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from leakbound._check import at_least, positive, whole
from leakbound.mechanisms.parts.decoding import PairDecoding
from leakbound.mechanisms.parts.exponential import largest_lambda, mix_logits
from leakbound.privacy import Guarantee, NonPrivate, PureDP, share_down
from leakbound.stats.arrays import Floats
from leakbound.tasks import Query, Task


@dataclass(frozen=True, slots=True)
class ContextInfluenceDecoding(PairDecoding):
    """p proportional to exp[(lam logits with the context + (1 - lam) logits without)/T].

    Attributes:
        temperature: T, above 0.
        tokens: Largest number of tokens of a free answer.
        lam: Weight of the context, at least 0.

    Guarantee:
        0-DP under any relation at lam = 0, where the context is not used. None otherwise.

    Reference:
        CI Definition 3.4.
    """

    exactness = PairDecoding.exactness
    name: ClassVar[str] = "context_influence_decoding"
    temperature: float = 1.0
    tokens: int = 24
    lam: float = 1.0

    def __post_init__(self) -> None:
        at_least("lam", self.lam, 0.0)
        positive("temperature", self.temperature)
        whole("tokens", self.tokens)

    @property
    def guarantee(self) -> Guarantee:
        """0-DP at lam = 0; none otherwise."""
        return PureDP(0.0) if self.lam == 0 else NonPrivate()

    def cost(self, task: Task, query: Query) -> Guarantee:
        """Guarantee of one choice. A free answer has the same: 0-DP at lam = 0, else none."""
        return self.guarantee

    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        return mix_logits(context, prior, self.lam, self.temperature)


@dataclass(frozen=True, slots=True)
class BoundedCID(PairDecoding):
    """Uses the largest lam in [0, largest] with |ln(p/p_prior)| <= epsilon/2 everywhere.

    lam is chosen anew for each choice. A free answer makes up to `tokens` choices of epsilon/tokens
    each.

    Attributes:
        temperature: T, above 0.
        tokens: Largest number of tokens of a free answer.
        epsilon: epsilon of one answer.
        largest: Largest weight of the context.

    Guarantee:
        epsilon-DP for any change of the context, stated under replace_one. Neighbouring contexts
        stay within epsilon/2 of the same prior. The loss of a pair reaches epsilon only if the two
        contexts push in opposite directions. Proof: docs/mechanisms/bounded_cid.md.

    Reference:
        CI Algorithm 1.
    """

    exactness = PairDecoding.exactness
    name: ClassVar[str] = "bounded_cid"
    temperature: float = 1.0
    tokens: int = 24
    epsilon: float = 1.0
    largest: float = 1.5

    def __post_init__(self) -> None:
        for name in ("epsilon", "largest", "temperature"):
            positive(name, getattr(self, name))
        whole("tokens", self.tokens)

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        largest: float = 1.5,
        temperature: float = 1.0,
        tokens: int = 24,
    ) -> Self:
        """The mechanism for a claim about one answer, of one choice or of many tokens.

        Args:
            epsilon: epsilon of the claim, above 0.
            delta: Not used: the guarantee is pure.
        """
        return cls(temperature, tokens, epsilon, largest)

    @property
    def guarantee(self) -> PureDP:
        """epsilon-DP of one choice among answers."""
        return PureDP(self.epsilon)

    @property
    def _token_guarantee(self) -> PureDP:
        return PureDP(share_down(self.epsilon, self.tokens))

    def _log_p(self, context: Floats, prior: Floats, free: bool) -> Floats:
        return self.log_p(context, prior, self.tokens if free else 1)

    def log_p(self, context: Floats, prior: Floats, choices: int = 1) -> Floats:
        """(vocabulary,) log-probabilities of one of so many choices, from the logits with the
        context (PRIVATE) and without it."""
        bound = self.epsilon / choices / 2
        lam = largest_lambda(context, prior, bound, self.largest, self.temperature)
        return mix_logits(context, prior, lam, self.temperature)
