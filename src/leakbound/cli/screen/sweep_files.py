"""The files that a sweep's record becomes: page, table, figures."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.cli.screen.help_pages import option
from leakbound.cli.screen.output import write_output
from leakbound.errors import UsageError
from leakbound.report.sweep.figures import FORMATS, figure_files
from leakbound.report.sweep.page import sweep_page
from leakbound.sweeping import SweepRecord, sweep_csv


def _formats(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if strange := [name for name in names if name not in FORMATS]:
        raise UsageError(
            f"--figures got {strange[0]!r}; it must be a list of {', '.join(FORMATS)}."
        )
    return names


figures_option = option(
    "--figures",
    f"also write the figures of a sweep as {', '.join(FORMATS)} (csv: their numbers)",
    default="",
    callback=_formats,
    metavar="LIST",
)


def write_sweep(
    record: SweepRecord, page: Path, formats: tuple[str, ...], flag: str = "--out"
) -> list[Path]:
    """The page, and beside it the table as CSV and the figures in these formats; their paths."""
    figures = figure_files(record, formats)
    texts: dict[Path, str | bytes] = {
        page: sweep_page(record),
        page.with_suffix(".csv"): sweep_csv(record),
        **{page.parent / "figures" / name: made for name, made in figures.items()},
    }
    for path, text in texts.items():
        write_output(path, text, flag)
    return [*texts]
