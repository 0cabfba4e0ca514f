"""The options that commands over an AuditSpec share: one for each key, as in a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import click
import yaml

from leakbound._catalogue import Component, option_types
from leakbound.auditing import AuditSpec
from leakbound.auditing.spec.audit_spec import (
    COMPONENTS,
    GROUPS,
    KEYS,
    flat_keys,
    make_spec,
    merge_keys,
)
from leakbound.auditing.spec.config_file import read_config, yaml_value
from leakbound.auditing.spec.presets import PRESETS, with_preset
from leakbound.cli.options.takers import require_taken
from leakbound.cli.screen.help_pages import PATH, Decorating, Function, OptionType, option, together
from leakbound.errors import UsageError
from leakbound.mechanisms import MechanismBase


class FlagText(str):
    """The text of a flag whose type depends on the component that is chosen."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Option:
    """An option of some classes of a catalogue, and the flag that it would have."""

    component: str
    name: str
    types: dict[str, object]

    @property
    def flag(self) -> str:
        name = self.name if self.component == "mechanism" else f"{self.component}_{self.name}"
        return f"--{name.replace('_', '-')}"

    def described(self, name: str) -> str:
        """How it is given, and the classes that have it."""
        return f"{name} of {' and '.join(self.types)}"

    def click_option(self) -> Decorating:
        """The flag; a pair of flags for what is true or false in every class."""
        kinds = [flag_type(annotation) for annotation in self.types.values()]
        switch = all(kind is bool for kind in kinds)
        flag = f"{self.flag}/--no-{self.flag[2:]}" if switch else self.flag
        return option(
            flag,
            f"option of {', '.join(self.types)}",
            None if switch else kinds[0] if all(one is kinds[0] for one in kinds) else _Chosen(),
            None,
            name=f"{self.component}__{self.name}",
            section=f"Options of the {self.component}",
        )


