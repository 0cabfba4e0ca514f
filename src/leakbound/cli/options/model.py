"""Options of models that no chosen model takes: refused, where they would be ignored."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.core import ParameterSource

from leakbound.cli.screen.help_pages import Option
from leakbound.errors import UsageError
from leakbound.models.address import BUNDLED, is_address, options_taken

SERVER, HERE = "Model behind an address", "Local model"  # headings of the options
GO_INTO = {SERVER: "endpoint", HERE: "local"}  # parameters of open_model
KINDS = {SERVER: "openai/<model>", HERE: f"{', '.join(BUNDLED)} or hf/<folder or id>"}


def require_taken(addresses: Iterable[str | None]) -> None:
    """Refuse options on the command line that none of the models takes."""
    named = [one for one in addresses if one and is_address(one)]
    taken = {option for one in named for option in options_taken(one)}
    for section, option in GO_INTO.items():
        given = options_given(section)
        if given and named and option not in taken:
            others = [
                p.opts[-1] for at, one in GO_INTO.items() if one in taken for p in _options(at)
            ]
            _refuse(given[0], section, named, others)


def options_given(section: str) -> list[str]:
    """The options under a heading that the command line gives; the environment is no mistake."""
    source = click.get_current_context().get_parameter_source
    found = _options(section)
    return [one.opts[-1] for one in found if source(one.name or "") is ParameterSource.COMMANDLINE]


def _options(section: str) -> list[Option]:
    params = click.get_current_context().command.params
    return [one for one in params if isinstance(one, Option) and one.section == section]


def _refuse(flag: str, section: str, named: list[str], others: list[str]) -> None:
    taken = f"takes {', '.join(others)}" if others else "takes no such options"
    raise UsageError(
        f"{flag} is an option of {KINDS[section]}, and would be ignored: "
        f"{' and '.join(named)} {taken}. Leave it out, or name another model."
    )
