"""The memory that a process uses and may use, from the operating system and its container."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

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
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers or "memory" in controllers.split(","):
            base = mount / "memory" if controllers else mount
            inner = base / path.lstrip("/")
            yield from (f for f in (inner, *inner.parents) if f == base or base in f.parents)
    yield from (mount, mount / "memory")


def _number(file: Path) -> int | None:
    """The number in a file; None for "max", or if there is no such file."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _droppable(folder: Path) -> int:
    """Bytes of file pages that the kernel drops before it refuses memory."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    stat = {name: value for name, _, value in (line.partition(" ") for line in lines)}
    found = stat.get("total_inactive_file", stat.get("inactive_file", "0"))
    return int(found) if found.isdecimal() else 0


def unread_weights(root: Path = Path("/")) -> int:
    """Bytes of weight files that are memory-mapped but not read yet: the process will hold them."""
    try:
        lines = (root / "proc/self/smaps").read_text().splitlines()
    except OSError:
        return 0
    return max(0, sum(_unread(lines)))


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
