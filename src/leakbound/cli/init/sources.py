"""What the words of a command name: rows, a system, a model, the address of a server."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from leakbound._catalogue import opener_of
from leakbound.errors import UsageError
from leakbound.models.address import is_address
from leakbound.tasks.rows.row_files import HUB

NAMES = {"data": "a file of rows", "system": "a system", "model": "a model", "url": "a server"}
WEB = ("http://", "https://")
FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".gz")
BARE = re.compile(r"[\w.-]+:\d{2,5}(/|$)")  # localhost:8000/answer
SCHEMES = ("python:", "http:")  # of systems
OBJECT = re.compile(r"(.+\.py|[A-Za-z_][\w.]*):[A-Za-z_][\w.]*")  # app.py:answer, app.rag:answer
BASES = ("/v1", "/chat/completions", "/completions")  # what a base URL ends in
OPENAI = "openai/"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the user named, by what it is."""

    data: str | None = None
    address: str | None = None
    model: str | None = None
    url: str | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> Sources:
        """Sort words by what they name."""
        found: dict[str, str] = {}
        for name in map(_whole, names):
            kind = _kind(name)
            if kind in found:
                hint = "" if kind != "data" else ", a function as FILE.py:NAME, a model as hf/NAME"
                raise UsageError(
                    f"{found[kind]!r} and {name!r} are both read as {NAMES[kind]}; name one{hint}."
                )
            found[kind] = name
        named = cls(found.get("data"), found.get("system"), found.get("model"), found.get("url"))
        other = named.address or named.model
        if named.url is not None and other is not None and not other.startswith(OPENAI):
            raise UsageError(
                f"{named.url!r} and {other!r} are both asked; name one. Only a model openai/MODEL "
                "stands beside the address of its server."
            )
        return named

    @property
    def names_no_system(self) -> bool:
        """Whether rows alone are named."""
        return self.data is not None and not (self.address or self.model or self.url)

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


def with_sources(names: Sequence[str], flags: Mapping[str, object]) -> dict[str, object]:
    """The options of a command with what its words name."""
    named = Sources.of(names)
    if named.url is not None:
        raise UsageError(
            f"{named.url!r} is the address of a server; `leakbound init ROWS {named.url}` finds "
            "out how it is asked, and writes the configuration of its audit."
        )
    values = named.values()
    twice = next((key for key in values if flags.get(key) is not None), None)
    if twice is not None:
        flag = "--system" if twice == "address" else f"--{twice}"
        raise UsageError(
            f"{values[twice]!r} and {flag} {flags[twice]} are both given; leave one out."
        )
    return {**flags, **values}


def _kind(name: str) -> str:
    if BARE.match(name):
        raise UsageError(
            f"{name!r} looks like the address of a server; write it with its scheme, such as "
            f"http://{name}."
        )
    if name.lower().startswith(WEB):
        return "data" if _path(name).endswith(FILES) else "url"
    if name.startswith(SCHEMES) or opener_of("leakbound.systems", name.partition(":")[0]):
        return "system"
    if name.endswith(".py"):
        raise UsageError(
            f"{name!r} is a file of Python; name the object in it that answers, as "
            f"python:{name}:OBJECT."
        )
    if is_address(name):
        return "model"
    if "://" in name and not name.startswith(HUB):
        raise UsageError(
            f"{name!r} is an address of no known kind; it must begin with http:// or https://."
        )
    return "data"


def _whole(name: str) -> str:
    """An object of a file or module with the scheme that it may go without."""
    scheme = name.partition(":")[0]
    bare = OBJECT.fullmatch(name) and f"{scheme}:" not in (*SCHEMES, HUB)
    taken = is_address(name) or Path(name).exists() or opener_of("leakbound.systems", scheme)
    return f"python:{name}" if bare and not taken else name


def _path(url: str) -> str:
    try:
        return urlsplit(url).path.lower()
    except ValueError:
        return ""


def asked_sources() -> list[str]:
    """What a person at a terminal answers; nobody is asked elsewhere."""
    if not sys.stdin.isatty():
        raise UsageError(
            "name a file of rows, a system, a model or the address of a server; see leakbound init "
            "--help."
        )
    rows = click.prompt("File of private rows (empty: bundled ones)", default="", type=str)
    system = click.prompt(
        "System or model, such as app.py:answer, http://127.0.0.1:8000/answer or openai/MODEL "
        "(empty: fill it in later)",
        default="",
        type=str,
    )
    return [*filter(None, [rows.strip(), *system.split()])]
