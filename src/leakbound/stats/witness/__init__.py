"""The learned witness: an e-process that learns what in a reply tells the contexts apart."""

from leakbound.stats.witness.features import ReplyFacts, ReplyFeatures
from leakbound.stats.witness.process import WitnessProcess
from leakbound.stats.witness.stored import (
    StoredReply,
    masked,
    reply_from_json,
    reply_to_json,
    shows_metadata,
)

__all__ = [
    "ReplyFacts",
    "ReplyFeatures",
    "StoredReply",
    "shows_metadata",
    "WitnessProcess",
    "masked",
    "reply_from_json",
    "reply_to_json",
]
