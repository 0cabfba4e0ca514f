"""A sweep from its plan to its record: one run folder a point, and everything collected once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbound._version import __version__
from leakbound.auditing import prepare, run_audit
from leakbound.auditing.collect import Batches, BatchRunner, CollectionPlan, run_serial
from leakbound.auditing.prepare import Prepared
from leakbound.auditing.store import write_private
from leakbound.errors import Interrupted, LeakboundError
from leakbound.models import Model
from leakbound.sweeping.plan import Opener, Plan, Planned
from leakbound.sweeping.record import FILE, SweepPoint, SweepRecord, Unmade, Utility, point_of
from leakbound.sweeping.utility_meter import UtilityMeter

__all__ = ["Sweep"]

AskerOf = Callable[[Prepared], BatchRunner]


@dataclass
class Sweep:
    """Runs the points of a plan into folders under `out`; running it again goes on where it
    stopped.

    A point that fails is noted, and the others are run; an interruption or a limit ends the sweep.
    After every point the record so
    far is in `sweep.json`. show: called with (pairs done, pairs in all) while the model is asked.
    asked: model calls of this object.
    """

    plan: Plan
    out: Path
    opener: Opener
    asker: AskerOf = lambda prepared: run_serial
    show: Callable[[int, int], None] = lambda done, total: None
    asked: int = 0
    errors: list[LeakboundError] = field(default_factory=list)
    _done: dict[int, SweepPoint] = field(default_factory=dict)
    _failed: dict[int, str] = field(default_factory=dict)
    _pairs: dict[str, int] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Where the sweep stands."""
        reached = len(self._done) + len(self._failed)
        return f"point {min(reached + 1, len(self.plan.points))} of {len(self.plan.points)}, {self.asked} calls"

    def run(self) -> SweepRecord:
        """All points, neighbours that share a model or answers after each other."""
        meter = UtilityMeter(self.plan.queries)
        self.out.mkdir(parents=True, exist_ok=True, mode=0o700)
        for point in sorted(self.plan.points, key=lambda point: point.order):
            try:
                self._done[point.number] = self._run(point, meter)
            except Interrupted:
                raise
            except LeakboundError as error:
                self._failed[point.number] = str(error)
                self.errors.append(error)
            write_private(self.out / FILE, self.record.to_json())
        return self.record

    def _run(self, point: Planned, meter: UtilityMeter) -> SweepPoint:
        prepared = prepare(point.spec, opener=self.opener)
        record, folder = run_audit(
            prepared,
            self.out,
            lambda done, total: self._tell(point, done),
            ask=self._counted(self.asker(prepared)),
        )
        utility = self._utility(prepared, folder, meter) if meter.queries else None
        return point_of(record, point.changes, point.group, utility)

    def _tell(self, point: Planned, done: int) -> None:
        """Pairs of one group are asked about once, so they count once."""
        self._pairs[point.group] = max(self._pairs.get(point.group, 0), done)
        self.show(sum(self._pairs.values()), self.plan.pairs)

    def _counted(self, ask: BatchRunner) -> BatchRunner:
        def counting(questions: CollectionPlan, model: Model, batches: Sequence[int]) -> Batches:
            with closing(ask(questions, model, batches)) as found:
                for batch in found:
                    self.asked += batch.calls
                    yield batch

        return counting

    def _utility(self, prepared: Prepared, folder: Path, meter: UtilityMeter) -> Utility:
        """Kept beside the run, as a number only, and found there again."""
        file = folder / f"utility-{meter.queries}.json"
        if file.is_file():
            return Utility.model_validate_json(file.read_text(encoding="utf-8"))
        before = meter.asked
        found = meter.measure(prepared)
        self.asked += meter.asked - before
        write_private(file, found.model_dump_json(indent=2) + "\n")
        return found

    @property
    def record(self) -> SweepRecord:
        """What is known so far, in the order of the grid."""
        plan = self.plan
        return SweepRecord(
            base=self._base(), grid=plan.grid, repeats=plan.repeats,
            points=tuple(self._done[point.number] for point in plan.points if point.number in self._done),
            unmade=(*plan.skipped, *(self._unmade(point) for point in plan.points if point.number not in self._done)),
            provenance={"leakbound": __version__},
        )  # fmt: skip

    def _unmade(self, point: Planned) -> Unmade:
        where: dict[str, Any] = {"changes": point.changes, "seed": point.spec.design.seed}
        if point.number in self._failed:
            return Unmade(**where, why="failed", reason=self._failed[point.number])
        return Unmade(**where, why="not reached", reason="the sweep has not come to it.")

    def _base(self) -> dict[str, object]:
        """What all points share, defaults with it."""
        first = self.plan.points[0].spec.flat()
        changed = {key.partition(".")[0] for key in self.plan.grid}
        shared = {key: value for key, value in first.items() if key not in changed}
        return {**shared, "seed": self.plan.base.get("seed", 0)}
