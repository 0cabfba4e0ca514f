"""The result of an audit on a screen: in colours and its width, or plain where it is piped."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

from leakbound.cli.screen.output import is_verbose, printable, say

if TYPE_CHECKING:
    from leakbound.auditing import AuditResult


def show_result(record: AuditResult, code: int | None = None, seconds: float | None = None) -> None:
    from leakbound.report.audit.screen import WIDTH, in_colours, summary  # not for help

    on_screen = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_screen else WIDTH
    text = summary(record, is_verbose(), code=code, seconds=seconds, width=width)
    if not on_screen or is_verbose() or os.environ.get("NO_COLOR"):
        say(text)
        return
    from rich.console import Console

    screen = Console(highlight=False, soft_wrap=True)  # it obeys TERM
    screen.print(in_colours(printable(text), record.verdict))
