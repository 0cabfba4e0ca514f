"""Load a causal language model, or an image-text-to-text model.

If something is missing, the error says what.
"""

from __future__ import annotations

import hashlib
import importlib.util
import struct
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    __version__,
)
from transformers.utils.logging import disable_progress_bar

from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError
from leakbound.models.local.budget import Budget, require_memory, resident
from leakbound.models.local.files import find_files, unreadable
from leakbound.models.local.hugging_face import CausalModel, ModelConfig
from leakbound.models.local.model import TransformersModel
from leakbound.models.local.readings import LABEL_SCORES
from leakbound.models.local.self_check import recalled

UNREADABLE = (
    OSError, ValueError, RuntimeError, LookupError, ImportError, TypeError, struct.error,
    SafetensorError,
)  # fmt: skip


def load(
    address: str,
    name: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    trust_remote_code: bool = False,
    memory: int | None = None,
    label_scores: str = "sum",
    layers: int | None = None,
) -> TransformersModel:
    """Load a causal or an image-text-to-text model with its tokenizer or processor."""
    _check_label_scores(label_scores)
    files, where = find_files(address), _device(device)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    width = _dtype(dtype, where)
    if memory is not None and where.type == "cpu":
        require_memory(memory, (resident() or 0) + files.bytes_at(width.itemsize), where)
    reading = {"trust_remote_code": trust_remote_code, **files.reading}
    try:
        reader, kind, behind = _kinds(AutoConfig.from_pretrained(files.name, **reading))
        tokenizer = reader.from_pretrained(files.name, **reading)
        with files.unpacking():
            model, loaded = kind.from_pretrained(
                files.name, dtype=width, output_loading_info=True, **files.weighing, **reading
            )
    except UNREADABLE as error:
        files.require_readable()
        raise unreadable(files, error) from None
    if random := sorted(loaded["missing_keys"]):  # transformers only logs it
        raise TargetError(
            f"the weights of {address!r} lack {len(random)} of the model's parameters, such as "
            f"{random[0]!r}, which would be random. Every parameter must be there: save the model "
            f"again with save_pretrained, or install the release of transformers that saved it "
            f"(this is {__version__})."
        )
    fingerprint = files.fingerprint() if files.here else _of_hub(address, model)
    if layers is not None:
        _keep_layers(model, layers)
        fingerprint += f"-{layers}-layers"
    if model.dtype != torch.float32:  # other precisions give other answers
        fingerprint += f"-{str(model.dtype).removeprefix('torch.')}"
    checked = fingerprint
    if label_scores != "sum":
        fingerprint += f"-{label_scores}"
    # leakbound checks the window itself before any call
    getattr(tokenizer, "tokenizer", tokenizer).model_max_length = 1 << 30
    model.to(where)
    model.eval()
    name, budget = name or f"hf/{address}", Budget.of(model, memory)
    sharing = recalled(model, name, checked)
    return behind(model, tokenizer, name, fingerprint, budget, sharing, label_scores)


def _keep_layers(model: PreTrainedModel, layers: int) -> None:
    """Leave out the last layers of the language model, in place."""
    decoder = model.get_decoder()  # type: ignore[no-untyped-call]
    decoder.layers = decoder.layers[:layers]
    decoder.config.num_hidden_layers = layers


def _check_label_scores(label_scores: str) -> None:
    if label_scores not in LABEL_SCORES:
        raise UsageError(
            f"label_scores is {label_scores!r}; it must be one of {', '.join(LABEL_SCORES)}."
        )


def _kinds(config: ModelConfig) -> tuple[Any, Any, type[TransformersModel]]:
    """The classes that read prompts, load the model and wrap both."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as SEEING,
    )

    if config.model_type not in SEEING or not hasattr(config, "vision_config"):
        return AutoTokenizer, AutoModelForCausalLM, TransformersModel
    if importlib.util.find_spec("PIL") is None:
        raise TargetError(
            f"a vision model needs Pillow; install it with: {install_hint('vision')}."
        )
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from leakbound.models.local.vision import VisionModel

    return AutoProcessor, AutoModelForImageTextToText, VisionModel


def _of_hub(address: str, model: CausalModel) -> str:
    """Hash of a hub id and the revision that was loaded."""
    revision = getattr(model.config, "_commit_hash", None) or ""
    return hashlib.sha256(f"{address} {revision}".encode()).hexdigest()[:16]


def _device(device: str) -> torch.device:
    if device == "cuda" and not torch.cuda.is_available():
        raise TargetError(
            "CUDA is not available; use --device cpu, or a machine with a GPU and a CUDA build of "
            "torch."
        )
    if device != "auto":
        return torch.device(device)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _dtype(dtype: str, device: torch.device) -> torch.dtype:
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if not isinstance(getattr(torch, dtype, None), torch.dtype):
        raise UsageError(f"dtype is {dtype!r}; it must be auto, float32, bfloat16 or float16.")
    return cast(torch.dtype, getattr(torch, dtype))
