"""Text on a terminal: what rows, models and files say is shown, never obeyed."""

from __future__ import annotations

import unicodedata

import click

__all__ = ["printable", "say"]

TURNS = {
    chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
}  # turn the direction of what follows


def printable(text: str) -> str:
    """The text with every control character but line breaks and tabs replaced, so that no escape
    sequence is left.
    """
    return "".join("�" if _commands(c) else c for c in text)


def _commands(c: str) -> bool:
    return c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cs") or c in TURNS)


def say(text: str, err: bool = False) -> None:
    """Print a line that may hold text of rows, models or files."""
    click.echo(printable(text), err=err)
