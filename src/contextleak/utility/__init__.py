"""How good a response is, and how much of its context it repeats."""

from contextleak.utility.regurgitation import DEFINITIONS, Counts, Generation, count_generations, read_generations
from contextleak.utility.rouge import Rouge, rouge

__all__ = ["DEFINITIONS", "Counts", "Generation", "Rouge", "count_generations", "read_generations", "rouge"]
