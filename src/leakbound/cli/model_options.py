"""Options of models that no chosen model takes: refused, where they would be ignored."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.core import ParameterSource

from leakbound.cli.help_pages import Option
from leakbound.errors import UsageError
from leakbound.models.address import BUNDLED, is_address, options_taken

__all__ = ["require_taken"]

SERVER, HERE = "Model behind an address", "Local model"  # headings of the options
GO_INTO = {SERVER: "endpoint", HERE: "local"}  # parameters of open_model
KINDS = {SERVER: "openai/<model>", HERE: f"{', '.join(BUNDLED)} or hf/<folder or id>"}


def require_taken(addresses: Iterable[str | None]) -> None:
    """Refuse options on the command line that none of the models takes.

    Args:
        addresses: Of all models that the command opens.

    Raises:
        UsageError: If an option would be ignored.
    """
    named = [one for one in addresses if one and is_address(one)]
    taken = {option for one in named for option in options_taken(one)}
    for section, option in GO_INTO.items():
        given = _flags(section, given=True)
        if given and named and option not in taken:
            others = [flag for at, one in GO_INTO.items() if one in taken for flag in _flags(at)]
            _refuse(given[0], section, named, others)


def _flags(section: str, given: bool = False) -> list[str]:
    """Options under a heading; those that the command line gives, or all."""
    ctx = click.get_current_context()
    return [
        param.opts[-1]
        for param in ctx.command.params
        if isinstance(param, Option) and param.section == section
        if not given
        or ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    ]  # fmt: skip


def _refuse(flag: str, section: str, named: list[str], others: list[str]) -> None:
    taken = f"takes {', '.join(others)}" if others else "takes no such options"
    raise UsageError(
        f"{flag} is an option of {KINDS[section]}, and would be ignored: "
        f"{' and '.join(named)} {taken}. Leave it out, or name another model."
    )
