"""Options for how a local model is loaded."""

from __future__ import annotations

import re
from functools import partial

import click

from leakbound.cli.screen.help_pages import combine, option
from leakbound.errors import UsageError
from leakbound.models import Local

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def size(text: str) -> int:
    """Bytes of a size such as 4GB, 4G, 512MB or 1.5g (powers of 1,024)."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)I?B?\s*", text.upper())
    if not match:
        raise UsageError(f"--memory got {text!r}; it must be a size such as 4GB or 512MB.")
    return int(float(match[1]) * UNITS[match[2]])


def _memory(ctx: click.Context, param: click.Parameter, text: str | None) -> int | None:
    return None if text is None else size(text)


local = partial(option, section="Local model")
local_options = combine(
    "local",
    Local,
    local(
        "--memory",
        "memory limit of the process for a local model (on a GPU: of the GPU), such as 4GB "
        "[default: half of what is free]",
        callback=_memory,
        metavar="SIZE",
    ),
    local(
        "--dtype",
        "number format of a local model; auto: float32 on a CPU, bfloat16 on a GPU",
        click.Choice(["auto", "float32", "bfloat16", "float16"]),
        "auto",
    ),
    local("--device", "device of a local model", click.Choice(["auto", "cpu", "cuda"]), "auto"),
    local(
        "--chat-template",
        "whether prompts go through the chat template of a local model; auto: if it has one; off: "
        "plain text, which small instruct models often classify better",
        click.Choice(["auto", "on", "off"]),
        "auto",
    ),
)
