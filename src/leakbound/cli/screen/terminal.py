"""Text on a terminal: what rows, models and files say is shown, never obeyed."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

import click

DATA = "leakbound.data"  # where what is known of rows is logged

# they turn the direction of what follows
TURNS = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def printable(text: str) -> str:
    """The text with every control character but line breaks and tabs replaced, so that no escape
    sequence is left.
    """
    return "".join("�" if _commands(c) else c for c in text)


def escape(json: str) -> str:
    """JSON of the same value, in which those characters are written as \\u and their number."""
    return "".join(f"\\u{ord(c):04x}" if _commands(c) else c for c in json)


def _commands(c: str) -> bool:
    return c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cs") or c in TURNS)


def say(text: str, err: bool = False) -> None:
    """Print a line that may hold text of rows, models or files."""
    click.echo(printable(text), err=err)


class _Once(logging.Handler):
    """Prints each message on standard error, once."""

    def __init__(self) -> None:
        super().__init__()
        self.said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if (text := record.getMessage()) not in self.said:
            self.said.add(text)
            say(f"leakbound: {text}", err=True)


@contextmanager
def data_messages() -> Iterator[None]:
    """Within, what is logged of rows is printed on standard error."""
    log, handler = logging.getLogger(DATA), _Once()
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before[0])
        log.propagate = before[1]
