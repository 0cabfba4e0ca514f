"""Objects in a sweep: what a value of the grid stands for where it is not a plain value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.spec.audit_spec import AuditSpec, flat_keys, make_spec, merge_keys
from leakbound.errors import UsageError
from leakbound.sweeping.grid import Changes

FIELDS = {"address": "mechanism"}  # the object that a key replaces, where names differ


@dataclass(frozen=True, slots=True, repr=False)
class Described:
    """What one value of a grid stands for.

    Attributes:
        keys: Keys of a spec, with their values.
        handed: The objects that no key can name.
        check: Refuses, by a LeakboundError, the spec of a point that it does not fit.
    """

    keys: Mapping[str, object]
    handed: Handed = Handed()
    check: Callable[[AuditSpec], None] = lambda spec: None


@dataclass(frozen=True, slots=True, repr=False)
class SweepObjects:
    """The objects of a sweep (rows are PRIVATE).

    Attributes:
        shared: Those of all points.
        values: What a value of the grid stands for, by its key and the name that it has in the
            record; values that are not here stand for themselves.
    """

    shared: Handed = Handed()
    values: Mapping[tuple[str, str], Described] = field(default_factory=dict)

    def point(
        self, base: Mapping[str, object], changes: Changes, seed: int
    ) -> tuple[AuditSpec, Handed]:
        """What makes one point.

        Args:
            base: What all points share: keys of a configuration file.
            changes: What the setting changes.
            seed: Of the point.

        Returns:
            The spec, and the objects that it does not name.

        Raises:
            UsageError: If there is no spec with these values, or a key changes an option of an
                object that is handed over.
        """
        found = [
            self.values.get((key, str(value)), Described({key: value}))
            for key, value in changes.items()
        ]
        keys = {key: value for one in found for key, value in one.keys.items()}
        over = flat_keys({**keys, "seed": seed}, "the grid")
        handed = self.shared
        for key, value in over.items():
            handed = _without(handed, FIELDS.get(key, key), value)
        for one in found:
            for name in one.handed.names():
                handed = handed.including(name, getattr(one.handed, name))
        spec = make_spec(merge_keys(flat_keys(base), over))
        for one in found:
            one.check(spec)
        return spec, handed


def _without(handed: Handed, name: str, value: object) -> Handed:
    """Without the object that a key replaces; options alone replace none."""
    if name not in handed.names():
        return handed
    if isinstance(value, Mapping) and "kind" not in value:
        raise UsageError(
            f"the grid changes {name}.{next(iter(value))}, and {name} is a Python object; list an "
            f"object for each value in its place, as in grid={{{name!r}: [...]}}."
        )
    return replace(handed, **cast("dict[str, Any]", {name: None}))
