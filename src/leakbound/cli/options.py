"""The options that commands over an AuditSpec share:

one for every field, so command line and file never drift apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click
import yaml

from leakbound.auditing import AuditSpec, load_spec
from leakbound.errors import UsageError

__all__ = ["SETTINGS", "overrides", "spec_from", "spec_options"]

SETTINGS = {"auto_envvar_prefix": "CONTEXTLEAK", "help_option_names": ["-h", "--help"]}


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--config, --set, and an option for every field of AuditSpec."""
    assign = click.option(
        "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="any configuration key"
    )
    function = assign(function)
    function = click.option(
        "--config", type=str, default=None, help="YAML file of these options; flags win"
    )(function)
    for name, info in reversed(AuditSpec.model_fields.items()):
        if (
            info.exclude
        ):  # private rows stay off the command line, which other users of the machine can read
            continue
        shown = "" if info.default in (None, "") else f" [default: {info.default}]"
        flag, text = f"--{name.replace('_', '-')}", f"{info.description}{shown}"
        if name == "options":
            many = click.option(
                "--option", name, multiple=True, metavar="NAME=VALUE", help=str(info.description)
            )
            function = many(function)
            continue
        kind: dict[str, Any] = (
            {"is_flag": True} if info.annotation is bool else {"type": _kind(info.annotation)}
        )
        function = click.option(flag, name, default=None, help=text, **kind)(function)
    return function


def _kind(annotation: Any) -> Any:
    """The click type of a spec field: its plain type, with None left out."""
    inner = [part for part in get_args(annotation) if part in (str, int, float)] or [annotation]
    return inner[0] if inner[0] in (str, int, float) else str


def spec_from(config: str | None, assignments: tuple[str, ...], flags: dict[str, Any]) -> AuditSpec:
    """Flags over --set over environment (click's) over file."""
    return load_spec(config, overrides(assignments, flags))


def overrides(assignments: tuple[str, ...], flags: dict[str, Any]) -> dict[str, Any]:
    """What the command line says: flags over --set."""
    given = {name: value for name, value in flags.items() if value is not None and value != ()}
    if "options" in given:
        given["options"] = dict(map(_assignment, given["options"]))
    return {**dict(map(_assignment, assignments)), **given}


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set got {text!r}; it must be KEY=VALUE, such as --set pairs=200.")
    return key.strip(), yaml.safe_load(value)
