"""How good a response is: utility on held-out queries, and ROUGE."""

from leakbound.utility.held_out import HeldOut, held_out
from leakbound.utility.rouge import Rouge, rouge

__all__ = ["HeldOut", "Rouge", "held_out", "rouge"]
