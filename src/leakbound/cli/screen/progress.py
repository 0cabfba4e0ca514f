"""Progress on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from leakbound.cli.screen.output import is_quiet


@contextmanager
def progress(label: str | Callable[[], str]) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, total); a callable label is called whenever it is shown."""
    now = label if callable(label) else lambda: label
    if is_quiet():
        yield lambda done, total: None
    elif sys.stderr.isatty():
        with _bar(now) as show:
            yield show
    else:
        yield _lines(now)


@contextmanager
def _bar(label: Callable[[], str]) -> Iterator[Callable[[int, int], None]]:
    from rich import progress as parts
    from rich.console import Console

    columns = (
        parts.TextColumn("{task.description}"),
        parts.BarColumn(),
        parts.MofNCompleteColumn(),
        parts.TextColumn("pairs"),
        parts.TimeRemainingColumn(),
    )
    with parts.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label(), total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, description=label(), completed=done, total=total)

        yield show


def _lines(label: Callable[[], str]) -> Callable[[int, int], None]:
    begin = last = time.monotonic()
    first = -1

    def show(done: int, total: int) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = done if first < 0 else first
        if done < total and now - last < 2:
            return
        last = now
        rate = (done - first) / max(now - begin, 1e-9)
        left = (
            f", {rate:.1f} pairs/s, {(total - done) / rate:.0f} s left"
            if rate > 0 and done < total
            else ""
        )
        click.echo(f"{label()}: {done}/{total} pairs{left}", err=True)

    return show
