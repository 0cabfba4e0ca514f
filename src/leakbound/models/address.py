"""Model addresses: `pocket` and its kin, `hf/<folder or hub id>`, `openai/<model>`."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from leakbound._catalogue import opener_of, schemes
from leakbound._install import install_hint
from leakbound._members import members_of
from leakbound.errors import TargetError, UsageError, findable

if TYPE_CHECKING:
    from leakbound.models.model import Model
    from leakbound.models.openai import Endpoint

ADDRESSES = {
    "pocket": "the small model shipped with this package",
    "pocket-half": "its first layers, the smaller one where models are compared",
    "pocket-vision": "the small model that names images, shipped with this package",
    "pocket-vision-short": "its first layers, the second one where a recipe takes two",
    "hf/<folder or id>": "any Hugging Face causal or image-text-to-text model, or a GGUF file",
    "openai/<model>": "a model behind an OpenAI-compatible server (--base-url)",
    "inspect/<model>": "a model of inspect_ai, such as inspect/openai/gpt-4o (extra: inspect)",
}


# Models shipped with this package.
BUNDLED = ("pocket", "pocket-half", "pocket-vision", "pocket-vision-short")
NOT_YOURS = " (test model, not yours)"


@dataclass(frozen=True, slots=True)
class Local:
    """How to load a model on this machine.

    Attributes:
        memory: Bytes that the process (on a GPU: the model and what it computes) may take at its
            peak; None for half of what is free.
        dtype: "auto" (float32 on a CPU, bfloat16 on a GPU), "float32", "bfloat16" or "float16".
        device: "auto", "cpu" or "cuda".
        label_scores: How to combine the log-probabilities of a label's tokens into one score:
            "sum", "mean" (so that labels of different lengths compare) or "first_token".
        chat_template: "auto" (prompts go through the model's chat template where it has one), "on"
            (it must have one) or "off" (prompts are completed as plain text).
    """

    memory: int | None = None
    dtype: str = "auto"
    device: str = "auto"
    label_scores: str = "sum"
    chat_template: str = "auto"


def open_model(
    address: str,
    trust_remote_code: bool = False,
    endpoint: Endpoint | None = None,
    local: Local | None = None,
) -> Model:
    """Open the model at an address. An endpoint is not contacted yet.

    Args:
        address: One of the forms in `ADDRESSES`.
        trust_remote_code: Whether code that a model brings may run.
        endpoint: How to reach an `openai/...` model; None for OpenAI's own host.
        local: How to load another model; None for the defaults.

    Raises:
        UsageError: For an address of another form, or an option that its model does not take.
        TargetError: If the model cannot be loaded.
    """
    if not isinstance(address, str):
        raise UsageError(
            f"the model address is {type(address).__name__}; it must be a text such as 'pocket'. "
            "Pass an opened model itself, without an address."
        )
    require_address(address)
    _require_taken(address, trust_remote_code, endpoint, local)
    return open_shared(address, trust_remote_code, endpoint, local)


def require_model(model: object) -> Model:
    from leakbound.models.model import Model

    lacks = ", ".join(name for name in members_of(Model) if not hasattr(model, name))
    if lacks or not isinstance(model, Model) or not isinstance(model.name, str):
        raise UsageError(
            f"model is {type(model).__name__}; it must be an address such as 'pocket', or a model "
            f"as leakbound.open_model returns it{lacks and f', and it lacks {lacks}'}."
        )
    return model


def open_shared(
    address: str,
    trust_remote_code: bool = False,
    endpoint: Endpoint | None = None,
    local: Local | None = None,
) -> Model:
    """Open one of several models that share their options, of which each takes its own."""
    kind, _, rest = address.partition("/")
    if kind == "openai" and rest:
        from leakbound.models.openai import Endpoint, open_endpoint  # here only

        return open_endpoint(rest, endpoint or Endpoint())
    if (opener := opener_of("leakbound.models", kind)) is not None:
        return require_model(opener(rest))
    require_address(address)
    if not _has_torch():
        raise TargetError(
            f"the model {address} runs on this machine and needs torch and transformers, which are "
            "not installed. Name a model behind an address (openai/NAME with --base-url), or, in "
            "an audit, a system of your own (leakbound audit ROWS app.py:answer); or install them "
            f"with: {install_hint('local')}"
        )
    try:
        importlib.import_module("torch")
    except Exception as error:  # whatever a damaged installation raises
        raise TargetError(
            f"torch is installed and cannot be imported ({type(error).__name__}: {error}), so "
            f"{address} cannot run; install it again: {install_hint('local')}"
        ) from error
    how = asdict(local or Local())
    if address in BUNDLED:
        from leakbound.models.pocket import load_pocket

        return load_pocket(address, **how)
    from leakbound.models.local import load

    return load(rest, name=address, trust_remote_code=trust_remote_code, **how)


def options_taken(address: str) -> tuple[str, ...]:
    """The parameters of `open_model` that the model at an address takes."""
    kind = address.partition("/")[0]
    if kind == "openai":
        return ("endpoint",)
    if kind == "hf":
        return ("local", "trust_remote_code")
    return ("local",) if kind in BUNDLED else ()


def _require_taken(
    address: str, trust_remote_code: bool, endpoint: Endpoint | None, local: Local | None
) -> None:
    takes = options_taken(address)
    given = {
        "endpoint": endpoint is not None and endpoint != type(endpoint)(),
        "local": local not in (None, Local()),
        "trust_remote_code": trust_remote_code,
    }
    for name in given:
        if given[name] and name not in takes:
            options = " and ".join(takes) or "no options"
            raise UsageError(
                f"{name} is given, and would be ignored: the model {address!r} takes {options}. "
                "Leave it out."
            )


def require_address(address: str) -> None:
    """Refuse what is not the address of a model, before another model is asked."""
    if not is_address(address):
        raise UsageError(
            f"the model address {address!r} is not known; it must be one of "
            f"{', '.join(ADDRESSES)}. {_meant(address)}"
        )


def _meant(address: str) -> str:
    near = difflib.get_close_matches(address, BUNDLED, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    if address and findable(address).is_dir():
        return f"Did you mean 'hf/{address}'?"
    return "A local folder is written hf/./folder."


def is_address(text: str) -> bool:
    """Whether `open_model` accepts the form of an address."""
    kind, _, rest = text.partition("/")
    known = text in BUNDLED or (kind in ("hf", "openai") and bool(rest))
    return known or kind in schemes("leakbound.models")


def lacks_torch(address: str) -> bool:
    """Whether a model cannot be opened because torch or transformers is not installed."""
    return (address in BUNDLED or address.startswith("hf/")) and not _has_torch()


def _has_torch() -> bool:
    return all(importlib.util.find_spec(name) for name in ("torch", "transformers"))


def open_embedder(address: str) -> Model:
    """Open a sentence-transformers model, which answers `Embed`.

    Args:
        address: Hub id or folder; all-MiniLM-L6-v2 is a good choice.

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


def model_names(models: Iterable[str]) -> str:
    """Models, each once."""
    return ", ".join(f"{m}{NOT_YOURS}" if m in BUNDLED else m for m in dict.fromkeys(models))


# --- whether the hub is reachable, so that nobody waits for retries that cannot help


def hub_host() -> str:
    """The host of the model hub, from `HF_ENDPOINT`."""
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT


def is_reachable() -> bool:
    """Whether the hub's name resolves, here or perhaps at a proxy."""
    import socket
    from urllib.request import getproxies

    if getproxies():
        return True
    try:
        socket.getaddrinfo(hub_host(), 443)
    except OSError:
        return False
    return True
