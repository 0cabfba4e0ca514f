"""The local engine: any Hugging Face causal language model, from a folder or a hub id."""

from leakbound.models.local.engine.budget import Budget
from leakbound.models.local.loading import load
from leakbound.models.local.model import TransformersModel

__all__ = ["Budget", "TransformersModel", "load"]
