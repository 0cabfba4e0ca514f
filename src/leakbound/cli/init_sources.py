"""What the words of leakbound init name: rows, a system, a model, the address of a server."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import click

from leakbound.errors import UsageError
from leakbound.models.address import is_address

__all__ = ["Sources", "asked_sources"]

NAMES = {"data": "a file of rows", "system": "a system", "model": "a model", "url": "a server"}
WEB = ("http://", "https://")
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".gz")
BARE = re.compile(r"[\w.-]+:\d{2,5}(/|$)")  # localhost:8000/answer
BASES = ("/v1", "/chat/completions", "/completions")  # what a base URL ends in
OPENAI = "openai/"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the user named, by what it is.

    Attributes:
        data: A file of rows.
        address: A system.
        model: A model.
        url: The address of a server: of a service, or of a model.
    """

    data: str | None = None
    address: str | None = None
    model: str | None = None
    url: str | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> Sources:
        """Sort words by what they name.

        Args:
            names: The words.

        Returns:
            What they name.

        Raises:
            UsageError: For a word that names nothing, for two of a kind, and for a server beside a
                system or a model that is asked elsewhere.
        """
        found: dict[str, str] = {}
        for name in names:
            kind = _kind(name)
            if kind in found:
                raise UsageError(
                    f"{found[kind]!r} and {name!r} are both read as {NAMES[kind]}; name one."
                    f"{_meant(name)}"
                )
            found[kind] = name
        named = cls(found.get("data"), found.get("system"), found.get("model"), found.get("url"))
        named._require_one_target()
        return named

    def _require_one_target(self) -> None:
        other = self.address or self.model
        if self.url is None or other is None or other.startswith(OPENAI):
            return
        raise UsageError(
            f"{self.url!r} and {other!r} are both asked; name one. Only a model openai/MODEL "
            "stands beside the address of its server."
        )

    @property
    def is_model_server(self) -> bool:
        """Whether the address is that of a server of models, and not of an application."""
        if self.url is None:
            return False
        return self.model is not None or urlsplit(self.url).path.rstrip("/").endswith(BASES)

    def values(self) -> dict[str, Any]:
        """Flat keys of a configuration, as far as something was named."""
        named = {"data": self.data, "address": self.address, "model": self.model}
        return {key: value for key, value in named.items() if value is not None}


def _meant(name: str) -> str:
    """An object in a file of Python, without the word before it."""
    return f" Did you mean 'python:{name}'?" if ".py:" in name else ""


def _kind(name: str) -> str:
    if BARE.match(name):
        raise UsageError(
            f"{name!r} looks like the address of a server; write it with its scheme, such as "
            f"http://{name}."
        )
    if name.lower().startswith(WEB):
        return "data" if _path(name).endswith(FILES) else "url"
    if name.startswith(("python:", "http:")):
        return "system"
    if name.endswith(".py"):
        raise UsageError(
            f"{name!r} is a file of Python; name the object in it that answers, as "
            f"python:{name}:OBJECT."
        )
    return "model" if is_address(name) else "data"


def _path(url: str) -> str:
    try:
        return urlsplit(url).path.lower()
    except ValueError:
        return ""


def asked_sources() -> list[str]:
    """What a person at a terminal answers; nobody is asked elsewhere.

    Returns:
        The words.

    Raises:
        UsageError: If there is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "name a file of rows, a system, a model or the address of a server; see leakbound init "
            "--help."
        )
    rows = click.prompt("File of private rows (empty: bundled ones)", default="", type=str)
    system = click.prompt(
        "System or model, such as python:app.py:answer, http://127.0.0.1:8000/answer or "
        "openai/MODEL",
        default="pocket",
        type=str,
    )
    return [*filter(None, [rows.strip(), *system.split()])]
