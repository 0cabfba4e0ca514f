"""The learned witness: an e-process that learns which features of replies reveal the context."""

from leakbound.stats.witness.features import ReplyFacts, ReplyFeatures
from leakbound.stats.witness.process import WitnessProcess
from leakbound.stats.witness.stored import (
    StoredReply,
    masked,
    reply_from_json,
    reply_to_json,
    shows_more,
)

__all__ = [
    "ReplyFacts",
    "ReplyFeatures",
    "StoredReply",
    "shows_more",
    "WitnessProcess",
    "masked",
    "reply_from_json",
    "reply_to_json",
]
