"""Models answer asks. Importing this loads no torch; `open_model` does when an address needs it."""

from contextleak.models.address import open_embedder, open_model
from contextleak.models.asks import Ask, Complete, Embed, NextLogits, ScoreLabels, ScoreTokens
from contextleak.models.model import Model, require
from contextleak.models.scripted import Scripted
from contextleak.models.wrappers import Counted, Distinct, WithEmbedder

__all__ = [
    "Ask", "Complete", "Counted", "Distinct", "Embed", "Model", "NextLogits", "ScoreLabels", "ScoreTokens", "Scripted",
    "WithEmbedder", "open_embedder", "open_model", "require",
]  # fmt: skip
