"""Randomised response: an honest answer that shows a single canary, within a claim."""

from __future__ import annotations

from hashlib import sha256


def says_yes(copies: int, text: str, right: float = 2 / 3, often: int = 3) -> bool:
    """Answer whether a canary is in a context.

    Args:
        copies: How often it stands there.
        text: Decides the coin: the query, or the canary.
        right: Probability of the right answer about one copy or none, so that epsilon is
            log(right / (1 - right)).
        often: From so many copies on, as in a control, the answer is right.

    Returns:
        Whether the answer is yes.
    """
    coin = int.from_bytes(sha256(text.encode()).digest()[:8]) / 2**64 < right
    return copies >= often or (copies > 0) == coin
