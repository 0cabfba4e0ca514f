"""Load a causal language model, or an image-text-to-text model.

If something is missing, the error says what.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError, reason_of
from leakbound.models.hub import hub_host, is_reachable
from leakbound.models.local.budget import Budget, require_memory, resident
from leakbound.models.local.hugging_face import CausalModel, ModelConfig
from leakbound.models.local.memory import weight_bytes
from leakbound.models.local.model import TransformersModel
from leakbound.models.local.readings import LABEL_SCORES
from leakbound.models.local.self_check import recalled

__all__ = ["load"]

# files of a model folder that can change its answers, beside weights
READ = ("*.json", "*.jinja", "*.txt", "*.model", "*.py")
# of a weight file, both ends are hashed; above BIG bytes also SAMPLE bytes at every step of END. So
# a change in a trained matrix of one megabyte is noticed, and 16 GB take a second
END, BIG, SAMPLE = 1 << 20, 8 << 20, 4 << 10


def load(
    address: str,
    name: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    trust_remote_code: bool = False,
    memory: int | None = None,
    label_scores: str = "sum",
) -> TransformersModel:
    """Load a causal or an image-text-to-text model with its tokenizer or processor.

    Args:
        address: A folder, which never touches the network, or a hub id.
        name: Name for records and messages; None for `hf/ADDRESS`.
        dtype: "auto" (float32 on a CPU, bfloat16 on a GPU), "float32", "bfloat16" or "float16".
        device: "auto", "cpu" or "cuda".
        trust_remote_code: Whether code that the model brings may run.
        memory: Bytes that the process (on a GPU: the model's tensors) may take at its peak; None
            for half of what is free.
        label_scores: How to combine the log-probabilities of a label's tokens into one score:
            "sum", "mean" (by length) or "first_token".

    Returns:
        The model.

    Raises:
        TargetError: If something is missing, which the message names.
        UsageError: If `dtype` or `label_scores` is unknown, or `memory` is too small.
    """
    _check_label_scores(label_scores)
    folder = Path(address)
    if folder.exists():
        _check_folder(folder)
    elif address.startswith((".", "/", "~")):
        raise TargetError(
            f"the model folder {address!r} does not exist; give a folder with config.json, "
            "tokenizer and weights."
        )
    disable_progress_bar()  # type: ignore[no-untyped-call]
    where = _device(device)
    if memory is not None and where.type == "cpu":
        weights = weight_bytes(_weights(folder), _dtype(dtype, where).itemsize)
        require_memory(memory, (resident() or 0) + weights, where)
    here = folder.exists() or not is_reachable()
    kwargs = {"trust_remote_code": trust_remote_code, "local_files_only": here}
    only = {"use_safetensors": True}  # other weight files are pickles; reading them can run code
    try:
        reader, kind, behind = _kinds(AutoConfig.from_pretrained(address, **kwargs))
        tokenizer = reader.from_pretrained(address, **kwargs)
        model = kind.from_pretrained(address, dtype=_dtype(dtype, where), **only, **kwargs)
    except (OSError, ValueError, RuntimeError, KeyError, ImportError, SafetensorError) as error:
        if "trust_remote_code" in str(error):
            raise TargetError(
                f"the model {address!r} comes with its own Python code, which is not run; read it, "
                "and add --trust-remote-code if you trust it."
            ) from None
        if here and not folder.exists():
            raise TargetError(
                f"the model {address!r} is neither a folder nor in the cache, and {hub_host()} "
                "cannot be reached from here; give the folder of a model (hf/PATH)."
            ) from None
        _require_json(sorted(folder.glob("*.json")))
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TargetError(
            f"the model {address!r} could not be loaded: {reason.rstrip('.')}. Save it again with "
            "save_pretrained; if it is complete, a newer version of transformers may support it."
        ) from None
    fingerprint = _fingerprint(folder) if folder.exists() else _of_hub(address, model)
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


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise TargetError(
            f"the model {str(folder)!r} is a file; give the folder that holds config.json, "
            "tokenizer and weights."
        )
    if not (folder / "config.json").is_file():
        raise TargetError(
            f"the model folder {str(folder)!r} has no config.json; give a folder saved with "
            "save_pretrained."
        )
    _require_json([folder / "config.json"])
    if not _weights(folder):
        pickles = (
            " (*.bin files can run code when they are read: save the model again with "
            "save_pretrained)"
        )
        raise TargetError(
            f"the model folder {str(folder)!r} has no weights; it must hold *.safetensors beside "
            f"config.json{pickles if any(folder.glob('*.bin')) else ''}."
        )


def _require_json(files: Iterable[Path]) -> None:
    """Name the damaged file, which transformers does not always do."""
    for file in files:
        try:
            json.loads(file.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise TargetError(
                f"the model's file {str(file)!r} cannot be read ({reason_of(error)}); copy the "
                "model folder again, or save the model again with save_pretrained."
            ) from None


def _weights(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _of_hub(address: str, model: CausalModel) -> str:
    """Hash of a hub id and the revision that was loaded."""
    revision = getattr(model.config, "_commit_hash", None) or ""
    return hashlib.sha256(f"{address} {revision}".encode()).hexdigest()[:16]


def _fingerprint(folder: Path) -> str:
    """Hash of every file that is read; for weight files, of their sizes and of samples."""
    digest = hashlib.sha256()
    read = [path for form in READ for path in folder.glob(form)]
    for path in sorted([*read, *_weights(folder)]):
        size = path.stat().st_size
        with path.open("rb") as file:
            digest.update(f"{path.name} {size}".encode() + file.read(END))
            for at in range(END, size - END, END) if size > BIG else ():
                file.seek(at)
                digest.update(file.read(SAMPLE))
            file.seek(max(0, size - END))
            digest.update(file.read())
    return digest.hexdigest()[:16]


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