class _Chosen(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Text that is read once the component is known."""

    name = "value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """The text as it is."""
        return FlagText(value)


class _YamlValue(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """A value as a configuration file writes it: a list, or a number or text."""

    name = "value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """The parsed value; text that is not a YAML list, number or text stays as it is."""
        try:
            parsed = yaml.safe_load(value) if isinstance(value, str) else value
        except yaml.YAMLError:
            return value
        return value if isinstance(parsed, dict) else parsed


YAML_VALUE = _YamlValue()


def flag_type(annotation: object) -> OptionType:
    """How a flag reads values of an annotated type."""
    kinds = [part for part in (get_args(annotation) or (annotation,)) if part is not type(None)]
    plain = next((part for part in kinds if part in (bool, int, float)), None)
    if get_origin(annotation) is tuple or (plain is not None and str in kinds):
        return YAML_VALUE
    if plain is None:
        return str
    return float if {int, float} <= set(kinds) else plain


def component_options(taken: Collection[str]) -> list[Decorating]:
    """--option, and a flag for each option of a component."""
    flagged: list[_Option] = []
    without: list[_Option] = []
    used = {"--option", "--help", *taken}
    for one in (each for component in COMPONENTS for each in _options_of(component)):
        (without if one.flag in used else flagged).append(one)
        used.add(one.flag)
    first = option(
        "--option",
        "option of the mechanism, by name" + _only_way(without),
        name="mechanism_options",
        multiple=True,
        metavar="NAME=VALUE",
        section="Options of the mechanism",
    )
    return [first, *(one.click_option() for one in flagged)]


def _only_way(without: list[_Option]) -> str:
    """Which options have no flag of their own, and how they are given."""
    by_name = [one.described(one.name) for one in without if one.component == "mechanism"]
    by_key = [
        one.described(f"--set {one.component}.{one.name}=VALUE")
        for one in without
        if one.component != "mechanism"
    ]
    start = "; also those whose flag means something else here: " if by_name else ""
    return start + "; ".join(by_name) + "".join(f"; in its place {one}" for one in by_key)


def _options_of(component: str) -> list[_Option]:
    """Options of all classes of a catalogue that can be imported, with their type in each."""
    found: dict[str, dict[str, object]] = {}
    for name, kind in COMPONENTS[component].usable.items():
        for key, annotation in _types_of(kind).items():
            found.setdefault(key, {})[name] = annotation
    return [_Option(component, key, types) for key, types in found.items()]


def _types_of(kind: type[object]) -> dict[str, object]:
    """Options that have a flag; noise that is given in place of a claim has none."""
    return kind.option_types() if issubclass(kind, MechanismBase) else option_types(kind)


def read_flags(values: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    """Read the flags whose type depends on the component that is chosen."""
    return {
        key: {option: _read(key, option, one, values, base) for option, one in value.items()}
        if key in COMPONENTS and isinstance(value, Mapping)
        else value
        for key, value in values.items()
    }


def _read(
    component: str, option: str, value: object, values: Mapping[str, Any], base: Mapping[str, Any]
) -> object:
    if not isinstance(value, FlagText):
        return value
    name = _choose(component, values, base)
    catalogue = COMPONENTS[component]
    types = _types_of(catalogue[name]) if name in catalogue else {}
    kind = flag_type(types[option]) if option in types else YAML_VALUE
    hint = _Option(component, option, {}).flag
    try:
        return click.types.convert_type(kind).convert(str(value), None, None)
    except click.BadParameter as error:
        raise click.BadParameter(
            f"{error.message.rstrip('.')}, which {name} needs.", param_hint=hint
        ) from None


def _choose(component: str, values: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """The name of a component: of the command line, else of the file, else the default."""
    default: Component | None = GROUPS[KEYS[component]].model_fields[component].default
    kinds = [
        str(one["kind"])
        for one in (values[component], base.get(component))
        if isinstance(one, Mapping) and "kind" in one
    ]
    return (kinds or [default.kind if default else ""])[0]


# flags that are not named as their key
FLAGS = {"address": "--system", "layout": "--design", "channels": "--channel"}
# the headings of --help-all
SECTIONS = {
    "system": "System",
    "attack": "Attack",
    "design": "Data and design",
    "decision": "Decision",
}
EXAMPLES = {"--option": "partitions=5", "--system-option": "top_k=3", "--set": "pairs=200"}


setting = partial(option, section="Configuration")
GENERAL = (
    setting("--config", "YAML file with these options; flags take precedence", str),
    setting(
        "--set",
        "set any configuration key",
        name="assignments",
        multiple=True,
        metavar="KEY=VALUE",
    ),
    setting(
        "--preset",
        "attack of a paper, as a bundle of options, which the record shows; other options must "
        "not contradict it",
        metavar=f"[{'|'.join(PRESETS)}]",
    ),
    setting(
        "--system-option",
        "argument for the class, factory or function of --system",
        name="system_arguments",
        multiple=True,
        metavar="NAME=VALUE",
    ),
    setting(
        "--pilot",
        "finished run that --assume-hit and --assume-false-alarm are read from",
        PATH,
        metavar="RUN_FOLDER",
    ),
)


def spec_options(function: Function, reserved: Collection[str] = ()) -> Function:
    """Add --config, --set, a flag for every key of AuditSpec and for each component's options."""
    own = [*GENERAL, *_keys()]
    function = together(*own)(function)
    params: list[click.Parameter] = function.__click_params__  # type: ignore[attr-defined]
    count = len(params)
    taken = {flag for one in params for flag in (*one.opts, *one.secondary_opts)}
    function = together(*component_options({*taken, *reserved}))(function)
    params[:] = [*params[: count - len(own)], *params[count:], *params[count - len(own) : count]]
    return function


def _keys() -> list[Decorating]:
    found: list[Decorating] = []
    for key, group in KEYS.items():
        info = GROUPS[group].model_fields[key]
        # private rows stay off the command line, which others can read
        if info.exclude or key == "system_options":  # these are given one by one
            continue
        default = getattr(info.default, "kind", info.default)
        shown = "" if default in (None, "", ()) else f" [default: {default}]"
        flag, kind = FLAGS.get(key, f"--{key.replace('_', '-')}"), flag_type(info.annotation)
        more = _values(key, info.annotation)
        if info.annotation == tuple[str, ...] | None:  # given once for each name
            kind, more = str, {"multiple": True, "metavar": "NAME"}
        if kind is bool:
            more["default"] = None  # not given, which is not false
        text = f"{info.description}{shown}"
        found.append(option(flag, text, kind, name=key, section=SECTIONS[group], **more))
    return found


def _values(key: str, annotation: object) -> dict[str, Any]:
    """How the help shows what a flag takes: its few values, or the names of a catalogue."""
    if key in COMPONENTS:
        return {"metavar": "NAME", "choices": COMPONENTS[key].usable}
    parts = [annotation, *get_args(annotation)]
    values = [one for part in parts if get_origin(part) is Literal for one in get_args(part)]
    return {"metavar": f"[{'|'.join(values)}]"} if values else {}


def spec_from(
    config: str | None,
    assignments: tuple[str, ...],
    flags: Mapping[str, object],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> AuditSpec:
    """The spec of a command: flags over --set over environment (click's) over file."""
    if config == "":
        raise UsageError("--config is empty; name a YAML file, or leave it out.")
    file = flat_keys(read_config(Path(config)), f"the file {config}") if config else {}
    given = merge_keys(file, overrides(assignments, flags, merge_keys(defaults, file)))
    own = given.get("address") is not None  # a system has no mechanism to choose
    spec = make_spec(given if own else merge_keys(defaults, given))
    pilot_check(flags)(spec)
    if click.get_current_context(silent=True) is not None:
        system = spec.system
        models = (system.model, system.judge_model)
        require_taken(models, system.address, config, assigned(assignments))
    return spec


def assigned(assignments: tuple[str, ...]) -> list[str]:
    """The keys of --set."""
    flat = flat_keys(dict(_assignment(text, "--set") for text in assignments), "--set")
    return list(flat)


def pilot_check(flags: Mapping[str, object]) -> Callable[[AuditSpec], None]:
    """What refuses an audit of which the pilot says nothing."""
    run = flags.get("pilot")
    if not isinstance(run, Path):
        return lambda spec: None
    from leakbound.cli.screen.finished_runs import one_result
    from leakbound.gating.rates import require_same_attack

    return partial(require_same_attack, one_result(run, "--pilot "))


def overrides(
    assignments: tuple[str, ...],
    flags: Mapping[str, Any],
    base: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, object]:
    """What the command line says, as flat keys."""
    given = {key: value for key, value in flags.items() if value is not None and value != ()}
    preset = given.pop("preset", None)
    given |= _rates_of_pilot(given.pop("pilot", None), given)
    given |= _system_options(given.pop("system_arguments", ()))
    dotted = {key.replace("__", ".", 1): given.pop(key) for key in list(given) if "__" in key}
    options = [_assignment(text, "--option") for text in given.pop("mechanism_options", ())]
    _require_once([*(f"mechanism.{name}" for name, _ in options), *dotted])
    dotted.update({f"mechanism.{name}": value for name, value in options})
    by_flag = flat_keys({**given, **dotted}, "the command line")
    pairs = [_assignment(text, "--set") for text in assignments]
    _require_once([key for key, _ in pairs])
    found = read_flags(merge_keys(flat_keys(dict(pairs), "--set"), by_flag), base)
    if preset is None:
        return found
    return merge_keys(with_preset(preset, merge_keys(base, found)), found)


def _system_options(texts: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """The key that --system-option stands for."""
    found = [_assignment(text, "--system-option") for text in texts]
    _require_once([name for name, _ in found])
    return {"system_options": dict(found)} if found else {}


def _rates_of_pilot(run: Path | None, given: Mapping[str, object]) -> dict[str, float]:
    """The keys that stand for a pilot run."""
    if run is None:
        return {}
    if "assume_hit" in given or "assume_false_alarm" in given:
        raise UsageError(
            "--pilot reads both rates from a run, and one of them is given too; leave out --pilot, "
            "or --assume-hit and --assume-false-alarm."
        )
    from leakbound.cli.screen.finished_runs import one_result
    from leakbound.gating.rates import pilot_rates

    found = pilot_rates(one_result(run, "--pilot "))
    return {"assume_hit": found.hit, "assume_false_alarm": found.false_alarm}


def _require_once(keys: list[str]) -> None:
    twice = [key for at, key in enumerate(keys) if key in keys[:at]]
    if twice:
        name = twice[0].removeprefix("mechanism.")
        raise UsageError(f"the option {name} is given twice; give it once.")


def _assignment(text: str, flag: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        example = EXAMPLES[flag]
        raise UsageError(f"{flag} got {text!r}; it must be KEY=VALUE, such as {flag} {example}.")
    try:
        return key.strip(), yaml_value(value)
    except yaml.YAMLError:
        raise UsageError(
            f"{flag} got {text!r}, whose value is not YAML; close its brackets and quotes, or put "
            f"a plain text in quotes: {flag} \"{key.strip()}='...'\"."
        ) from None
