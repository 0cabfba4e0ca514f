"""Bounded CID (CI Algorithm 1) as a law of tokens:

lambda is chosen anew for every token, so that the context stays within a bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.attribution.measure import Law
from leakbound.attribution.spans import Ids
from leakbound.mechanisms.mixture import bounded_lambda

__all__ = ["BoundedLaw"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BoundedLaw(Law):
    """For every token the largest lambda in [0, lam] with |ln p - ln p without the context| <=
    bound over all tokens not banned.

    With a span removed, lambda is chosen anew from what is left, as the mechanism would: tau of the
    whole context is at most
    `bound`, and tau of any span at most twice that.
    """

    bound: float = 1.0

    @property
    def plain(self) -> bool:
        """Never the model's own law."""
        return False

    def lams(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """(tokens,) lambda of each, from (tokens, vocabulary) logits with and without the context."""
        rows = zip(context, prior, strict=True)
        return np.array([self._lam(*pair, self.bans(first + row)) for row, pair in enumerate(rows)])

    def _lam(self, context: Floats, prior: Floats, banned: Ids) -> float:
        with_context, without = (np.delete(logits, list(banned)) for logits in (context, prior))
        return bounded_lambda(with_context, without, self.bound, self.lam, self.temperature)

    def table(self, context: Floats, prior: Floats, first: int = 0) -> Floats:
        """(tokens, vocabulary) ln p, each row at its own lambda."""
        rows = zip(self.lams(context, prior, first), context, prior, strict=True)
        return np.concatenate([
            Law(lam, self.temperature, self.banned, self.early, self.least).table(c[None], p[None], first + row)
            for row, (lam, c, p) in enumerate(rows)
        ])  # fmt: skip
