"""What several audits share, and grids whose values may be objects; the record names each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from leakbound._catalogue import Component
from leakbound.api.audits import describe_call, require_known, require_relation, system_name
from leakbound.api.parameters import Rows
from leakbound.attacks import Attack
from leakbound.auditing import AuditSpec, Claim
from leakbound.auditing.build import Handed
from leakbound.auditing.spec import COMPONENTS, flat_keys
from leakbound.errors import UsageError
from leakbound.models import Model
from leakbound.sweeping import Described, SweepObjects
from leakbound.systems import SystemMechanism
from leakbound.tasks import Task, as_context

# keys whose values may be objects; an attack and a claim are several keys at once
OBJECTS = frozenset({*COMPONENTS, "system", "model", "task", "attack", "claim"})
BESIDE = ("guarantee", "access")  # parameters of a system, also where the grid lists systems
CLEARED: dict[str, dict[str, object]] = {  # keys of the base that an object of the grid overrides
    "attack": {"score": None},
    "system": {"address": None},
}
_Keys = dict[str, object]


def shared_keys(
    what: str, rows: Rows | None, parameters: Mapping[str, object], settings: object
) -> tuple[_Keys, Handed]:
    """Keys and objects of a call that may give any key in `settings`."""
    require_known(parameters, what)
    if not isinstance(settings, Mapping | None):
        raise UsageError(
            f"settings is {type(settings).__name__}; it must be a mapping of keys, such as "
            '{"canary.digits": 8}.'
        )
    others = {str(key): value for key, value in (settings or {}).items()}
    objects = {key: value for key, value in others.items() if _is_object(key, value)}
    plain = {key: value for key, value in others.items() if key not in objects}
    twice = sorted({*others} & {key for key in parameters if parameters[key] is not None})
    if twice:
        raise UsageError(f"{what} is given {twice[0]}, and settings has it too; leave one out.")
    keys, handed = describe_call({**parameters, **objects})
    if rows is not None:
        handed = handed.including("rows", as_context(rows))
    return flat_keys({**plain, **_mergeable(keys)}), handed


def of_all_points(grid: object, parameters: Mapping[str, object]) -> Mapping[str, object]:
    """The parameters that speak of all points alike."""
    if isinstance(grid, Mapping) and "system" in grid:
        return {key: value for key, value in parameters.items() if key != "guarantee"}
    return parameters


def name_objects(grid: object) -> object:
    """A grid with a name in place of each object."""
    if not isinstance(grid, Mapping):
        return grid
    return {
        key: [_name(str(key), one) if _is_object(key, one) else one for one in _listed(values)]
        for key, values in grid.items()
    }


def describe_grid(
    grid: object, shared: Handed, parameters: Mapping[str, object], base: Mapping[str, object]
) -> SweepObjects:
    """What the objects of a grid stand for."""
    listed = grid if isinstance(grid, Mapping) else {}
    _require_one_answerer(listed, base, shared)
    return SweepObjects(shared, {
        (key, _name(key, one)): _described(key, one, parameters)
        for key, values in listed.items()
        for one in _listed(values)
        if _is_object(key, one)
    })  # fmt: skip


def _require_one_answerer(
    grid: Mapping[str, object], base: Mapping[str, object], shared: Handed
) -> None:
    """Refuse a system beside a mechanism, wherever the two are given."""
    named = {key.partition(".")[0] for key in (*map(str, grid), *base)}
    system = isinstance(shared.mechanism, SystemMechanism) or named & {"system", "address"}
    if system and "mechanism" in named:
        raise UsageError("system is audited in place of a mechanism; leave one of them out.")


def _described(key: str, thing: object, parameters: Mapping[str, object]) -> Described:
    beside = {name: parameters[name] for name in BESIDE if name in parameters and key == "system"}
    keys, handed = describe_call({key: thing, **beside})
    found = Described({**CLEARED.get(key, {}), **_mergeable(keys)}, handed)
    if isinstance(thing, Claim):
        return replace(found, check=partial(_check_relation, thing))
    return found


def _check_relation(claim: Claim, spec: AuditSpec) -> None:
    require_relation(claim, spec.attack.insertion)


def _mergeable(keys: Mapping[str, object]) -> _Keys:
    """Components that a file could hold become mappings, so that a grid may change an option."""
    return {
        key: value.to_config() if isinstance(value, Component) and value.python is None else value
        for key, value in keys.items()
    }


def _listed(values: object) -> list[object]:
    return list(values) if isinstance(values, list | tuple) else [values]


def _is_object(key: object, value: object) -> bool:
    plain = value is None or isinstance(value, str | int | float | Mapping | list)
    return key in OBJECTS and not plain


def _name(key: str, thing: object) -> str:
    """What stands for an object in the record: its kind, and the options that are not defaults."""
    if isinstance(thing, Attack):
        parts = {"canary": thing.canary, "query": thing.query, "score": thing.score}
        named = [_name(part, one) for part, one in parts.items() if one is not None]
        return "+".join([*named, *([] if thing.insertion == "replace" else [thing.insertion])])
    if isinstance(thing, Claim):
        return f"({thing.epsilon:g}, {thing.delta:g})"
    if isinstance(thing, Model | Task):
        return thing.name
    if key not in COMPONENTS:
        return system_name(thing)
    found = Component.of(thing, COMPONENTS[key])
    kind = found.kind if found.python is None else type(thing).__name__
    options = ", ".join(f"{name}={value!r}" for name, value in _options(thing))
    return f"{kind}({options})" if options else kind


def _options(thing: object) -> list[tuple[str, object]]:
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return []
    shown = [field for field in dataclasses.fields(thing) if field.init and field.repr]
    values = [(field.name, getattr(thing, field.name), field.default) for field in shown]
    return [(name, value) for name, value, usual in values if value != usual]
