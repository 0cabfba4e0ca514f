"""From a grid to points that may start, refused without a model call, and to their audits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast

from leakbound._files import make_folder, write_private
from leakbound._records import load_json
from leakbound._version import __version__
from leakbound.auditing.audit import run_audit
from leakbound.auditing.collect.collect import Batches, BatchRunner, CollectionPlan, run_serial
from leakbound.auditing.prepare.build import Handed
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.spec.audit_spec import AuditSpec, flat_keys, make_spec, merge_keys
from leakbound.errors import Interrupted, LeakboundError, UsageError
from leakbound.gating.compare import flat_settings
from leakbound.models import Model
from leakbound.sweeping.grid import Changes, Grid, describe, settings_of
from leakbound.sweeping.record import (
    ELSEWHERE,
    FILE,
    MissingPoint,
    SweepPoint,
    SweepRecord,
    SweepUtility,
    point_of,
)
from leakbound.sweeping.utility_meter import UtilityMeter, check_utility, collection_id

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
        spec = make_spec(merge_keys(flat_keys(base), over), handed.query)
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


Opener = Callable[[AuditSpec], Model]


@dataclass(frozen=True, slots=True)
class _PlannedPoint:
    """A point that has passed every check."""

    number: int
    changes: Changes
    spec: AuditSpec
    evidence: str
    collection: str
    handed: Handed = Handed()

    @property
    def order(self) -> tuple[str, str, str, bool, int]:
        """Neighbours share a model and what is collected."""
        return (
            self.spec.system.model, self.collection, self.evidence,
            self.spec.decision.stop_when_rejected, -self.spec.design.pairs,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class SweepPlan:
    """What a sweep will do.

    Attributes:
        base: Keys that all points share; may hold rows (PRIVATE).
        grid: Values by key.
        repeats: Seeds of each setting.
        queries: Held-out queries for utility; 0 for none.
        points: Points in the order of the grid.
        refused: Points that are left out.
        elsewhere: Points that other shards run.
    """

    base: Mapping[str, object]
    grid: Grid
    repeats: int
    queries: int
    points: tuple[_PlannedPoint, ...]
    refused: tuple[MissingPoint, ...]
    elsewhere: tuple[_PlannedPoint, ...] = ()

    def shard(self, number: int, total: int) -> SweepPlan:
        """A part of the points; those that ask the model the same stay together.

        Args:
            number: Of the part, from 1 on.
            total: Number of parts.

        Returns:
            The plan of the part. All parts together run every point once.

        Raises:
            UsageError: If there are more parts than groups of points that ask the same.
        """
        ordered = sorted(self.points, key=lambda point: point.order)
        groups = list(dict.fromkeys(point.evidence for point in ordered))
        if total > len(groups):
            raise UsageError(
                f"the points of the sweep ask the model for {len(groups)} different things, and "
                f"points that ask the same stay in one shard; use at most {len(groups)} shards."
            )
        mine = set(groups[number - 1 :: total])
        return replace(
            self, points=tuple(point for point in self.points if point.evidence in mine),
            elsewhere=tuple(point for point in self.points if point.evidence not in mine),
        )  # fmt: skip

    @property
    def pairs(self) -> int:
        """Pairs that the model is asked about, if no point stops early."""
        most: dict[str, int] = {}
        for point in self.points:
            pairs = point.spec.design.pairs
            most[point.evidence] = max(most.get(point.evidence, 0), pairs)
        return sum(most.values())


class CachingOpener:
    """Opens models and keeps the last one.

    Neighbours with the same model share it, and no two are held at once.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._last: tuple[tuple[object, ...], Model] | None = None

    def __call__(self, spec: AuditSpec) -> Model:
        system = spec.system
        key = system.model, system.trust_remote_code, system.embedder, system.judge_model
        if self._last is None or self._last[0] != key:
            self._last = None
            self._last = key, self._opener(spec)
        return self._last[1]


