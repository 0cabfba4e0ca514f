"""The learned witness: an e-process that learns what in a reply tells the contexts apart."""

from leakbound.stats.witness.features import ReplyFacts
from leakbound.stats.witness.process import WitnessProcess

__all__ = ["ReplyFacts", "WitnessProcess"]
