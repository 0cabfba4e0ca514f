"""The grid of a sweep: which keys of an audit change, and the settings that makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import yaml

from leakbound.auditing import AuditSpec, make_spec
from leakbound.auditing.spec import flat_keys, merge_keys
from leakbound.errors import UsageError

__all__ = ["OPTION", "Changes", "Grid", "merged", "parse_grid", "settings", "spec_of", "told"]

OPTION = "option."  # before the name of a mechanism's option
Grid = dict[str, tuple[Any, ...]]
Changes = dict[str, Any]
NEVER = {
    "rows": "give rows once, with --data",
    "options": f"name each option, as in --grid {OPTION}lam=0.5,1",
}


def parse_grid(texts: Sequence[str]) -> Grid:
    """The grid of `KEY=VALUE,VALUE` texts. Raises UsageError with a sentence."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise UsageError(
                f"--grid got {text!r}; it must be KEY=VALUE,VALUE such as --grid epsilon=1,2,4."
            )
        if key.strip() in found:
            raise UsageError(f"--grid names {key.strip()!r} twice; give all its values at once.")
        found[key.strip()] = [_scalar(value) for value in values.split(",")]
    return merged(found)


def _scalar(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def merged(*parts: Any) -> Grid:
    """One grid from mappings of keys to lists of plain values; later ones win.

    Raises UsageError with a sentence.
    """
    found: Grid = {}
    for part in parts:
        if not isinstance(part, Mapping):
            raise UsageError(
                f"the grid is {part!r}; it must hold keys and lists, such as 'epsilon: [1, 2, 4]'."
            )
        found.update({str(key): _values(str(key), values) for key, values in part.items()})
    return found


def _values(key: str, values: Any) -> tuple[Any, ...]:
    if key in NEVER:
        raise UsageError(f"a grid cannot change {key!r}; {NEVER[key]}.")
    listed = list(values) if isinstance(values, list | tuple) else [values]
    if not listed or not all(
        value is None or isinstance(value, str | int | float) for value in listed
    ):
        raise UsageError(
            f"the grid's values of {key!r} are {values!r}; they must be a list of numbers or names."
        )
    if len(set(map(str, listed))) < len(listed):
        raise UsageError(f"the grid's values of {key!r} name one value twice; leave it out once.")
    return tuple(listed)


def settings(grid: Grid) -> list[Changes]:
    """Every combination of values, the last key changing fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def spec_of(base: Mapping[str, Any], changes: Changes, seed: int) -> AuditSpec:
    """The spec of one point:

    the base, what the setting changes, and a seed. Raises UsageError with a sentence.
    """
    over = {
        "mechanism." + key.removeprefix(OPTION) if key.startswith(OPTION) else key: value
        for key, value in changes.items()
    }
    flat = merge_keys(flat_keys(base), flat_keys({**over, "seed": seed}, "the grid"))
    return make_spec(flat)


def told(changes: Changes) -> str:
    """A setting in a line."""
    return (
        ", ".join(f"{key}={'none' if value is None else value}" for key, value in changes.items())
        or "as given"
    )
