"""The local engine: any Hugging Face causal language model, from a folder or a hub id, on CPU or GPU."""

from contextleak.models.transformers.budget import Budget
from contextleak.models.transformers.load import load
from contextleak.models.transformers.model import TransformersModel

__all__ = ["Budget", "TransformersModel", "load"]
