"""The power of a test of random guessing, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakbound.stats import Power, cut


def power_lines(powers: Sequence[tuple[float, Power]], method: str) -> Iterator[str]:
    """How probably attacks of known accuracies reject random guessing."""
    if powers:
        yield f"Power of {method} with so many trials, two-sided, against an attack that is right"
    for accuracy, one in powers:
        yield f"  {accuracy:.0%} of the time: {cut(one.safe)} at least ({one.kind})"
