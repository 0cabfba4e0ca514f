"""How good a response is: utility on held-out queries, and ROUGE."""

from leakbound.utility.held_out import HeldOut, draw_held_out
from leakbound.utility.rouge import Rouge, rouge

__all__ = ["HeldOut", "Rouge", "draw_held_out", "rouge"]
