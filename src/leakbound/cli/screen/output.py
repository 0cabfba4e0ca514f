"""What a command prints: text, nothing (--quiet), one JSON value (--json), or more (--verbose).

What rows, models and files say is shown on a terminal, never obeyed.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import logging
import os
import platform
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from leakbound._files import write_private
from leakbound._version import __version__
from leakbound.errors import StoreError, reason_of

# key of a context: the standard output that `output` set aside
SCREEN = "leakbound.cli.screen.output"
AS_JSON, QUIET, VERBOSE = "as_json", "quiet", "verbose"


DATA = "leakbound.data"  # where what is known of rows is logged
# they turn the direction of what follows
TURNS = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def printable(text: str) -> str:
    """The text without control characters but line breaks and tabs: no escape sequence is left."""
    return "".join("�" if _commands(c) else c for c in text)


def escape(json: str) -> str:
    """JSON of the same value, in which those characters are written as \\u and their number."""
    return "".join(f"\\u{ord(c):04x}" if _commands(c) else c for c in json)


def _commands(c: str) -> bool:
    return c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cs") or c in TURNS)


# what stands for signs that the encoding of a terminal or pipe lacks; "?" for others
PLAIN = {
    "ε": "eps", "δ": "delta", "μ": "mu", "λ": "lambda", "≥": ">=", "≤": "<=", "×": "x",
    "✗": "x", "✓": "+", "·": "-", "…": "...", "–": "-", "—": "-", "→": "->", "“": '"', "”": '"',
    "’": "'", "█": "#", **dict.fromkeys("▏▎▍▌▋▊▉", "#"),
}  # fmt: skip


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(PLAIN.get(c, "?") for c in unknown), error.end


def write_any_text() -> None:
    codecs.register_error("leakbound", _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="leakbound")


def say(text: str, err: bool = False) -> None:
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


# its value is kept in the context, where no command has to hand it on
def _flag(key: str, *names: str, text: str) -> Callable[[], click.Option]:

    def note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.meta[key] = value

    return partial(click.Option, names, is_flag=True, expose_value=False, callback=note, help=text)


def write_output(path: Path, text: str | bytes, flag: str = "--out") -> None:
    """Write a file of results that only its owner can read, and the folders it needs."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path, text)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise StoreError(
            f"{str(path)!r} cannot be written ({reason_of(error)}); name another file with {flag}."
        ) from None


OUTPUT_OPTIONS = (
    _flag(AS_JSON, "--json", text="Print one JSON value instead of text."),
    _flag(
        QUIET,
        "-q",
        "--quiet",
        text="Print only errors and warnings; the exit code holds the result.",
    ),
    _flag(
        VERBOSE,
        "-v",
        "--verbose",
        text="Print all sentences of a result, and on standard error the version and the options.",
    ),
)


@contextmanager
def output(ctx: click.Context) -> Iterator[None]:
    """Within, a command prints what its options say."""
    if ctx.meta.get(VERBOSE):
        say(_setting(ctx), err=True)
    if not ctx.meta.get(QUIET) and not ctx.meta.get(AS_JSON):
        yield
        return
    ctx.meta[SCREEN] = sys.stdout
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        yield


def emit(value: object) -> None:
    """Print a value as JSON, where --json asks for it."""
    ctx = click.get_current_context(silent=True)
    meta = ctx.meta if ctx is not None else {}
    if meta.get(AS_JSON):
        from pydantic_core import to_jsonable_python  # not for help

        plain = to_jsonable_python(value, inf_nan_mode="strings")
        screen = meta[SCREEN]
        ascii_only = codecs.lookup(screen.encoding or "utf-8").name != "utf-8"
        text = json.dumps(plain, indent=2, ensure_ascii=ascii_only)
        click.echo(escape(text), file=screen)


def emit_error(args: Sequence[str], code: int, message: str) -> None:
    if "--json" in args:  # the arguments may be wrong
        click.echo(json.dumps({"error": {"code": code, "message": message}}, indent=2))


def is_verbose() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(VERBOSE))


def is_quiet() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(QUIET))


def _setting(ctx: click.Context) -> str:
    given = [
        f"{param.opts[-1]} ({source.name.lower()})"
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and (source := ctx.get_parameter_source(param.name or "")) is not None
        and source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    ]
    where = f"Python {platform.python_version()}, {platform.system()}"
    return f"leakbound {__version__}, {where}; options given: {', '.join(given) or 'none'}"
