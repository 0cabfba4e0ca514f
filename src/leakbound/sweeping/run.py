"""A sweep from its plan to its record: one run folder per point, and everything collected once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from leakbound._version import __version__
from leakbound.auditing.audit import run_audit
from leakbound.auditing.collect.collect import Batches, BatchRunner, CollectionPlan, run_serial
from leakbound.auditing.prepare.prepare import prepare
from leakbound.auditing.prepare.prepared import Prepared
from leakbound.auditing.store.folder import make_folder, write_private
from leakbound.errors import Interrupted, LeakboundError
from leakbound.gating.compare import flat_settings
from leakbound.models import Model
from leakbound.sweeping.plan import Opener, PlannedPoint, SweepPlan
from leakbound.sweeping.record import (
    ELSEWHERE,
    FILE,
    MissingPoint,
    SweepPoint,
    SweepRecord,
    SweepUtility,
    load_utility,
    point_of,
)
from leakbound.sweeping.utility_meter import UtilityMeter


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

    def _run(self, point: PlannedPoint, meter: UtilityMeter) -> SweepPoint:
        prepared = prepare(point.spec, handed=point.handed, opener=self.opener)
        result, folder = run_audit(
            prepared,
            self.out,
            lambda done, total: self._report(point, done),
            ask=self._counted(self.runner_of(prepared)),
            own_test=True,
        )
        utility = self._utility(prepared, folder, meter) if meter.queries else None
        return point_of(result, point.changes, point.evidence, utility)

    def _report(self, point: PlannedPoint, done: int) -> None:
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
            return load_utility(file)
        before = meter.model_calls
        found = meter.measure(prepared)
        self.model_calls += meter.model_calls - before
        write_private(file, found.model_dump_json(indent=2) + "\n")
        return found

    @property
    def record(self) -> SweepRecord:
        """What is known so far, in the order of the grid."""
        plan, done = self.plan, self._done
        missing = [self._missing(point) for point in plan.points if point.number not in done]
        missing += [_missing_point(one, "not_reached", ELSEWHERE) for one in plan.elsewhere]
        # what all points share, with defaults
        every = (*self.plan.points, *self.plan.elsewhere)
        first = flat_settings(min(every, key=lambda point: point.number).spec.flat())
        changed = set(self.plan.grid)
        shared = {key: first[key] for key in first if not {key, key.partition(".")[0]} & changed}
        return SweepRecord(
            base={**shared, "seed": self.plan.first_seed},
            grid=plan.grid,
            repeats=plan.repeats,
            points=tuple(done[point.number] for point in plan.points if point.number in done),
            missing=(*plan.refused, *missing),
            provenance={"leakbound": __version__},
        )

    def _missing(self, point: PlannedPoint) -> MissingPoint:
        if (reason := self._failed.get(point.number)) is not None:
            return _missing_point(point, "failed", reason)
        return _missing_point(point, "not_reached", "the sweep has not come to it.")


def _missing_point(
    point: PlannedPoint, cause: Literal["failed", "not_reached"], reason: str
) -> MissingPoint:
    seed = point.spec.design.seed
    return MissingPoint(changes=point.changes, seed=seed, cause=cause, reason=reason)
