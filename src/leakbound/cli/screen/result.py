"""A result on a screen: in colours and its width, or plain where it is piped."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from leakbound.cli.screen.output import is_verbose, printable, say

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult


def show(short: Callable[..., str], long: Callable[[], object]) -> None:
    """Print a screen that is made for a width; with -v, `long` prints all."""
    from leakbound.report.screen import WIDTH, in_colours  # not for help

    if is_verbose():
        long()
        return
    on_screen = sys.stdout.isatty()
    text = short(width=shutil.get_terminal_size().columns if on_screen else WIDTH)
    if not on_screen or os.environ.get("NO_COLOR"):
        say(text)
        return
    from rich.console import Console

    screen = Console(highlight=False, soft_wrap=True)  # it obeys TERM
    screen.print(in_colours(printable(text)))


def show_result(record: AuditResult, code: int | None = None, seconds: float | None = None) -> None:
    from leakbound.report.audit.screen import summary  # not for help

    short = partial(summary, record, code=code, seconds=seconds)
    show(short, lambda: say(summary(record, verbose=True)))
