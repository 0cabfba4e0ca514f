"""Models answer requests. Importing this package loads no torch; `open_model` does if needed."""

from typing import TYPE_CHECKING

from leakbound._sources import import_when_used

if TYPE_CHECKING:
    from leakbound.models.address import Local, open_embedder, open_model
    from leakbound.models.cache import Answers, Cached, Unopened
    from leakbound.models.content import Chat, ChatMessage
    from leakbound.models.model import (
        Counted,
        Distinct,
        Model,
        Priced,
        Scripted,
        WithEmbedder,
        WithJudge,
        require,
    )
    from leakbound.models.openai import Capabilities, Dialect, Endpoint
    from leakbound.models.request import (
        Complete,
        Embed,
        NextLogits,
        Request,
        ScoreLabels,
        ScoreTokens,
    )

__all__ = [
    "Answers", "Cached", "Capabilities", "Chat", "ChatMessage", "Complete", "Counted", "Dialect",
    "Distinct", "Embed", "Endpoint", "Local", "Model", "NextLogits", "Priced",
    "Request", "ScoreLabels", "ScoreTokens", "Scripted", "Unopened", "WithEmbedder",
    "WithJudge", "open_embedder", "open_model", "require",
]  # fmt: skip

import_when_used(__name__)
