"""Disjoint partitions of a context."""

from __future__ import annotations

from leakbound.errors import UsageError
from leakbound.tasks.example import Context

__all__ = ["places_by_position", "split_by_position"]


def places_by_position(shots: int, count: int) -> tuple[tuple[int, ...], ...]:
    """Places of the examples of each part; example i goes to part i mod `count`.

    Args:
        shots: Number of examples.
        count: Number of parts, at least 1.

    Returns:
        `count` tuples of places, from 0.

    Examples:
        >>> places_by_position(5, 2)
        ((0, 2, 4), (1, 3))
    """
    return tuple(tuple(range(i, shots, count)) for i in range(count))


def split_by_position(context: Context, count: int) -> list[Context]:
    """Disjoint parts of nearly equal size; example i goes to part i mod `count`.

    Args:
        context: The examples (PRIVATE).
        count: Number of parts, at least 1.

    Returns:
        `count` parts, none of them empty.

    Raises:
        UsageError: If a part would be empty.

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
