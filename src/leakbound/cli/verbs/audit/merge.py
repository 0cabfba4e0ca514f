"""leakbound merge: shards of an audit or of a sweep joined into its record."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.auditing.shards import merge
from leakbound.cli.screen.help_pages import PATH, cli_command, option
from leakbound.cli.verbs.audit.audit import finish
from leakbound.cli.verbs.audit.sweep import finish_sweep
from leakbound.sweeping import has_shards, merge_sweeps


@cli_command("shards/1 shards/2 --out runs")
@click.argument("folders", nargs=-1, required=True,
                type=click.Path(path_type=Path, exists=True, file_okay=False))  # fmt: skip
@option(
    "--out",
    "folder to write into: of the runs that the merged one is added to",
    PATH,
    required=True,
)
def command(folders: tuple[Path, ...], out: Path) -> int:
    """Join the folders that `audit --shard` or `sweep --shard` wrote, and report as an unsharded
    run would have.

    No model is asked. Ends like audit: with 0 (no violation), 1 (violation) or 3 (inconclusive);
    with 2 where shards are missing.
    """
    if any(map(has_shards, folders)):
        return finish_sweep(merge_sweeps(folders, out), out)
    return finish(*merge(folders, out))
