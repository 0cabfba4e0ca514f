"""Options for how a local model is loaded."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import click

from leakbound.cli.screen.help_pages import in_section
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


option = in_section("Local model")
OPTIONS = (
    option(
        "--memory",
        callback=_memory,
        default=None,
        metavar="SIZE",
        help="memory limit of the process for a local model (on a GPU: of the GPU), such as 4GB "
        "[default: half of what is free]",
    ),
    option(
        "--dtype",
        type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
        default="auto",
        show_default=True,
        help="number format of a local model; auto: float32 on a CPU, bfloat16 on a GPU",
    ),
    option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="device of a local model",
    ),
    option(
        "--label-scores",
        type=click.Choice(["sum", "mean", "first_token"]),
        default="sum",
        show_default=True,
        help="how a local model makes one score of the log-probabilities of a label's tokens",
    ),
)


def local_options(function: Callable[..., object]) -> Callable[..., object]:
    """Options of a local model; the function gets a `local` in their place."""

    @functools.wraps(function)
    def with_local(
        memory: int | None, dtype: str, device: str, label_scores: str, **flags: object
    ) -> object:
        return function(local=Local(memory, dtype, device, label_scores), **flags)

    for option in reversed(OPTIONS):
        with_local = option(with_local)
    return with_local
