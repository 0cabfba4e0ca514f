"""Models answer requests. Importing this package loads no torch; `open_model` does if needed."""

from leakbound.models.address import Local, open_embedder, open_model
from leakbound.models.cache import Answers, Cached, Unopened
from leakbound.models.content import Chat, ChatMessage
from leakbound.models.model import (
    Counted,
    Distinct,
    Limited,
    Model,
    Priced,
    Scripted,
    WithEmbedder,
    WithJudge,
    may_change,
    require,
)
from leakbound.models.openai import Capabilities, Dialect, Endpoint
from leakbound.models.request import Complete, Embed, NextLogits, Request, ScoreLabels, ScoreTokens

__all__ = [
    "Answers", "Cached", "Capabilities", "Chat", "ChatMessage", "Complete", "Counted", "Dialect",
    "Distinct", "Embed", "Endpoint", "Limited", "Local", "Model", "NextLogits", "Priced",
    "Request", "ScoreLabels", "ScoreTokens", "Scripted", "Unopened", "WithEmbedder",
    "WithJudge", "may_change", "open_embedder", "open_model", "require",
]  # fmt: skip
