"""A memory budget for the local engine.

It limits what is kept between calls, what one batch may hold, and how much runs at once.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from leakbound.errors import UsageError
from leakbound.models.local.hugging_face import CausalModel

# files of a control group with its limit and its use, in version 2 and in version 1
FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
UNLIMITED = 1 << 60  # version 1 writes "no limit" as a number above this


def container_limit(root: Path = Path("/")) -> int | None:
    """The most bytes that the control groups of this process allow."""
    return min((limit for limit, _ in _groups(root)), default=None)


def container_room(root: Path = Path("/")) -> int | None:
    """Bytes that the control groups of this process leave."""
    return min((max(0, limit - used) for limit, used in _groups(root)), default=None)


def _groups(root: Path) -> Iterator[tuple[int, int]]:
    """Limit and use of each control group of this process that has a limit."""
    for folder in dict.fromkeys(_folders(root)):
        for name, current in FILES:
            limit, used = _number(folder / name), _number(folder / current)
            if limit is not None and limit < UNLIMITED:
                yield limit, max(0, (used or 0) - _droppable(folder))


def _folders(root: Path) -> Iterator[Path]:
    """Folders of the control groups around this process; a container sees its own as outermost."""
    mount = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers or "memory" in controllers.split(","):
            base = mount / "memory" if controllers else mount
            inner = base / path.lstrip("/")
            yield from (f for f in (inner, *inner.parents) if f == base or base in f.parents)
    yield from (mount, mount / "memory")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _droppable(folder: Path) -> int:
    """Bytes of file pages that the kernel drops before it refuses memory."""
    parts = (line.partition(" ") for line in _lines(folder / "memory.stat"))
    stat = {name: value for name, _, value in parts}
    found = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
    return int(found) if found.isdecimal() else 0


def unread_weights(root: Path = Path("/")) -> int:
    """Bytes of weight files that are memory-mapped but not read yet: the process will hold them."""
    return max(0, sum(_unread(_lines(root / "proc/self/smaps"))))


def _unread(lines: Iterable[str]) -> Iterator[int]:
    """For each mapped weight file, its size, and minus the bytes that were read of it."""
    weights = False
    for line in lines:
        name, *values = line.split()
        if not name.endswith(":"):
            weights = line.endswith(".safetensors")
        elif weights and name in ("Size:", "Rss:"):
            yield int(values[0]) * (1024 if name == "Size:" else -1024)


def weight_bytes(files: Iterable[Path], width: int) -> int:
    """Bytes of the weights in files, from their headers."""
    return sum(_numbers(file) for file in files) * width


def _numbers(file: Path) -> int:
    try:
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            found = json.loads(stream.read(min(size, os.stat(file).st_size)))
        return sum(math.prod(part["shape"]) for name, part in found.items() if "shape" in part)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return 0


# bytes of the widest activation of one pass on a CPU; larger ones do not fit its cache
ACTIVATIONS = 16 << 20
LIVE = 8  # activations of that size that a pass may hold at once
# bytes that attention masks take for each pair of a token that runs and a token that it sees
MASK = 16
# least and most bytes kept between calls by default; in between, two rows of the full window
KEPT = (256 << 20, 4 << 30)
LEAST = 64 << 20  # with less, nothing can be run


@dataclass(frozen=True, slots=True)
class Budget:
    kept: int
    flight: int
    tokens: int
    masks: int = 256 << 20

    def step(self, rows: int, length: int) -> int:
        """Tokens of each row that run in one pass."""
        return max(1, min(self.tokens, self.masks // (MASK * length)) // rows)

    @classmethod
    def of(cls, model: CausalModel, memory: int | None = None) -> Budget:
        """The budget that keeps the peak of the process, weights included, below `memory`."""
        wide = _widest(model) * model.dtype.itemsize
        if memory is None:
            free = _free(model.device) // 2
            window = getattr(model.config, "max_position_embeddings", 0) or 4096
            rows = 2 * window * token_bytes(model)
            kept = max(KEPT[0], min(rows, free // 8, KEPT[1]))
            return cls(
                kept, max(KEPT[0], free // 2), _tokens(model.device, wide), max(KEPT[0], free // 8)
            )
        left = memory - require_memory(memory, _use(model), model.device)
        tokens = min(_tokens(model.device, wide), max(64, left // 8 // (LIVE * wide)))
        return cls(left // 4, left // 2, tokens, left // 8)


def require_memory(memory: int, used: int, device: torch.device) -> int:
    """Refuse a memory budget that leaves nothing for prompts."""
    limit = container_limit() if device.type == "cpu" else None
    if limit is not None and memory > limit:
        raise UsageError(
            f"the memory budget is {memory / 2**30:.2f} GB, and the container of this process is "
            f"limited to {limit / 2**30:.2f} GB; give at most that with --memory."
        )
    if memory - used < LEAST:
        raise UsageError(
            f"the memory budget is {memory / 2**30:.2f} GB and the process with the model's "
            f"weights takes {used / 2**30:.2f} GB of it; it must leave at least {LEAST >> 20} MB. "
            "Give more with --memory, or take a smaller model."
        )
    return used


def resident() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def token_bytes(model: CausalModel) -> int:
    """Bytes of the keys and values of one token in all layers."""
    config = model.config.get_text_config(decoder=True)
    width = config.hidden_size  # of keys, if a configuration names no heads
    if getattr(config, "num_attention_heads", None):
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        each = getattr(config, "head_dim", None)
        width = heads * (each or config.hidden_size // config.num_attention_heads)
    return int(2 * config.num_hidden_layers * width * model.dtype.itemsize)


def logit_bytes(model: CausalModel) -> int:
    return int(model.config.get_text_config(decoder=True).vocab_size * model.dtype.itemsize)


def _widest(model: CausalModel) -> int:
    """Width of the widest activation between two layers, per token, without the output head."""
    head = model.get_output_embeddings()
    layers = (m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not head)
    return max(
        (m.out_features for m in layers),
        default=4 * model.config.get_text_config(decoder=True).hidden_size,
    )


def _tokens(device: torch.device, wide: int) -> int:
    return 16384 if device.type == "cuda" else min(8192, max(256, ACTIVATIONS // wide))


def _free(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    room = container_room()
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no sysconf, or none for these pages
        free = 2 << 30
    return free if room is None else min(free, room)


def _use(model: CausalModel) -> int:
    """Bytes that the process will hold once all weights, which may be memory-mapped, are read."""
    if model.device.type == "cuda":
        return int(torch.cuda.memory_allocated(model.device))
    held = resident()
    if held is None:
        return sum(weights.nbytes for weights in model.parameters())
    return held + unread_weights()
