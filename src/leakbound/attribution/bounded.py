"""Bounded CID as a distribution of tokens: lambda is chosen separately for each token.

Reference: CI, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.attribution.measure import TokenDistribution
from leakbound.attribution.spans import Ids
from leakbound.mechanisms.parts.mixture import largest_lambda

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BoundedTokenDistribution(TokenDistribution):
    """For each token, the largest lambda in [0, lam] with |ln p - ln p_prior| <= bound.

    p_prior is p without the context. The maximum is over all tokens that are not banned. If a span
    is ablated, lambda is chosen again from the remaining context, as the mechanism would. The
    influence of the whole context is at most `bound`, and that of any span at most twice that.

    Attributes:
        bound: Largest influence of the context on one token, in nats.
    """

    bound: float = 1.0

    @property
    def is_model_own(self) -> bool:
        """Never the model's own distribution."""
        return False

    def lambdas(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """lambda of each token.

        Args:
            context: (tokens, vocabulary) logits with the context.
            prior: (tokens, vocabulary) logits without it.
            first: Position of the first row in the response.

        Returns:
            (tokens,) numbers in [0, lam].
        """
        rows = enumerate(zip(context, prior, strict=True))
        return np.array([self._lambda(*pair, self.banned_at(first + row)) for row, pair in rows])

    def _lambda(self, context: Floats, prior: Floats, banned: Ids) -> float:
        with_context, without = (np.delete(logits, list(banned)) for logits in (context, prior))
        return largest_lambda(with_context, without, self.bound, self.lam, self.temperature)

    def log_probs(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """ln p of every token of the vocabulary, each row at its own lambda."""
        lambdas = self.lambdas(context, prior, first)
        rows = [
            self._at(float(lam)).log_probs(
                context[row : row + 1], prior[row : row + 1], first + row
            )
            for row, lam in enumerate(lambdas)
        ]
        return np.concatenate(rows)

    def _at(self, lam: float) -> TokenDistribution:
        return TokenDistribution(
            lam, self.temperature, self.banned, self.banned_early, self.min_tokens
        )
