"""From a grid to points that may start:

everything that can be refused without a model call is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leakbound.auditing import AuditSpec, prepare
from leakbound.auditing.prepare import Prepared
from leakbound.errors import LeakboundError, UsageError
from leakbound.models import Model
from leakbound.sweeping.grid import Changes, Grid, settings, spec_of, told
from leakbound.sweeping.record import Unmade
from leakbound.sweeping.utility_meter import check_utility, collection_id

__all__ = ["Opener", "OpensOnce", "Plan", "Planned", "plan"]

Opener = Callable[[AuditSpec], Model]


@dataclass(frozen=True, slots=True)
class Planned:
    """A point that has passed every check.

    `group`: points of one group ask the same of the model about their pairs.
    """

    number: int
    changes: Changes
    spec: AuditSpec
    group: str
    collection: str

    @property
    def order(self) -> tuple[str, str, str, bool, int]:
        """Neighbours share a model and what was collected; who asks most goes first, so that the
        others find all they need.
        """
        return (
            self.spec.system.model,
            self.collection,
            self.group,
            self.spec.decision.stop_when_rejected,
            -self.spec.design.pairs,
        )


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """What a sweep will do:

    its points, and the settings that it leaves out. base: may hold rows (PRIVATE).
    """

    base: dict[str, Any]
    grid: Grid
    repeats: int
    queries: int
    points: tuple[Planned, ...]
    skipped: tuple[Unmade, ...]

    @property
    def pairs(self) -> int:
        """Pairs that the model is asked about, if no point stops early."""
        most: dict[str, int] = {}
        for point in self.points:
            most[point.group] = max(most.get(point.group, 0), point.spec.design.pairs)
        return sum(most.values())


class OpensOnce:
    """Opens models and keeps the last:

    neighbours with the same model share it, and no two are held at once.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._last: tuple[tuple[Any, ...], Model] | None = None

    def __call__(self, spec: AuditSpec) -> Model:
        key = spec.system.model, spec.system.trust_remote_code, spec.system.embedder
        if self._last is None or self._last[0] != key:
            self._last = None
            self._last = key, self._opener(spec)
        return self._last[1]


def plan(
    base: Mapping[str, Any],
    grid: Grid,
    opener: Opener,
    repeats: int = 1,
    queries: int = 0,
    skip_invalid: bool = False,
) -> Plan:
    """Check every point of the grid, with `repeats` seeds each; asks no model.

    base: keys of an AuditSpec. queries: held-out queries for utility, 0 for none. Raises what is
    wrong with any point, all
    sentences at once; with `skip_invalid` such points are listed in the plan, unless nothing is
    left.
    """
    _require(base, grid, repeats)
    first = int(base.get("seed", 0))
    wanted = [
        (changes, changes.get("seed", first + repeat))
        for changes in settings(grid)
        for repeat in range(repeats)
    ]
    points: list[Planned] = []
    refused: list[tuple[Unmade, LeakboundError]] = []
    by_model = sorted(enumerate(wanted), key=lambda item: str(item[1][0].get("model", "")))
    for number, (changes, seed) in by_model:
        try:
            points.append(_planned(number, changes, spec_of(base, changes, seed), opener, queries))
        except LeakboundError as error:
            refused.append(
                (Unmade(changes=changes, seed=seed, why="refused", reason=str(error)), error)
            )
    if refused and not (skip_invalid and points):
        raise _all_of(
            [error for _, error in refused], [unmade for unmade, _ in refused], len(wanted)
        )
    return Plan(
        dict(base), grid, repeats, queries, tuple(sorted(points, key=lambda p: p.number)),
        tuple(unmade for unmade, _ in refused),
    )  # fmt: skip


def _require(base: Mapping[str, Any], grid: Grid, repeats: int) -> None:
    if not grid and repeats < 2:
        raise UsageError(
            "a sweep needs something to change; add --grid KEY=VALUE,VALUE such as --grid "
            "epsilon=1,2,4."
        )
    if repeats > 1 and "seed" in grid:
        raise UsageError(
            "--repeat chooses the seeds, and the grid lists seeds; leave one of them out."
        )
    if not isinstance(base.get("seed", 0), int):
        raise UsageError(f"seed is {base['seed']!r}; it must be a whole number.")


def _planned(
    number: int, changes: Changes, spec: AuditSpec, opener: Opener, queries: int
) -> Planned:
    prepared = prepare(spec, opener=opener)
    check_utility(prepared, queries)
    return Planned(number, changes, spec, _group(prepared), collection_id(prepared, queries))


def _group(prepared: Prepared) -> str:
    """Of a system that asks its own model, every run is its own."""
    return prepared.evidence or prepared.name


def _all_of(errors: list[LeakboundError], unmade: list[Unmade], of: int) -> LeakboundError:
    """The one error of all points, or every sentence with the settings that it speaks of."""
    by_sentence: dict[str, list[Unmade]] = {}
    for one in unmade:
        by_sentence.setdefault(one.reason, []).append(one)
    if len(by_sentence) == 1 and len(unmade) == of:
        return errors[0]
    head = f"{len(unmade)} of {of} points of the sweep cannot be run; change them, or leave them out with --skip-invalid."
    lines = [f"- {_where(points)}: {sentence}" for sentence, points in by_sentence.items()]
    kind = type(errors[0]) if len(set(map(type, errors))) == 1 else UsageError
    return kind("\n".join([head, *lines]))


def _where(points: Iterable[Unmade]) -> str:
    places = list(dict.fromkeys(told(point.changes) for point in points))
    return "; ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")
