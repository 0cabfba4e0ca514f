"""Objects of transformers, whose classes declare few of their attributes."""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

# a causal language model, possibly with a vision tower; and what makes its inputs
CausalModel: TypeAlias = Any
Tokenizer: TypeAlias = Any
Processor: TypeAlias = Any


def first_line(error: Exception) -> str:
    """Why a library of others failed."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def window_of(model: CausalModel) -> int:
    text = model.config.get_text_config(decoder=True)
    return int(getattr(text, "max_position_embeddings", 0) or 1 << 30)


def parameters_of(model: CausalModel) -> frozenset[str]:
    return frozenset(inspect.signature(model.forward).parameters)
