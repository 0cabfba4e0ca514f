"""Who takes which options: those that nobody takes are refused, where they would be ignored.

An application makes its own calls. A file may name a model or mechanism as `export` writes them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import click
from click.core import ParameterSource

from leakbound.auditing.spec.audit_spec import load_endpoint
from leakbound.cli.screen.help_pages import Option
from leakbound.errors import UsageError
from leakbound.models.address import BUNDLED, is_address, options_taken

SERVER, HERE = "Model behind an address", "Local model"
# heading of options -> the parameter of open_model that they go into, and the models that take it
TAKERS = {
    SERVER: ("endpoint", "openai/<model>"),
    HERE: ("local", f"{', '.join(BUNDLED)} or hf/<folder or id>"),
}
TAKEN = ("--connections", "--timeout", "--retries", "--max-minutes")  # of these, by applications
OF_APPLICATIONS = ("rate", "disposable_store")  # they take them alone
PARTS = {"model": "asks its own model", "mechanism": "answers by itself"}  # stand for them


def require_taken(
    models: Iterable[str | None],
    application: str | None = None,
    config: str | None = None,
    keys: Collection[str] = (),
) -> None:
    """Refuse options of the command line that nobody takes; `keys`: what it sets beside flags."""
    params = click.get_current_context().params
    asked = [*(models if application is None else ()), params.get("reflection_model")]
    named = [one for one in asked if one and is_address(one)]
    used = {option for one in named for option in options_taken(one)}
    if application is not None:
        _require_of_application(application, used, config, keys)
        return
    for section, (option, what) in TAKERS.items():
        given = _on_command_line(section)
        if given and named and option not in used:
            others = [
                one.opts[-1] for at in TAKERS if TAKERS[at][0] in used for one in _options(at)
            ]
            taken = f"takes {', '.join(others)}" if others else "takes no such options"
            raise UsageError(
                f"{given[0]} is an option of {what}, and would be ignored: "
                f"{' and '.join(named)} {taken}. Leave it out, or name another model."
            )
    for name in OF_APPLICATIONS:
        if params.get(name):
            raise UsageError(
                f"--{name.replace('_', '-')} is for an application, and would be ignored: no "
                "--system is given. Name it, or leave the option out."
            )


def _require_of_application(
    address: str, used: Collection[str], config: str | None, keys: Collection[str]
) -> None:
    """Refuse what an application does not take; `used` is what a reflection model takes."""
    ctx = click.get_current_context()
    cost = ctx.params.get("max_cost")
    if cost is None and config is not None:
        cost = load_endpoint(Path(config)).get("max_cost")
    if cost is not None and "endpoint" not in used:  # a limit that nobody keeps, wherever it stands
        raise UsageError(
            f"--max-cost (or max_cost of endpoint) is {cost}, and cannot be kept: the application "
            f"{address!r} makes its own calls, and nobody knows what they cost. Leave it out, and "
            "limit the calls with --pairs, or the time with --max-minutes."
        )
    for section, (option, what) in TAKERS.items():
        given = [flag for flag in _on_command_line(section) if flag not in TAKEN]
        if given and option not in used:
            own = section == SERVER and address.startswith("http:")
            hint = "; what the service needs stands in its file (url, headers, insecure)"
            raise UsageError(
                f"{given[0]} is an option of {what}, and would be ignored: the "
                f"application {address!r} makes its own calls, and takes {', '.join(TAKEN)}. "
                f"Leave it out{hint if own else ''}."
            )
    for name, why in PARTS.items():
        by_flag = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if by_flag or name in keys:
            part = f"--{name} {ctx.params[name]}" if by_flag else f"the key {name}"
            raise UsageError(
                f"the application {address!r} {why}, and {part} is given beside it; leave one of "
                "them out."
            )


def _on_command_line(section: str) -> list[str]:
    """The options under a heading that the command line gives; the environment is no mistake."""
    source = click.get_current_context().get_parameter_source
    found = _options(section)
    return [one.opts[-1] for one in found if source(one.name or "") is ParameterSource.COMMANDLINE]


def _options(section: str) -> list[Option]:
    params = click.get_current_context().command.params
    return [one for one in params if isinstance(one, Option) and one.section == section]
