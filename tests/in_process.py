"""Run a command of `leakbound` in this process, where its own exception is looked at."""

from __future__ import annotations

from click.testing import CliRunner, Result

from leakbound.cli.main import group

__all__ = ["run"]


def run(*args: str) -> Result:
    """What a command prints, returns and raises."""
    return CliRunner().invoke(group, args, prog_name="leakbound", standalone_mode=False)
