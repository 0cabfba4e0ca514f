"""Texts of answers, and how much of one text another repeats."""

from __future__ import annotations

from collections.abc import Sequence

from leakbound.tasks import Outputs


def output_texts(outputs: Outputs) -> list[str]:
    """(draws,) the chosen text of each, or the keywords that were released together; else ""."""
    if outputs.picked is not None and outputs.points is None:
        return [" ".join(outputs.choices[i] for i in row) for row in outputs.picked]
    return [outputs.choices[i] if i < len(outputs.choices) else "" for i in outputs.answers]


def share_in_order(wanted: Sequence[str], found: Sequence[str]) -> float:
    """Length of the longest common subsequence over that of the first sequence (ROUGE-L recall).

    Examples:
        >>> share_in_order(["a", "b", "c"], ["c", "a", "x", "b"])
        0.6666666666666666
    """
    places: dict[str, int] = {}
    for at, part in enumerate(wanted):
        places[part] = places.get(part, 0) | 1 << at
    every = left = (1 << len(wanted)) - 1
    for part in found:  # bit-parallel (Hyyrö 2004)
        hit = left & places.get(part, 0)
        left = (left + hit | left - hit) & every
    return (len(wanted) - left.bit_count()) / max(1, len(wanted))
