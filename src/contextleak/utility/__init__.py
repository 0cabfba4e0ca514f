"""How good a response is, and how much of its context it repeats."""

from contextleak.utility.bertscore import bertscore_f1
from contextleak.utility.factkb import factkb
from contextleak.utility.held_out import HeldOut, held_out
from contextleak.utility.regurgitation import DEFINITIONS, Counts, Generation, count_generations, read_generations
from contextleak.utility.rouge import Rouge, rouge

__all__ = [
    "DEFINITIONS", "Counts", "Generation", "HeldOut", "Rouge", "bertscore_f1", "count_generations", "factkb", "held_out", "read_generations",
    "rouge",
]  # fmt: skip
