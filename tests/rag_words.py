"""Rows and embeddings for tests of retrieval: hashed words, without a model."""

from __future__ import annotations

import hashlib
import math
import random
from functools import cache

SIZE = 512


@cache
def place(word: str) -> int:
    return int(hashlib.sha256(word.encode()).hexdigest(), 16) % SIZE


def hashed(text: str) -> list[float]:
    """Counts of the words of a text at hashed places, of length 1."""
    counts = [0.0] * SIZE
    for word in text.split():
        counts[place(word)] += 1
    size = math.sqrt(sum(count * count for count in counts)) or 1.0
    return [count / size for count in counts]


def rows(number: int, seed: int = 0) -> list[tuple[str, str]]:
    """Documents of twelve words each, without labels."""
    rng = random.Random(seed)
    return [(" ".join(f"w{rng.randrange(500)}" for _ in range(12)), "") for _ in range(number)]
