"""Checks of the types of arguments; the spec checks values of files and flags."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from pathlib import Path

from leakbound.auditing.spec.audit_spec import GROUPS
from leakbound.errors import UsageError, findable
from leakbound.models import Model, open_model
from leakbound.models.address import require_model

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


def as_model(model: object) -> Model:
    """The model at an address, or the one that is handed over."""
    return open_model(model) if isinstance(model, str) else require_model(model)


def require_path(name: str, value: object, must: str) -> Path:
    if not isinstance(value, str | Path):
        raise UsageError(f"{name} is {type(value).__name__}; it must be {must}.")
    if value == "":
        raise UsageError(f"{name} is empty; it must be {must}.")
    return findable(value)
