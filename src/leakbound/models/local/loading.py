"""Load a causal language model, or an image-text-to-text model.

If something is missing, the error says what.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import shutil
import struct
import time
from collections.abc import Iterable
from contextlib import nullcontext, redirect_stderr, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_model
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, __version__
from transformers.utils.logging import disable_progress_bar

from leakbound._files import cache_folder
from leakbound._install import install_hint
from leakbound.errors import TargetError, UsageError, findable, reason_of
from leakbound.models.address import hub_host, is_reachable
from leakbound.models.local.engine.budget import Budget, require_memory, resident, weight_bytes
from leakbound.models.local.engine.self_check import recall
from leakbound.models.local.hugging_face import first_line
from leakbound.models.local.model import LABEL_SCORES, TransformersModel

GGUF = ".gguf"
CHAT_TEMPLATES = ("auto", "on", "off")
MAGIC = b"GGUF"  # the first bytes of such a file
# files of a model folder that can change its answers, beside weights
READ = ("*.json", "*.jinja", "*.txt", "*.model", "*.py")
SLOWER = 2.0  # times as slow as float32: not by chance, where other programs run as well
LOG = logging.getLogger(__name__)
# of a weight file, both ends are hashed; above BIG bytes also SAMPLE bytes at every step of END. So
# a change in a trained matrix of one megabyte is noticed, and 16 GB take a second
END, BIG, SAMPLE = 1 << 20, 8 << 20, 4 << 10


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What transformers is told, and which files hold the weights."""

    address: str
    name: str
    offline: bool
    gguf: str | None = None

    @property
    def here(self) -> bool:
        return Path(self.address).exists()

    @property
    def reading(self) -> dict[str, object]:
        """Arguments of every `from_pretrained`."""
        of_file: dict[str, object] = {} if self.gguf is None else {"gguf_file": self.gguf}
        return {"local_files_only": self.offline, **of_file}

    def kept_in(self, width: torch.dtype) -> Path | None:
        """Where a GGUF file is kept unpacked; its time tells of changes that samples miss."""
        if self.gguf is None:
            return None
        changed, kind = Path(self.address).stat().st_mtime_ns, str(width).removeprefix("torch.")
        name = f"{self.fingerprint()}-{changed}-{kind}-{__version__}"
        with suppress(RuntimeError):  # no home folder
            return cache_folder("gguf") / name
        return None

    def bytes_at(self, width: int) -> int:
        if self.gguf is not None:
            from gguf import GGUFReader

            tensors = GGUFReader(Path(self.address)).tensors  # unpacked when they are read
            return sum(int(tensor.n_elements) for tensor in tensors) * width
        return weight_bytes(_weights(Path(self.address)), width)

    def fingerprint(self) -> str:
        """Hash of every file that is read; for weight files, of their sizes and of samples."""
        digest, path = hashlib.sha256(), Path(self.address)
        read = [] if self.gguf else [one for form in READ for one in path.glob(form)]
        for file in [path] if self.gguf else sorted([*read, *_weights(path)]):
            _add(digest, file)
        return digest.hexdigest()[:16]


def find_files(address: str) -> ModelFiles:
    """Look at what an address names, before anything is loaded."""
    path = findable(address)
    if path.is_file():
        _check_file(path)
        return ModelFiles(address, str(path.parent), True, path.name)
    if path.exists():
        _check_folder(path)
        return ModelFiles(address, address, True)
    if address.startswith((".", "/", "~")) or address.endswith(GGUF):
        raise TargetError(
            f"the model {address!r} does not exist; give a folder with config.json, tokenizer and "
            "weights, or a GGUF file."
        )
    return ModelFiles(address, address, not is_reachable())


def unreadable(files: ModelFiles, error: Exception) -> TargetError:
    address = files.address
    if "trust_remote_code" in str(error):
        return TargetError(
            f"the model {address!r} comes with its own Python code, which is not run; read it, and "
            "add --trust-remote-code if you trust it."
        )
    if files.offline and not files.here:
        return TargetError(
            f"the model {address!r} is neither a folder nor in the cache, and {hub_host()} cannot "
            "be reached from here; give the folder of a model (hf/PATH)."
        )
    again = "Copy the file again" if files.gguf else "Save it again with save_pretrained"
    reason = first_line(error).rstrip(".")
    return TargetError(
        f"the model {address!r} could not be loaded: {reason}. {again}; if it is "
        "complete, a newer version of transformers may support it."
    )


