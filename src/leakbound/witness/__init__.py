"""The learned witness: an e-process that learns which features of replies reveal the context."""

from leakbound.witness.features import ReplyFacts, ReplyFeatures
from leakbound.witness.process import WitnessProcess
from leakbound.witness.stored import (
    StoredReply,
    mask_reply,
    reply_from_json,
    reply_to_json,
    shows_more,
)

__all__ = [
    "ReplyFacts", "ReplyFeatures", "StoredReply", "WitnessProcess", "mask_reply",
    "reply_from_json", "reply_to_json", "shows_more",
]  # fmt: skip
