"""Checks of the types of arguments; the spec checks values of files and flags."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar, get_args, get_origin

from leakbound.auditing.spec.audit_spec import GROUPS, KEYS, catalogues
from leakbound.errors import LeakboundError, UsageError, findable
from leakbound.models import Endpoint, Model, open_model
from leakbound.models.address import require_model

_KINDS: dict[object, str] = {int: "a whole number", float: "a number", float | None: "a number"}
_NUMBERS = {
    name: _KINDS[field.annotation]
    for group in GROUPS.values()
    for name, field in group.model_fields.items()
    if field.annotation in _KINDS
} | {"budget": "a number"}


P = ParamSpec("P")
R = TypeVar("R")
OTHERS = {"between": "design"}  # in Python
OPTION = re.compile(r"(?<![\w-])--([a-z]+(?:-[a-z]+)*)(; in Python, )?(?: ([\w.:,=]*\w)(?!\())?")
OTHER_VALUES = {"classification", "generation", "split", "unpaired"}
KEY = re.compile(r" \(the key \w+\)")  # which a configuration has for a parameter


def in_python(function: Callable[P, R]) -> Callable[P, R]:
    """Errors of its calls name parameters, or keys of settings, where they name options."""

    def name_of(option: re.Match[str]) -> str:
        name, value = OTHERS.get(option[1], option[1].replace("-", "_")), option[3] or ""
        if option[2]:
            return value
        plain = name in inspect.signature(call).parameters or name not in KEYS
        if not _is_value(value):
            return (name if plain else f'settings["{name}"]') + " " * bool(value) + value
        shown = value if value[0].isdigit() else f'"{value}"'
        comma = "," * option.string[option.end() :].startswith(" --")
        return (f"{name}={shown}" if plain else f'settings={{"{name}": {shown}}}') + comma

    @functools.wraps(function)
    def call(*args: P.args, **given: P.kwargs) -> R:
        try:
            return function(*args, **given)
        except LeakboundError as error:
            error.args = (KEY.sub("", OPTION.sub(name_of, str(error))), *error.args[1:])
            raise

    return call


def _is_value(word: str) -> bool:  # and not the next word of a sentence
    named = {one for catalogue in catalogues().values() for one in catalogue.usable}
    chosen = {one for group in GROUPS.values() for field in group.model_fields.values()
              for part in (field.annotation, *get_args(field.annotation))
              if get_origin(part) is Literal for one in get_args(part)}  # fmt: skip
    return word in named | chosen | OTHER_VALUES or bool(re.search(r"\d|\w[:,=]\w", word))


def require_numbers(given: Mapping[str, object]) -> None:
    for name, must in _NUMBERS.items():
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
            raise UsageError(f"{name} is {value!r}; it must be {must}.")


def as_model(model: object, endpoint: Endpoint | None = None) -> Model:
    """The model at an address, or the one that is handed over."""
    return open_model(model, endpoint=endpoint) if isinstance(model, str) else require_model(model)


def require_path(name: str, value: object, must: str) -> Path:
    if not isinstance(value, str | Path):
        raise UsageError(f"{name} is {type(value).__name__}; it must be {must}.")
    if value == "":
        raise UsageError(f"{name} is empty; it must be {must}.")
    return findable(value)
