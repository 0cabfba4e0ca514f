"""Options that an application does not take, or takes alone: refused where they would be ignored.

An application makes its own calls. A file may name a model or mechanism as `export` writes them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click
from click.core import ParameterSource

from leakbound.auditing.spec.config_file import read_endpoint
from leakbound.cli.options.model import GO_INTO, KINDS, SERVER, options_given
from leakbound.errors import UsageError
from leakbound.models.address import is_address, options_taken

TAKEN = ("--connections", "--timeout", "--retries", "--max-minutes")
OF_SYSTEMS = ("rate", "disposable_store")
PARTS = {"model": "asks its own model", "mechanism": "answers by itself"}


def require_taken_by_system(
    address: str, config: str | None = None, keys: Collection[str] = ()
) -> None:
    """Refuse options beside an application that only models and mechanisms take."""
    reflection = click.get_current_context().params.get("reflection_model")
    used = options_taken(reflection) if reflection and is_address(reflection) else ()
    if "endpoint" not in used:
        _require_no_cost(address, config)
    for section, option in GO_INTO.items():
        given = [flag for flag in options_given(section) if flag not in TAKEN]
        if given and option not in used:
            raise UsageError(
                f"{given[0]} is an option of {KINDS[section]}, and would be ignored: the "
                f"application {address!r} makes its own calls, and takes {', '.join(TAKEN)}. "
                f"Leave it out{_hint(address, section)}."
            )
    _require_no_part(address, keys)


def require_no_system_options() -> None:
    """Refuse options that an application takes alone, where there is none."""
    params = click.get_current_context().params
    for name in OF_SYSTEMS:
        if params.get(name):
            raise UsageError(
                f"--{name.replace('_', '-')} is for an application, and would be ignored: no "
                "--system is given. Name it, or leave the option out."
            )


def _require_no_cost(address: str, config: str | None) -> None:
    """A limit that nobody keeps is refused wherever it stands, as it is there to save money."""
    cost = click.get_current_context().params.get("max_cost")
    if cost is None and config is not None:
        cost = read_endpoint(Path(config)).get("max_cost")
    if cost is not None:
        raise UsageError(
            f"--max-cost (or max_cost of endpoint) is {cost}, and cannot be kept: the application "
            f"{address!r} makes its own calls, and nobody knows what they cost. Leave it out, and "
            "limit the calls with --pairs, or the time with --max-minutes."
        )


def _require_no_part(address: str, keys: Collection[str]) -> None:
    ctx = click.get_current_context()
    for name, why in PARTS.items():
        named = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if named or name in keys:
            given = f"--{name} {ctx.params[name]}" if named else f"the key {name}"
            raise UsageError(
                f"the application {address!r} {why}, and {given} is given beside it; leave one of "
                "them out."
            )


def _hint(address: str, section: str) -> str:
    """Where a service has what models behind an address have as options."""
    if section != SERVER or not address.startswith("http:"):
        return ""
    return "; what the service needs stands in its file (url, headers, insecure)"
