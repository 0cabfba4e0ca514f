"""How good a response is, and how much of its context it repeats."""

from leakbound.utility.held_out import HeldOut, held_out
from leakbound.utility.regurgitation import (
    DEFINITIONS,
    Counts,
    Generation,
    count_generations,
    read_generations,
)
from leakbound.utility.rouge import Rouge, rouge

__all__ = [
    "DEFINITIONS", "Counts", "Generation", "HeldOut", "Rouge", "count_generations",
    "held_out", "read_generations", "rouge",
]  # fmt: skip
