"""Model addresses of the command line:

`pocket`, `pocket-vision`, `hf/<folder or hub id>`, `openai/<model>`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass

from leakbound.errors import TargetError, UsageError
from leakbound.models.model import Model
from leakbound.models.openai import Endpoint, open_endpoint

__all__ = ["ADDRESSES", "Local", "open_embedder", "open_model"]

ADDRESSES = {
    "pocket": "the small model shipped with this package",
    "pocket-vision": "the small model that names images, shipped with this package",
    "hf/<folder or id>": "any Hugging Face causal or image-text-to-text model",
    "openai/<model>": "a model behind an OpenAI-compatible server (--base-url)",
}


@dataclass(frozen=True, slots=True)
class Local:
    """How a model on this machine is loaded.

    memory: bytes that the process (on a GPU: the model and what it computes) may take at its peak;
    None: half of what is free.
    dtype: auto (float32 on a CPU, bfloat16 on a GPU), float32, bfloat16 or float16; device: auto,
    cpu or cuda.
    """

    memory: int | None = None
    dtype: str = "auto"
    device: str = "auto"


def open_model(
    address: str,
    trust_remote_code: bool = False,
    endpoint: Endpoint | None = None,
    local: Local | None = None,
) -> Model:
    """The model at an address; code that a model brings is run only with `trust_remote_code`.

    Raises UsageError for a form that is not known, TargetError for a model that cannot be had.
    """
    kind, _, rest = address.partition("/")
    if kind == "openai" and rest:
        return open_endpoint(rest, endpoint or Endpoint())
    if address not in ("pocket", "pocket-vision") and (kind != "hf" or not rest):
        raise UsageError(
            f"the model address {address!r} is not known; it must be one of "
            f"{', '.join(ADDRESSES)}. "
            "A local folder is written hf/./folder."
        )
    if (
        importlib.util.find_spec("torch") is None
        or importlib.util.find_spec("transformers") is None
    ):
        raise TargetError(
            "local models need torch and transformers; install them with: pip install "
            "'leakbound[local]'."
        )
    if address == "pocket":
        from leakbound.models.pocket import load_pocket

        return load_pocket(**asdict(local or Local()))
    if address == "pocket-vision":
        from leakbound.models.pocket import load_pocket_vision

        return load_pocket_vision(**asdict(local or Local()))
    from leakbound.models.local import load

    return load(rest, name=address, trust_remote_code=trust_remote_code, **asdict(local or Local()))


def open_embedder(address: str) -> Model:
    """The sentence-transformers model at an id or folder (all-MiniLM-L6-v2 is a good one)."""
    if importlib.util.find_spec("sentence_transformers") is None:
        raise TargetError(
            "sentence embeddings need sentence-transformers; install it with: pip install "
            "'leakbound[embed]'."
        )
    from leakbound.models.local.embedder import load_embedder

    return load_embedder(address)
