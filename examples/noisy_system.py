"""A system whose noise hides a single example: each answer satisfies ε = 1.

leakbound audit --system python:examples/noisy_system.py:answer --pairs 40
"""

from __future__ import annotations

import random

from leakbound import Example

EPSILON = 1.0  # one example changes the count by at most 1
NOISE = random.Random(2)  # seeded so that an audit can be repeated; in use, random.SystemRandom()


def answer(context: tuple[Example, ...], query: str) -> str:
    """Yes or no to a query with a quoted text: do examples hold it, by a count with noise?"""
    quoted = query.split('"')[1::2]
    count = sum(any(text in row.text for text in quoted) for row in context)
    noise = NOISE.expovariate(EPSILON) - NOISE.expovariate(EPSILON)  # Laplace noise
    return "yes" if count + noise > 0.5 else "no"
