"""Model addresses: `pocket`, `pocket-vision`, `hf/<folder or hub id>`, `openai/<model>`."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, dataclass
from typing import cast

from leakbound._catalogue import opener_of, schemes
from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError
from leakbound.models.model import Model
from leakbound.models.openai import Endpoint, open_endpoint

__all__ = [
    "ADDRESSES",
    "BUNDLED",
    "Local",
    "is_address",
    "lacks_torch",
    "open_embedder",
    "open_model",
]

ADDRESSES = {
    "pocket": "the small model shipped with this package",
    "pocket-vision": "the small model that names images, shipped with this package",
    "hf/<folder or id>": "any Hugging Face causal or image-text-to-text model",
    "openai/<model>": "a model behind an OpenAI-compatible server (--base-url)",
}


BUNDLED = ("pocket", "pocket-vision")  # models that come with this package


@dataclass(frozen=True, slots=True)
class Local:
    """How a model on this machine is loaded.

    Attributes:
        memory: Bytes that the process (on a GPU: the model and what it computes) may take at its
            peak; None for half of what is free.
        dtype: "auto" (float32 on a CPU, bfloat16 on a GPU), "float32", "bfloat16" or "float16".
        device: "auto", "cpu" or "cuda".
        label_scores: What makes one score of the log-probabilities of a label's tokens: "sum",
            "mean" (labels of several lengths are on a par) or "first_token".
    """

    memory: int | None = None
    dtype: str = "auto"
    device: str = "auto"
    label_scores: str = "sum"


def open_model(
    address: str,
    trust_remote_code: bool = False,
    endpoint: Endpoint | None = None,
    local: Local | None = None,
) -> Model:
    """Open the model at an address.

    Args:
        address: One of the forms in `ADDRESSES`.
        trust_remote_code: Whether code that a model brings may run.
        endpoint: How an `openai/...` model is reached; None for OpenAI's own host.
        local: How another model is loaded; None for the defaults.

    Returns:
        The model. An endpoint is not contacted yet.

    Raises:
        UsageError: For an address of another form.
        TargetError: If the model cannot be loaded.
    """
    if not isinstance(address, str):
        raise UsageError(
            f"the model address is {type(address).__name__}; it must be a text such as 'pocket'. "
            "A model that is open needs no address; hand it over as it is."
        )
    kind, _, rest = address.partition("/")
    if kind == "openai" and rest:
        return open_endpoint(rest, endpoint or Endpoint())
    if (opener := opener_of("leakbound.models", kind)) is not None:
        return cast(Model, opener(rest))
    if address not in BUNDLED and (kind != "hf" or not rest):
        raise UsageError(
            f"the model address {address!r} is not known; it must be one of "
            f"{', '.join(ADDRESSES)}. A local folder is written hf/./folder."
        )
    _require_torch()
    return _open_local(address, rest, trust_remote_code, local or Local())


def is_address(text: str) -> bool:
    """Whether `open_model` knows the form of an address.

    Args:
        text: What may be an address.

    Returns:
        True for the forms in `ADDRESSES` and those of installed packages; nothing is opened.
    """
    kind, _, rest = text.partition("/")
    known = text in BUNDLED or (kind in ("hf", "openai") and bool(rest))
    return known or kind in schemes("leakbound.models")


def _open_local(address: str, rest: str, trust_remote_code: bool, local: Local) -> Model:
    if address == "pocket":
        from leakbound.models.pocket import load_pocket

        return load_pocket(**asdict(local))
    if address == "pocket-vision":
        from leakbound.models.pocket import load_pocket_vision

        return load_pocket_vision(**asdict(local))
    from leakbound.models.local import load

    return load(rest, name=address, trust_remote_code=trust_remote_code, **asdict(local))


def lacks_torch(address: str) -> bool:
    """Whether a model cannot be opened because torch or transformers is not installed.

    Args:
        address: One of the forms in `ADDRESSES`.

    Returns:
        False for models that run elsewhere.
    """
    return (address in BUNDLED or address.startswith("hf/")) and not _has_torch()


def _has_torch() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def _require_torch() -> None:
    if not _has_torch():
        raise TargetError(
            f"local models need torch and transformers; install them with: {install_hint('local')}."
        )


def open_embedder(address: str) -> Model:
    """Open a sentence-transformers model.

    Args:
        address: Hub id or folder; all-MiniLM-L6-v2 is a good one.

    Returns:
        A model that answers `Embed`.

    Raises:
        TargetError: If it cannot be loaded.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise TargetError(
            "sentence embeddings need sentence-transformers; install it with: "
            f"{install_hint('embed')}."
        )
    from leakbound.models.local.embedder import load_embedder

    return load_embedder(address)
