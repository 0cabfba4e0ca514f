"""Files that only their owner can read, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from leakbound.errors import StoreError, reason_of


def write_private(path: Path, text: str | bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    if path.exists() and not path.is_file():
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder that only its owner can read, with those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreError(
            f"the folder {str(folder)!r} cannot be made ({reason_of(error)}); choose another with "
            f"{option}."
        ) from None


def cache_folder(kind: str) -> Path:
    """Where what can be computed again is kept; a RuntimeError without a home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "leakbound" / kind
