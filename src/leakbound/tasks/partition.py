"""Disjoint partitions of a context."""

from __future__ import annotations

from leakbound.errors import UsageError
from leakbound.tasks.example import Context

__all__ = ["split_by_position"]


def split_by_position(context: Context, count: int) -> list[Context]:
    """`count` parts of nearly equal size; example i goes to part i mod count.

    An example's part depends on its position only, so replacing one example changes one part: sound
    under
    `replace_one` (and under that relation only). Raises UsageError if a part would be empty.
    """
    if not 1 <= count <= len(context):
        raise UsageError(
            f"{count} partitions of {len(context)} examples leave some empty; use between 1 and "
            f"{len(context)} partitions."
        )
    return [context[i::count] for i in range(count)]
