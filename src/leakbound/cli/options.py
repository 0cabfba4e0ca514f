"""The options that commands over an AuditSpec share: one for each key, as in a file.

Options of components are flags too: those of a mechanism by their own name (`--partitions`), those
of the others behind the component's (`--canary-digits`, `--query-repeats`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

import click
import yaml

from leakbound._catalogue import option_types
from leakbound.auditing import AuditResult, AuditSpec, load_spec
from leakbound.auditing.spec import COMPONENTS, GROUPS, KEYS, flat_keys, merge_keys
from leakbound.cli.finished_runs import finished
from leakbound.errors import UsageError
from leakbound.gating.rates import pilot_rates, require_same_attack
from leakbound.mechanisms import MechanismBase

__all__ = ["SETTINGS", "overrides", "pilot_check", "spec_from", "spec_options"]

SETTINGS = {"auto_envvar_prefix": "LEAKBOUND", "help_option_names": ["-h", "--help"]}
FLAGS = {"address": "--system"}  # flags that are not named as their key
Command = Callable[..., object]
Options = list[Callable[[Command], Command]]
OptionType = type | click.ParamType  # type: ignore[type-arg, unused-ignore]


def spec_options(function: Command) -> Command:
    """Add --config, --set, a flag for every key of AuditSpec and for each component's options."""
    for option in reversed([*_general(), *_keys(), *_component_options()]):
        function = option(function)
    return function


def _general() -> Options:
    return [
        click.option(
            "--config", type=str, default=None, help="YAML file of these options; flags win"
        ),
        click.option(
            "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="any configuration key"
        ),
        click.option(
            "--pilot",
            type=click.Path(path_type=Path),
            default=None,
            metavar="RUN_FOLDER",
            help="finished run whose rates --assume-hit and --assume-false-alarm are read from",
        ),
    ]


def _keys() -> Options:
    found: Options = []
    for key, group in KEYS.items():
        info = GROUPS[group].model_fields[key]
        if info.exclude:  # private rows stay off the command line, which others can read
            continue
        default = getattr(info.default, "kind", info.default)
        shown = "" if default in (None, "") else f" [default: {default}]"
        flag = FLAGS.get(key, f"--{key.replace('_', '-')}")
        kind: dict[str, Any] = (
            {"is_flag": True} if info.annotation is bool else {"type": _kind(info.annotation)}
        )
        found.append(
            click.option(flag, key, default=None, help=f"{info.description}{shown}", **kind)
        )
    return found


def _component_options() -> Options:
    found: Options = [
        click.option(
            "--option",
            "mechanism_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="an option of the mechanism by its name",
        )
    ]
    for component in COMPONENTS:
        for option, (kind, owners) in _options_of(component).items():
            name = option if component == "mechanism" else f"{component}_{option}"
            flag = f"--{name.replace('_', '-')}"
            if kind is bool:
                flag = f"{flag}/--no-{flag[2:]}"
            text = f"{component} option of {', '.join(owners)}"
            type_ = None if kind is bool else kind
            found.append(
                click.option(flag, f"{component}__{option}", default=None, help=text, type=type_)
            )
    return found


def _options_of(component: str) -> dict[str, tuple[OptionType, list[str]]]:
    """Options of all classes of a catalogue: their type on the command line, and whose they are."""
    found: dict[str, tuple[OptionType, list[str]]] = {}
    for name, kind in COMPONENTS[component].usable.items():
        types = _mechanism_types(kind) if component == "mechanism" else option_types(kind)
        for option, annotation in types.items():
            found.setdefault(option, (_kind(annotation), []))[1].append(name)
    return {option: one for option, one in found.items() if not _taken(component, option)}


def _mechanism_types(kind: type[object]) -> dict[str, object]:
    calibrated = kind.option_types() if issubclass(kind, MechanismBase) else {}
    return {**option_types(kind), **calibrated}


def _taken(component: str, option: str) -> bool:
    """Is the flag that of a key? Then the option is reached with --set or --option only."""
    return component == "mechanism" and (option in KEYS or option in FLAGS.values())


