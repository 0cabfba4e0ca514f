"""The claim of random guessing in an audit: who may test it, and what a test of it has shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.stats import cut

if TYPE_CHECKING:
    pass

UNREJECTED = "Random guessing is not rejected, which does not show that no attack does better"
GOOD = 0.8  # power from which a plan is usually called sufficient


def unshown_sentence(powers: Sequence[tuple[float, float]]) -> str:
    """What a test that has not rejected random guessing leaves open."""
    if not powers:
        return f"{UNREJECTED}: the power of this test is not known for this design."
    weak = [row for row in powers if row[1] < GOOD]
    strong = [row for row in powers if row[1] >= GOOD]
    told = [_chance(*row) for row in (*weak[-1:], *strong[:1])]
    return f"{UNREJECTED}: so many trials reject {', and '.join(told)}."


def _chance(accuracy: float, power: float) -> str:
    return (
        f"an attack that is right {accuracy:.0%} of the time with a probability of at least "
        f"{cut(power)}"
    )
