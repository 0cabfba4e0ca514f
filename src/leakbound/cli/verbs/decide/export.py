"""leakbound export: a finished run in the formats of others, and what it can be made from again."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import click
import yaml

from leakbound.auditing.result.audit_result import config_text
from leakbound.cli.screen.finished_runs import one_result
from leakbound.cli.screen.help_pages import SETTINGS, subcommand
from leakbound.cli.screen.output import emit

RUN = click.argument("run", type=click.Path(path_type=Path))
EXPORTS = "leakbound.exports"


class Exports(click.Group):
    """Its own commands, and those that other packages register as `leakbound.exports`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *sorted(entry_points(group=EXPORTS).names)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        entries = entry_points(group=EXPORTS, name=cmd_name)
        return found or next((entry.load() for entry in entries), None)


@click.group(cls=Exports, context_settings=SETTINGS)
def command() -> None:
    """Write a finished run in the formats of others, or what it can be made from again.

    Each command prints to the standard output and reads the record alone; --json prints YAML as
    JSON.
    """


@subcommand(command, "config", "runs/NAME > audit.yaml")
@RUN
def config(run: Path) -> int:
    """Print a YAML file with which `leakbound audit --config FILE` makes this run again, in the
    same folder.
    """
    text = config_text(one_result(run))
    click.echo(text, nl=False)
    emit(yaml.safe_load(text))
    return 0
