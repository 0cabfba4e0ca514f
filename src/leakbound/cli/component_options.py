"""Flags for the options of components: those of a mechanism by their own name (`--partitions`),
those of the others behind the component's (`--canary-digits`).

A flag of the command itself wins over an option of the same name, which is then set by --option or
--set. Where components give one name different types, the component that is chosen decides how the
flag is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import click
import yaml

from leakbound._catalogue import Component, option_types
from leakbound.auditing.spec import COMPONENTS, GROUPS, KEYS
from leakbound.cli.help_pages import in_section
from leakbound.mechanisms import MechanismBase

OptionType = type | click.ParamType  # type: ignore[type-arg, unused-ignore]
Decorator = Callable[[Callable[..., object]], Callable[..., object]]


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

    def click_option(self) -> Decorator:
        """The flag; a pair of flags for what is true or false in every class."""
        kinds = [flag_type(annotation) for annotation in self.types.values()]
        switch = all(kind is bool for kind in kinds)
        flag = f"{self.flag}/--no-{self.flag[2:]}" if switch else self.flag
        return in_section(f"Options of the {self.component}")(
            flag,
            f"{self.component}__{self.name}",
            default=None,
            help=f"option of {', '.join(self.types)}",
            type=None if switch else kinds[0] if _alike(kinds) else _Chosen(),
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


def _alike(kinds: list[OptionType]) -> bool:
    return all(kind is kinds[0] for kind in kinds)


def component_options(taken: Collection[str]) -> list[Decorator]:
    """--option, and a flag for each option of a component."""
    flagged: list[_Option] = []
    without: list[_Option] = []
    used = {"--option", "--help", *taken}
    for option in (one for component in COMPONENTS for one in _options_of(component)):
        (without if option.flag in used else flagged).append(option)
        used.add(option.flag)
    text = "option of the mechanism, by name" + _only_way(without)
    first = in_section("Options of the mechanism")(
        "--option", "mechanism_options", multiple=True, metavar="NAME=VALUE", help=text
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
        for option, annotation in _types_of(kind).items():
            found.setdefault(option, {})[name] = annotation
    return [_Option(component, option, types) for option, types in found.items()]


def _types_of(kind: type[object]) -> dict[str, object]:
    calibrated = kind.option_types() if issubclass(kind, MechanismBase) else {}
    return {**option_types(kind), **calibrated}


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
    name = _chosen(component, values, base)
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


def _chosen(component: str, values: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    """The name of a component: of the command line, else of the file, else the default."""
    default: Component | None = GROUPS[KEYS[component]].model_fields[component].default
    kinds = [
        str(one["kind"])
        for one in (values[component], base.get(component))
        if isinstance(one, Mapping) and "kind" in one
    ]
    return (kinds or [default.kind if default else ""])[0]
