"""Model addresses of the command line: `pocket`, `hf/<folder or hub id>`."""

from __future__ import annotations

import importlib.util

from contextleak.errors import TargetError, UsageError
from contextleak.models.model import Model

__all__ = ["ADDRESSES", "open_embedder", "open_model"]

ADDRESSES = {
    "pocket": "the small model shipped with this package",
    "hf/<folder or id>": "any Hugging Face causal language model",
}


def open_model(address: str) -> Model:
    """The model at an address. Raises UsageError for a form that is not known, TargetError for one that cannot be had."""
    kind, _, rest = address.partition("/")
    if address != "pocket" and (kind != "hf" or not rest):
        raise UsageError(
            f"the model address {address!r} is not known; it must be one of {', '.join(ADDRESSES)}. "
            "A local folder is written hf/./folder."
        )
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise TargetError(
            "local models need torch and transformers; install them with: pip install 'contextleak[local]'."
        )
    if address == "pocket":
        from contextleak.models.pocket import load_pocket

        return load_pocket()
    from contextleak.models.transformers import load

    return load(rest, name=address)


def open_embedder(address: str) -> Model:
    """The sentence-transformers model at an id or folder (all-MiniLM-L6-v2 is a good one)."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise TargetError(
            "sentence embeddings need sentence-transformers; install it with: pip install 'contextleak[embed]'."
        )
    from contextleak.models.transformers.embedder import load_embedder

    return load_embedder(address)
