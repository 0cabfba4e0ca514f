"""What a command prints: text, nothing (--quiet), one JSON value (--json), or more (--verbose)."""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource
from pydantic_core import to_jsonable_python

from leakbound._version import __version__
from leakbound.auditing.store.folder import write_private
from leakbound.cli.screen.terminal import escape, say
from leakbound.errors import StoreError, reason_of

# key of a context: the standard output that `output` set aside
SCREEN = "leakbound.cli.screen.terminal"
AS_JSON, QUIET, VERBOSE = "as_json", "quiet", "verbose"


def _flag(key: str, *names: str, text: str) -> Callable[[], click.Option]:
    """A flag whose value is kept in the context, where no command has to hand it on."""

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
        text="Print the version and the given options on standard error.",
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
        plain = to_jsonable_python(value, inf_nan_mode="strings")
        text = json.dumps(plain, indent=2, ensure_ascii=False)
        click.echo(escape(text), file=meta[SCREEN])


def is_verbose() -> bool:
    """Whether the running command prints more than usual."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(VERBOSE))


def is_quiet() -> bool:
    """Whether the running command prints neither text nor progress."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and bool(ctx.meta.get(QUIET))


def _setting(ctx: click.Context) -> str:
    """Version, Python and the options that were given, with who gave them."""
    given = [
        f"{param.opts[-1]} ({source.name.lower()})"
        for param in ctx.command.params
        if isinstance(param, click.Option)
        and (source := ctx.get_parameter_source(param.name or "")) is not None
        and source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    ]
    where = f"Python {platform.python_version()}, {platform.system()}"
    return f"leakbound {__version__}, {where}; options given: {', '.join(given) or 'none'}"
