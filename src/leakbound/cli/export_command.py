"""leakbound export: what a finished run can be made from again."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.auditing import load_result
from leakbound.auditing.export import config_text
from leakbound.cli.help_pages import SETTINGS

__all__ = ["command"]


@click.group(context_settings=SETTINGS)
def command() -> None:
    """Write what a finished run can be made from again."""


@command.command("config")
@click.argument("run", type=click.Path(path_type=Path))
def config(run: Path) -> int:
    """Print a YAML file with which `leakbound audit --config FILE` makes this run again, in the
    same folder.
    """
    click.echo(config_text(load_result(run)), nl=False)
    return 0
