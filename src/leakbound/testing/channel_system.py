"""A system that answers in free text and leaks through one channel of its replies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from leakbound.tasks import Context
from leakbound.testing.channels import CHANNELS, RATE_IN, RATE_OUT, reply_pairs

MANY = 1 << 30  # replies; nobody asks for more


class ChannelSystem:
    """Writes letters that never repeat the canary; one channel is on more often if it is there.

    A canary is there if a text of the context begins with what the query quotes.
    """

    def __init__(
        self, kind: str, seed: int, rates: tuple[float, float] = (RATE_IN, RATE_OUT)
    ) -> None:
        self._rng, self._rates = np.random.default_rng([seed, 1]), rates
        self._replies = reply_pairs(CHANNELS[kind], MANY, seed, (1.0, 0.0))

    def answer(self, context: Context, query: str) -> Mapping[str, object]:
        """A reply with its metadata."""
        quoted = query.split('"')[1]
        there = any(row.text.startswith(quoted) for row in context)
        on, off = next(self._replies)
        reply = on if self._rng.random() < self._rates[0 if there else 1] else off
        return {
            "text": reply.text, "seconds": reply.seconds, "tokens": reply.tokens,
            "finish_reason": reply.finish_reason, "tool_calls": list(reply.tool_calls),
        }  # fmt: skip
