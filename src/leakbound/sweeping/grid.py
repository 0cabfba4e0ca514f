"""The grid of a sweep: which keys of an audit change, and the settings that makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import yaml
from pydantic import JsonValue

from leakbound.auditing.spec.audit_spec import yaml_value
from leakbound.errors import UsageError

Changes = dict[str, JsonValue]  # what one setting changes, by key
Grid = dict[str, tuple[JsonValue, ...]]
OPTION = "option."  # former prefix of a mechanism's option
NEVER = {
    "rows": "give rows once, with --data",
    "options": "name each option with its component, as in --grid mechanism.lam=0.5,1",
}


def parse_grid(texts: Sequence[str]) -> Grid:
    """A grid from the command line.

    Args:
        texts: `KEY=VALUE,VALUE` each. Values are read as in a configuration file.

    Raises:
        UsageError: If a text is no such list, or a key stands twice.

    Examples:
        >>> parse_grid(["epsilon=1,2.5", "mechanism.partitions=5,10"])
        {'epsilon': (1, 2.5), 'mechanism.partitions': (5, 10)}
    """
    found: dict[str, list[JsonValue]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not key.strip() or not equals or not values:
            raise UsageError(
                f"--grid got {text!r}; it must be KEY=VALUE,VALUE such as --grid epsilon=1,2,4."
            )
        if key.strip() in found:
            raise UsageError(f"--grid names {key.strip()!r} twice; give all its values at once.")
        found[key.strip()] = [_scalar(value) for value in values.split(",")]
    return merge_grids(found)


def _scalar(text: str) -> JsonValue:
    try:
        value: JsonValue = yaml_value(text)
    except yaml.YAMLError:
        return text
    return value


def merge_grids(*grids: object) -> Grid:
    """One grid from several.

    Args:
        *grids: Mappings of keys to lists of plain values, as a file or a caller wrote them; later
            ones win.

    Raises:
        UsageError: If one is not a grid.
    """
    found: Grid = {}
    for grid in grids:
        if not isinstance(grid, Mapping):
            raise UsageError(
                f"the grid is {grid!r}; it must hold keys and lists, such as "
                '{"epsilon": [1, 2, 4]}.'
            )
        found.update({str(key): _values(str(key), values) for key, values in grid.items()})
    return found


def _values(key: str, values: object) -> tuple[JsonValue, ...]:
    if key in NEVER:
        raise UsageError(f"a grid cannot change {key!r}; {NEVER[key]}.")
    if key.startswith(OPTION):
        name = f"mechanism.{key.removeprefix(OPTION)}"
        raise UsageError(f"the grid's key {key!r} is not known; it is {name!r} now.")
    listed = list(values) if isinstance(values, list | tuple) else [values]
    plain = tuple(
        value for value in listed if value is None or isinstance(value, str | int | float)
    )
    if not listed or len(plain) < len(listed):
        raise UsageError(
            f"the grid's values of {key!r} are {values!r}; they must be a list of numbers or names."
        )
    if len(set(map(str, plain))) < len(plain):
        raise UsageError(f"the grid's values of {key!r} name one value twice; give it once.")
    return plain


def settings_of(grid: Grid) -> list[Changes]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def describe(changes: Mapping[str, object]) -> str:
    """A setting in a line.

    Examples:
        >>> describe({"epsilon": 1, "score": None}), describe({})
        ('epsilon=1, score=none', 'as given')
    """
    return (
        ", ".join(f"{key}={'none' if value is None else value}" for key, value in changes.items())
        or "as given"
    )
