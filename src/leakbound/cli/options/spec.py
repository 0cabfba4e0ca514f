"""The options that commands over an AuditSpec share: one for each key, as in a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

import click
import yaml

from leakbound.auditing import AuditSpec
from leakbound.auditing.spec.audit_spec import (
    ALIASES,
    COMPONENTS,
    GROUPS,
    KEYS,
    catalogues,
    flat_keys,
    load_config,
    make_spec,
    merge_keys,
    yaml_value,
)
from leakbound.cli.options.takers import require_taken
from leakbound.cli.screen.help_pages import PATH, Decorating, Function, OptionType, option, together
from leakbound.errors import UsageError, unknown_name

# flat keys of a spec; a paired trial stands for two of a paper's trials
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "contextleak": {  # Section 3 and Appendix A.6: the strongest attack of Figure 4, 400 queries
        "query": {"kind": "input_output", "exact": True}, "canary": {"kind": "hex"},
        "shots": 20, "pairs": 200, "background_copies": 0,
    },
    "tight": {  # Sections 3.2 and 4.1: Inquery over a real row, T = 4 with two examples each
        "query": {"kind": "membership"}, "canary": {"kind": "natural"}, "shots": 8,
        "pairs": 200, "background_copies": 0, "simulations": 400_000,
    },
    "poetry": {  # Appendix E.2: likelihood of a row's own label, 20 examples, epsilon 1
        "query": {"kind": "gap"}, "canary": {"kind": "natural"}, "shots": 20, "pairs": 1000,
        "epsilon": 1.0, "background_copies": 0,
    },
}  # fmt: skip


def with_preset(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a preset beneath those that are given.

    Examples:
        >>> with_preset("tight", {"shots": 8})["canary"]
        {'kind': 'natural'}
        >>> with_preset("tight", {"shots": 9})
        Traceback (most recent call last):
        ...
        leakbound.errors.UsageError: the preset tight means shots 8, and shots 9 is \
given beside it; leave one of them out.
    """
    if name not in PRESETS:
        raise unknown_name("the preset", name, PRESETS)
    for key, value in PRESETS[name].items():
        for one, wanted, found in _both(key, value, given.get(key)):
            if found != wanted:
                raise UsageError(
                    f"the preset {name} means {one} {wanted}, and {one} {found} is given "
                    "beside it; leave one of them out."
                )
    return {
        key: value
        for key, value in PRESETS[name].items()
        if not (given.get(key) is not None and not isinstance(given[key], Mapping))
    }


def _both(key: str, value: Any, given: Any) -> list[tuple[str, Any, Any]]:
    """What a preset and the caller both say: (option, of the preset, of the caller)."""
    if given is None:
        return []
    if not isinstance(value, Mapping):
        return [(key, value, given)]
    shared = [name for name in value if name in given]
    return [(key if n == "kind" else f"{key} {n}", value[n], given[n]) for n in shared]


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


# the headings of --help-all
SECTIONS = {
    "system": "System",
    "attack": "Attack",
    "design": "Data and design",
    "decision": "Decision",
}
EXAMPLES = {"--system-option": "top_k=3", "--set": "pairs=200"}


setting = partial(option, section="Configuration")
GENERAL = (
    setting("--config", "YAML file with these options; flags take precedence", str),
    setting(
        "--set", "set any configuration key", name="assignments", multiple=True, metavar="KEY=VALUE"
    ),
    setting(
        "--preset",
        "options of a paper, in a bundle: its attack; the record shows it, and other options must "
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
        "--between",
        "one tenant plants a record and another one asks, with epsilon 0 as the claim unless one "
        "is given; the same as --design tenants",
        metavar="[tenants]",
    ),
    setting(
        "--deleted",
        "each record is planted, used and deleted before the question; claims epsilon 0 by default "
        "and stands for --design deletion",
        bool,
        None,
    ),
    setting(
        "--pilot",
        "finished run that --assume-hit and --assume-false-alarm are read from",
        PATH,
        metavar="RUN_FOLDER",
    ),
)


def spec_options(function: Function) -> Function:
    """Add --config, --set, and a flag for every key of AuditSpec."""
    return together(*GENERAL, *_keys())(function)


def _keys() -> list[Decorating]:
    found: list[Decorating] = []
    flags = {key: flag for flag, key in ALIASES.items()}
    for key, group in KEYS.items():
        info = GROUPS[group].model_fields[key]
        # private rows stay off the command line, which others can read
        if info.exclude or key == "system_options":  # these are given one by one
            continue
        default = getattr(info.default, "kind", info.default)
        shown = "" if default in (None, "", ()) else f" [default: {default}]"
        flag, kind = f"--{flags.get(key, key).replace('_', '-')}", flag_type(info.annotation)
        more = _values(key, info.annotation)
        if kind is bool:
            more["default"] = None  # not given, which is not false
            if info.default is None:
                flag = f"{flag}/--no-{flag[2:]}"
        text = f"{info.description}{shown}"
        found.append(option(flag, text, kind, name=key, section=SECTIONS[group], **more))
    return found


def _values(key: str, annotation: object) -> dict[str, Any]:
    """How the help shows what a flag takes: its few values, or the names of a catalogue."""
    if key in COMPONENTS:
        return {"metavar": "NAME[:X=Y]", "choices": lambda: catalogues()[key]}
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
    file = flat_keys(load_config(Path(config)), f"the file {config}") if config else {}
    given = merge_keys(file, overrides(assignments, flags, merge_keys(defaults, file)))
    own = given.get("address") is not None  # a system has no mechanism to choose
    spec = make_spec(given if own else merge_keys(defaults, given))
    pilot_check(flags)(spec)
    if click.get_current_context(silent=True) is not None:
        system = spec.system
        models = (system.model, system.judge_model)
        require_taken(models, system.address, config, keys_of_set(assignments))
    return spec


def keys_of_set(assignments: tuple[str, ...]) -> list[str]:
    return list(flat_keys(dict(_assignment(text, "--set") for text in assignments), "--set"))


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
    given |= _layout_named(given.pop("between", None), given.pop("deleted", False), given)
    given |= _rates_of_pilot(given.pop("pilot", None), given)
    named = [_assignment(text, "--system-option") for text in given.pop("system_arguments", ())]
    _require_once([name for name, _ in named])
    given |= {"system_options": dict(named)} if named else {}
    pairs = [_assignment(text, "--set") for text in assignments]
    _require_once([key for key, _ in pairs])
    found = merge_keys(flat_keys(dict(pairs), "--set"), flat_keys(given, "the command line"))
    if preset is None:
        return found
    return merge_keys(with_preset(preset, merge_keys(base, found)), found)


def _layout_named(
    whom: str | None, deleted: bool, given: Mapping[str, object]
) -> dict[str, object]:
    named = ([] if whom is None else [whom]) + ["deletion"] * deleted
    if whom not in (None, "tenants"):
        raise UsageError(f"--between is {whom!r}; it must be tenants.")
    if len({*named, given.get("layout", *named[:1])}) > 1:
        raise UsageError("--between, --deleted and --design name one design; give one of them.")
    return {"layout": named[0]} if named else {}


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
        raise UsageError(f"the option {twice[0]} is given twice; give it once.")


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
