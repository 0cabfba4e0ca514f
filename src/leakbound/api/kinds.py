"""Checks of the types of arguments; the spec checks values of files and flags."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from pathlib import Path

from leakbound._members import members_of
from leakbound.auditing.spec.audit_spec import GROUPS
from leakbound.errors import UsageError, findable
from leakbound.models import Model, open_model

_KINDS: dict[object, str] = {int: "a whole number", float: "a number", float | None: "a number"}
_NUMBERS = {
    name: _KINDS[field.annotation]
    for group in GROUPS.values()
    for name, field in group.model_fields.items()
    if field.annotation in _KINDS
} | {"budget": "a number"}


def require_numbers(given: Mapping[str, object]) -> None:
    for name, must in _NUMBERS.items():
        value = given.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
            raise UsageError(f"{name} is {value!r}; it must be {must}.")


def require_model(model: object) -> Model:
    lacks = ", ".join(name for name in members_of(Model) if not hasattr(model, name))
    if lacks or not isinstance(model, Model) or not isinstance(model.name, str):
        raise UsageError(
            f"model is {type(model).__name__}; it must be an address such as 'pocket', or a model "
            f"as leakbound.open_model returns it{lacks and f', and it lacks {lacks}'}."
        )
    return model


def as_model(model: object) -> Model:
    """The model at an address, or the one that is handed over."""
    return open_model(model) if isinstance(model, str) else require_model(model)


def require_path(name: str, value: object, must: str) -> Path:
    if not isinstance(value, str | Path):
        raise UsageError(f"{name} is {type(value).__name__}; it must be {must}.")
    if value == "":
        raise UsageError(f"{name} is empty; it must be {must}.")
    return findable(value)
