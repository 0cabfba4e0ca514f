"""How good a response is: utility on held-out queries, and ROUGE."""

from leakbound.utility.at_best import at_best
from leakbound.utility.held_out import HeldOut, draw_held_out
from leakbound.utility.rouge import Rouge, rouge

__all__ = ["HeldOut", "Rouge", "at_best", "draw_held_out", "rouge"]