class _YamlValue(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A value as a configuration file writes it: a list, or a number or text."""

    name = "value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """The parsed value; text that is no YAML stays as it is."""
        try:
            return yaml.safe_load(value) if isinstance(value, str) else value
        except yaml.YAMLError:
            return value


def _kind(annotation: object) -> OptionType:
    """The click type of an annotation: its plain type, with None left out."""
    kinds = [part for part in (get_args(annotation) or (annotation,)) if part is not type(None)]
    plain = next((part for part in kinds if part in (bool, int, float)), None)
    if get_origin(annotation) is tuple or (plain is not None and str in kinds):
        return _YamlValue()
    if plain is None:
        return str
    return float if {int, float} <= set(kinds) else plain


def spec_from(
    config: str | None, assignments: tuple[str, ...], flags: Mapping[str, object]
) -> AuditSpec:
    """The spec of a command: flags over --set over environment (click's) over file.

    Args:
        config: Path of a YAML file, or None.
        assignments: Texts KEY=VALUE.
        flags: Values of the options above, None where not given.

    Returns:
        The spec.

    Raises:
        UsageError: With a sentence for whatever cannot be used, also for an option given twice.
    """
    spec = load_spec(config, overrides(assignments, flags))
    pilot_check(flags)(spec)
    return spec


def pilot_check(flags: Mapping[str, object]) -> Callable[[AuditSpec], None]:
    """What refuses an audit of which the pilot says nothing.

    Args:
        flags: Values of the options above.

    Returns:
        A function of a spec that raises UsageError; it accepts everything without --pilot.
    """
    run = flags.get("pilot")
    if not isinstance(run, Path):
        return lambda spec: None
    return partial(require_same_attack, _pilot(run))


def overrides(assignments: tuple[str, ...], flags: Mapping[str, Any]) -> dict[str, object]:
    """What the command line says, as flat keys.

    Args:
        assignments: Texts KEY=VALUE of --set.
        flags: Values of the options above.

    Returns:
        Flat keys: flags over --set.

    Raises:
        UsageError: If an option of a component is given in two ways.
    """
    given = {key: value for key, value in flags.items() if value is not None and value != ()}
    given |= _rates_of_pilot(given.pop("pilot", None), given)
    dotted = {key.replace("__", ".", 1): given.pop(key) for key in list(given) if "__" in key}
    options = [_assignment(text, "--option") for text in given.pop("mechanism_options", ())]
    _require_once([*(f"mechanism.{name}" for name, _ in options), *dotted])
    dotted.update({f"mechanism.{name}": value for name, value in options})
    by_flag = flat_keys({**given, **dotted}, "the command line")
    pairs = [_assignment(text, "--set") for text in assignments]
    _require_once([key for key, _ in pairs])
    return merge_keys(flat_keys(dict(pairs), "--set"), by_flag)


def _rates_of_pilot(run: Path | None, given: Mapping[str, object]) -> dict[str, float]:
    """The keys that stand for a pilot run."""
    if run is None:
        return {}
    if "assume_hit" in given or "assume_false_alarm" in given:
        raise UsageError(
            "--pilot reads both rates from a run, and one of them is given too; leave out --pilot, "
            "or --assume-hit and --assume-false-alarm."
        )
    found = pilot_rates(_pilot(run))
    return {"assume_hit": found.hit, "assume_false_alarm": found.false_alarm}


def _pilot(run: Path) -> AuditResult:
    """The one finished run of a folder."""
    results = finished([run])
    if len(results) > 1:
        raise UsageError(f"--pilot {str(run)!r} holds {len(results)} runs; name the folder of one.")
    return results[0]


def _require_once(keys: list[str]) -> None:
    twice = [key for at, key in enumerate(keys) if key in keys[:at]]
    if twice:
        name = twice[0].removeprefix("mechanism.")
        raise UsageError(f"the option {name} is given twice; leave it out once.")


def _assignment(text: str, flag: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        example = "partitions=5" if flag == "--option" else "pairs=200"
        raise UsageError(f"{flag} got {text!r}; it must be KEY=VALUE, such as {flag} {example}.")
    return key.strip(), yaml.safe_load(value)