def plan_sweep(
    base: Mapping[str, object], grid: Grid, opener: Opener, repeats: int = 1, queries: int = 0,
    skip_invalid: bool = False, require: Callable[[AuditSpec], None] = lambda spec: None,
    objects: SweepObjects | None = None,
) -> SweepPlan:  # fmt: skip
    """Check every point of the grid; asks no model.

    Args:
        base: Keys of a configuration file that all points share.
        grid: Values by key.
        opener: Opens the model of a spec.
        repeats: Seeds of each setting.
        queries: Held-out queries for utility; 0 for none.
        skip_invalid: Whether to leave out points that cannot be run, instead of refusing all.
        require: Refuses the spec of a point by a LeakboundError, before a model is opened for it.
        objects: What is handed over beside the keys, and what values of the grid stand for.

    Raises:
        LeakboundError: For what is wrong with any point, all sentences at once; with
            `skip_invalid` only if no point is left.
    """
    if not grid and repeats < 2:
        raise UsageError(
            "a sweep needs something to change; add --grid KEY=VALUE,VALUE such as --grid "
            "epsilon=1,2,4."
        )
    if repeats > 1 and "seed" in grid:
        raise UsageError(
            "--repeats chooses the seeds, and the grid lists seeds; leave one of them out."
        )
    first, objects = _seed(base, 0), objects or SweepObjects()
    wanted = [
        (number, changes, _seed(changes, first + repeat))
        for number, (changes, repeat) in enumerate(product(settings_of(grid), range(repeats)))
    ]
    points: list[_PlannedPoint] = []
    refused: list[MissingPoint] = []
    errors: list[LeakboundError] = []
    for number, changes, seed in sorted(wanted, key=lambda one: str(one[1].get("model", ""))):
        try:
            spec, handed = objects.point(base, changes, seed)
            require(spec)
            if spec.decision.claim is not None:
                raise UsageError(
                    "a sweep compares bounds with a claimed epsilon, and the claim is "
                    f"{spec.decision.claim}; state --epsilon, or audit each setting by itself."
                )
            prepared = prepare(spec, handed=handed, opener=opener)
            check_utility(prepared, queries)
            collection = collection_id(prepared, queries)
        except LeakboundError as error:
            reason = str(error)
            refused.append(MissingPoint(changes=changes, seed=seed, cause="refused", reason=reason))
            errors.append(error)
        else:
            # of a system that asks its own model, every run is its own
            evidence = prepared.evidence or prepared.name
            points.append(
                _PlannedPoint(number, changes, prepared.spec, evidence, collection, handed)
            )
    if refused and not (skip_invalid and points):
        raise _joint_error(refused, errors, len(wanted))
    points.sort(key=lambda point: point.number)
    return SweepPlan(dict(base), grid, repeats, queries, tuple(points), tuple(refused))


def _seed(keys: Mapping[str, object], usual: int) -> int:
    seed = keys.get("seed", usual)
    if not isinstance(seed, int):
        raise UsageError(f"seed is {seed!r}; it must be a whole number.")
    return seed


def _joint_error(
    refused: Sequence[MissingPoint], errors: Sequence[LeakboundError], of: int
) -> LeakboundError:
    """The one error of all points, or every sentence with the settings that it speaks of."""
    by_sentence: dict[str, list[MissingPoint]] = {}
    for one in refused:
        by_sentence.setdefault(one.reason, []).append(one)
    if len(by_sentence) == 1 and len(refused) == of:
        return errors[0]
    head = (
        f"{len(refused)} of {of} points of the sweep cannot be run; change them, or leave them out "
        "with --skip-invalid."
    )
    lines = [head]
    for sentence, points in by_sentence.items():
        places = list(dict.fromkeys(describe(point.changes) for point in points))
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        lines.append(f"- {'; '.join(places[:3])}{more}: {sentence}")
    kind = type(errors[0]) if len(set(map(type, errors))) == 1 else UsageError
    return kind("\n".join(lines))