def _check_file(path: Path) -> None:
    if path.suffix != GGUF:
        raise TargetError(
            f"the model {str(path)!r} is a file; give the folder that holds config.json, tokenizer "
            "and weights, or a GGUF file (*.gguf)."
        )
    try:
        with path.open("rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise TargetError(
            f"the model's file {str(path)!r} cannot be read ({reason_of(error)})."
        ) from None
    if start != MAGIC:
        raise TargetError(
            f"the model's file {str(path)!r} is no GGUF file: it must begin with {MAGIC.decode()}; "
            "copy it again."
        )
    if importlib.util.find_spec("gguf") is None:
        raise TargetError(f"a GGUF file needs gguf; install it with: {install_hint('gguf')}.")


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        whole = sorted(folder.glob(f"*{GGUF}"))  # a model by itself
        instead = f", or its GGUF file (hf/{whole[0]})" if whole else ""
        raise TargetError(
            f"the model folder {str(folder)!r} has no config.json; give a folder saved with "
            f"save_pretrained{instead}."
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


def _add(digest: hashlib._Hash, path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        digest.update(f"{path.name} {size}".encode() + file.read(END))
        for at in range(END, size - END, END) if size > BIG else ():
            file.seek(at)
            digest.update(file.read(SAMPLE))
        file.seek(max(0, size - END))
        digest.update(file.read())


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
    chat_template: str = "auto",
) -> TransformersModel:
    for what, chosen, known in (
        ("label_scores", label_scores, tuple(LABEL_SCORES)),
        ("chat_template", chat_template, CHAT_TEMPLATES),
    ):
        if chosen not in known:
            raise UsageError(f"{what} is {chosen!r}; it must be one of {', '.join(known)}.")
    files, where = find_files(address), _device(device)
    disable_progress_bar()  # type: ignore[no-untyped-call]
    width = _dtype(dtype, where)
    kept = files.kept_in(width)
    unpacked = ModelFiles(str(kept), str(kept), True) if kept and kept.is_dir() else files
    if memory is not None and where.type == "cpu":
        require_memory(memory, (resident() or 0) + unpacked.bytes_at(width.itemsize), where)
    try:
        tokenizer, model, loaded, behind = _load_files(unpacked, width, trust_remote_code)
    except UNREADABLE as error:
        # name the damaged file of a folder, which transformers does not always do
        _require_json(sorted(Path(address).glob("*.json")))
        raise unreadable(files, error) from None
    if random := sorted(loaded["missing_keys"]):  # transformers only logs it
        raise TargetError(
            f"the weights of {address!r} lack {len(random)} of the model's parameters, such as "
            f"{random[0]!r}, which would be random. Every parameter must be there: save the model "
            f"again with save_pretrained, or install the release of transformers that saved it "
            f"(this is {__version__})."
        )
    if kept and unpacked is files:
        _keep(kept, tokenizer, model)
    if files.here:
        fingerprint = files.fingerprint()
    else:  # the hub id and the revision that was loaded
        revision = getattr(model.config, "_commit_hash", None) or ""
        fingerprint = hashlib.sha256(f"{address} {revision}".encode()).hexdigest()[:16]
    if layers is not None:  # leave out the last layers
        decoder = model.get_decoder()
        decoder.layers = decoder.layers[:layers]
        decoder.config.num_hidden_layers = layers
        fingerprint += f"-{layers}-layers"
    if model.dtype != torch.float32:  # other precisions give other answers
        fingerprint += f"-{str(model.dtype).removeprefix('torch.')}"
    checked = fingerprint
    if label_scores != "sum":
        fingerprint += f"-{label_scores}"
    if _leave_out_template(tokenizer, chat_template, address):
        fingerprint += "-without-chat-template"
    # leakbound checks the window itself before any call
    getattr(tokenizer, "tokenizer", tokenizer).model_max_length = 1 << 30
    model.to(where).eval()
    name, budget = name or f"hf/{address}", Budget.of(model, memory)
    sharing = recall(model, name, checked)
    return behind(model, tokenizer, name, fingerprint, budget, sharing, label_scores)


def _load_files(
    files: ModelFiles, width: torch.dtype, trusted: bool
) -> tuple[Any, Any, Any, type[TransformersModel]]:
    """Tokenizer, model, what was missing, and the class that answers with them."""
    reading = {"trust_remote_code": trusted, **files.reading}
    reader, kind, behind = _kinds(AutoConfig.from_pretrained(files.name, **reading))
    tokenizer = reader.from_pretrained(files.name, **reading)
    if files.gguf is None:  # other weight files are pickles, which can run code
        reading["use_safetensors"] = True
    with nullcontext() if files.gguf is None else redirect_stderr(StringIO()):  # its progress
        return tokenizer, *kind.from_pretrained(
            files.name, dtype=width, output_loading_info=True, **reading
        ), behind  # fmt: skip


def _keep(folder: Path, tokenizer: Any, model: Any) -> None:
    """Save an unpacked GGUF file, which takes minutes to unpack; without room, it is not kept."""
    part = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        part.mkdir(parents=True, mode=0o700)
        settings = json.loads(model.config.to_json_string(use_diff=False))
        settings.pop("quantization_config", None)  # of the file, not of what was unpacked
        (part / "config.json").write_text(json.dumps(settings))
        for one in (tokenizer, model.generation_config):
            one.save_pretrained(part)
        save_model(model, str(part / "model.safetensors"), {"format": "pt"})
        part.replace(folder)  # atomic, even if another process does the same
    except UNREADABLE:
        shutil.rmtree(part, ignore_errors=True)


def _leave_out_template(tokenizer: Any, chosen: str, address: str) -> bool:
    """Whether there is a chat template that must not be used; it is taken away."""
    readers = {id(one): one for one in (tokenizer, getattr(tokenizer, "tokenizer", tokenizer))}
    having = [one for one in readers.values() if getattr(one, "chat_template", None)]
    if chosen == "on" and not having:
        raise UsageError(
            f"the model {address!r} has no chat template, and --chat-template is on; it must be "
            "off or auto for such a model, or name an instruct model."
        )
    for one in having if chosen == "off" else ():
        one.chat_template = None
    return bool(having) and chosen == "off"


def _kinds(config: Any) -> tuple[Any, Any, type[TransformersModel]]:
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
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"dtype is {dtype!r}; it must be auto, float32, bfloat16 or float16.")
    if found == torch.float32:
        return found
    slower = _seconds(found, device) / _seconds(torch.float32, device)
    if slower > SLOWER:
        LOG.warning(
            "%s is %.0f times slower than float32 on this device; leave --dtype out, or take "
            "float32.", dtype, slower,
        )  # fmt: skip
    return found


def _seconds(dtype: torch.dtype, device: torch.device) -> float:
    # of a product of matrices, the best of a few
    a, b = (torch.ones(size, 512, dtype=dtype, device=device) for size in (32, 512))
    found = []
    for _ in range(4):
        begin = time.perf_counter()
        float((a @ b.T).sum())  # a number: a GPU has finished
        found.append(time.perf_counter() - begin)
    return min(found)
