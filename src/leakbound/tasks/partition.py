"""Disjoint partitions of a context."""

from __future__ import annotations

from typing import Literal

import numpy as np

from leakbound.errors import UsageError
from leakbound.tasks.example import Context

Sampling = Literal["position", "poisson"]
COINS = 3  # names these draws among those of a job


def places_by_position(shots: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Places of the examples of each part; example i goes to part i mod `count`."""
    return tuple(tuple(range(i, shots, count)) for i in range(count))


def split_by_position(context: Context, count: int) -> list[Context]:
    """Disjoint parts of nearly equal size; example i goes to part i mod `count`.

    Guarantee:
        Replacing one example changes one part, because its part depends on its position only. Under
        `add_remove` every later example would move, so no guarantee under that relation may rest on
        this split unless each part holds one example.

    Examples:
        >>> from leakbound.tasks import as_context
        >>> rows = as_context([("a", "x"), ("b", "y"), ("c", "x")])
        >>> [[row.input for row in part] for part in split_by_position(rows, 2)]
        [['a', 'c'], ['b']]
    """
    if not 1 <= count <= len(context):
        raise UsageError(
            f"{count} partitions of {len(context)} examples leave some empty; use between 1 and "
            f"{len(context)} partitions."
        )
    parts = places_by_position(len(context), count)
    return [tuple(context[i] for i in part) for part in parts]


def poisson_places(shots: int, count: int, draw: int) -> tuple[tuple[int, ...], ...]:
    """Places of the examples of each part, drawn one part after the other from what is left.

    Reference: CL, Algorithm 3.

    Examples:
        >>> parts = poisson_places(6, 3, draw=1)
        >>> len(parts), len({place for part in parts for place in part}) <= 6
        (3, True)
    """
    rng, rest, parts = np.random.default_rng([draw, COINS]), list(range(shots)), []
    for _ in range(count):
        rate = min(1.0, shots / count / len(rest)) if rest else 0.0
        chosen = rng.random(len(rest)) < rate
        parts.append(tuple(place for place, taken in zip(rest, chosen, strict=True) if taken))
        rest = [place for place, taken in zip(rest, chosen, strict=True) if not taken]
    return tuple(parts)


def split(context: Context, count: int, draw: int, sampling: Sampling) -> list[Context]:
    """Disjoint parts of examples by position, or drawn by coins ("poisson").

    Guarantee: Which part a place falls into depends on the number of examples and on coins alone.
    So for every outcome of the coins, replacing one example changes one part at most, and what is
    proven of fixed parts under `replace_one` holds. Nothing is gained over fixed parts: nearly
    every example stands in a part (all but 7.5 % of 20 in 10 parts), so no amplification by
    sampling is claimed. Nothing is proven under `add_remove`, where the rates, and with them the
    parts of all other examples, depend on the number of examples.
    Reference: CL, Algorithm 3.
    """
    if sampling == "position":
        return split_by_position(context, count)
    places = poisson_places(len(context), count, draw)
    return [tuple(context[at] for at in part) for part in places]
