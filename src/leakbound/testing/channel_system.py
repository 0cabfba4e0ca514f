"""A system that answers in free text and leaks through one channel of its replies."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from leakbound.tasks import Context
from leakbound.testing.channels import CHANNELS, RATE_IN, RATE_OUT, reply_pairs

__all__ = ["ChannelSystem"]

MANY = 1 << 30  # replies; nobody asks for more


class ChannelSystem:
    """Writes letters that never repeat the canary; one channel is on more often if it is there.

    A canary is there if a text of the context begins with what the query quotes.

    Args:
        kind: Name of a channel in `CHANNELS`.
        seed: Seed of the replies.
        rates: Probability that the channel is on with the canary and without it; the defaults have
            a true epsilon of ln 3.
    """

    def __init__(
        self, kind: str, seed: int, rates: tuple[float, float] = (RATE_IN, RATE_OUT)
    ) -> None:
        self._rng, self._rates = np.random.default_rng([seed, 1]), rates
        self._replies = reply_pairs(CHANNELS[kind], MANY, seed, (1.0, 0.0))

    def answer(self, context: Context, query: str) -> Mapping[str, object]:
        """A reply with its metadata.

        Args:
            context: The examples.
            query: A query that quotes the beginning of a canary.

        Returns:
            Text, seconds, tokens, finish reason and tool calls.
        """
        quoted = query.split('"')[1]
        there = any(row.text.startswith(quoted) for row in context)
        on, off = next(self._replies)
        reply = on if self._rng.random() < self._rates[0 if there else 1] else off
        return {
            "text": reply.text, "seconds": reply.seconds, "tokens": reply.tokens,
            "finish_reason": reply.finish_reason, "tool_calls": list(reply.tool_calls),
        }  # fmt: skip
