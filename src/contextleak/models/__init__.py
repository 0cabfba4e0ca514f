"""Models answer asks. Importing this loads no torch; `open_model` does when an address needs it."""

from contextleak.models.address import Local, open_embedder, open_model
from contextleak.models.asks import Ask, Complete, Embed, NextLogits, ScoreLabels, ScoreTokens
from contextleak.models.cache import Answers, Cached, Unopened
from contextleak.models.model import Model, require
from contextleak.models.openai import Capabilities, Endpoint
from contextleak.models.scripted import Scripted
from contextleak.models.wrappers import Counted, Distinct, WithEmbedder

__all__ = [
    "Answers", "Ask", "Cached", "Capabilities", "Complete", "Counted", "Distinct", "Embed", "Endpoint", "Model", "Local", "NextLogits", "ScoreLabels", "ScoreTokens", "Scripted", "Unopened",
    "WithEmbedder", "open_embedder", "open_model", "require",
]  # fmt: skip