@dataclass
class Sweep:
    """Runs the points of a plan; the same sweep again resumes where it stopped.

    A point that fails is noted, and the others are run; an interruption or a limit ends the sweep.
    After every point the record so far is in `sweep.json`, or in the file of the shard.

    Attributes:
        plan: What to run.
        out: Folder of the runs.
        opener: Opens the model of a spec.
        runner_of: How the model is asked for a point; the results do not depend on it.
        progress: Called with (pairs done, pairs in all) while the model is asked.
        model_calls: Calls that this object has made.
        errors: Of points that failed.
        file: Name of the file of the record.
    """

    plan: SweepPlan
    out: Path
    opener: Opener
    runner_of: Callable[[Prepared], BatchRunner] = lambda prepared: run_serial
    progress: Callable[[int, int], None] = lambda done, total: None
    model_calls: int = 0
    errors: list[LeakboundError] = field(default_factory=list)
    file: str = FILE
    _done: dict[int, SweepPoint] = field(default_factory=dict)
    _failed: dict[int, str] = field(default_factory=dict)
    _pairs: dict[str, int] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Where the sweep stands, for a progress line."""
        reached, points = len(self._done) + len(self._failed), len(self.plan.points)
        return f"point {min(reached + 1, points)} of {points}, {self.model_calls} calls"

    def run(self) -> SweepRecord:
        """Run all points; neighbours that share a model or outputs follow each other.

        Raises:
            StoreError: If the folder cannot be made.
            Interrupted: If the sweep is ended from outside, or a limit is reached.
        """
        meter = UtilityMeter(self.plan.queries)
        make_folder(self.out)
        for point in sorted(self.plan.points, key=lambda point: point.order):
            try:
                self._done[point.number] = self._run(point, meter)
            except Interrupted:
                raise
            except LeakboundError as error:
                self._failed[point.number] = str(error)
                self.errors.append(error)
            write_private(self.out / self.file, self.record.to_json())
        return self.record

    def _run(self, point: _PlannedPoint, meter: UtilityMeter) -> SweepPoint:
        prepared = prepare(point.spec, handed=point.handed, opener=self.opener, own_test=True)
        result, folder = run_audit(
            prepared,
            self.out,
            lambda done, total: self._report(point, done),
            ask=self._counted(self.runner_of(prepared)),
        )
        utility = self._utility(prepared, folder, meter) if meter.queries else None
        return point_of(result, point.changes, point.evidence, utility)

    def _report(self, point: _PlannedPoint, done: int) -> None:
        """Pairs of points with the same evidence are asked about once, so they count once."""
        self._pairs[point.evidence] = max(self._pairs.get(point.evidence, 0), done)
        self.progress(sum(self._pairs.values()), self.plan.pairs)

    def _counted(self, ask: BatchRunner) -> BatchRunner:
        def counting(plan: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
            with closing(ask(plan, model, batches)) as found:
                for batch in found:
                    self.model_calls += batch.calls
                    yield batch

        return counting

    def _utility(self, prepared: Prepared, folder: Path, meter: UtilityMeter) -> SweepUtility:
        """Kept beside the run, as numbers only, and found there again."""
        file = folder / f"utility-{meter.queries}.json"
        if file.is_file():
            return load_json(file, SweepUtility, "a utility", "Delete it to measure again.")
        before = meter.model_calls
        found = meter.measure(prepared)
        self.model_calls += meter.model_calls - before
        write_private(file, found.model_dump_json(indent=2) + "\n")
        return found

    @property
    def record(self) -> SweepRecord:
        """What is known so far, in the order of the grid."""
        plan, done = self.plan, self._done
        missing = [
            _absent_point(point, "failed", self._failed[point.number])
            if point.number in self._failed
            else _absent_point(point, "not_reached", "the sweep has not come to it.")
            for point in plan.points
            if point.number not in done
        ]
        missing += [_absent_point(one, "not_reached", ELSEWHERE) for one in plan.elsewhere]
        # what all points share, with defaults
        every = (*self.plan.points, *self.plan.elsewhere)
        first = flat_settings(min(every, key=lambda point: point.number).spec.flat())
        changed = set(self.plan.grid)
        shared = {key: first[key] for key in first if not {key, key.partition(".")[0]} & changed}
        return SweepRecord(
            base={**shared, "seed": _seed(self.plan.base, 0)},
            grid=plan.grid,
            repeats=plan.repeats,
            points=tuple(done[point.number] for point in plan.points if point.number in done),
            missing=(*plan.refused, *missing),
            provenance={"leakbound": __version__},
        )


def _absent_point(
    point: _PlannedPoint, cause: Literal["failed", "not_reached"], reason: str
) -> MissingPoint:
    seed = point.spec.design.seed
    return MissingPoint(changes=point.changes, seed=seed, cause=cause, reason=reason)
