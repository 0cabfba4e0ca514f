"""Disjoint partitions of a context."""

from __future__ import annotations

from contextleak.errors import UsageError
from contextleak.icl.exemplar import Context

__all__ = ["split_by_position"]


def split_by_position(context: Context, count: int) -> list[Context]:
    """`count` parts of nearly equal size; exemplar i goes to part i mod count.

    An exemplar's part depends on its position only, so replacing one exemplar changes one part: sound under
    `replace_one` (and under that relation only). Raises UsageError if a part would be empty.
    """
    if not 1 <= count <= len(context):
        raise UsageError(
            f"{count} partitions of {len(context)} exemplars leave some empty; use between 1 and {len(context)} partitions."
        )
    return [context[i::count] for i in range(count)]
