"""Two sweeps side by side: the points that both have, and whether differences are noise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from leakbound._records import Frozen, JsonRecord
from leakbound.auditing import AuditResult, load_result
from leakbound.errors import StoreError, UsageError
from leakbound.gating.compare import Comparison, compare_results
from leakbound.sweeping.grid import Changes, describe
from leakbound.sweeping.record import SweepPoint, SweepRecord, key_of, load_sweep, runs_of

_Points = Mapping[tuple[str, int], SweepPoint]


class ComparedPoint(Frozen):
    """A point that both sweeps have.

    Attributes:
        changes: Values by key of the grid.
        seed: Of both audits.
        comparison: The audit of the first sweep (A) beside that of the second (B).
    """

    changes: Changes
    seed: int
    comparison: Comparison


class SweepComparison(JsonRecord):
    """Two sweeps side by side.

    Attributes:
        schema_version: 1.
        kind: Always `sweeps`.
        confidence: With which all intervals of all points hold together.
        points: What both have, in the order of the first.
        only_first: Points that the second lacks, each in a line.
        only_second: Points that the first lacks.
    """

    schema_version: Literal[1] = 1
    kind: Literal["sweeps"] = "sweeps"
    confidence: float
    points: tuple[ComparedPoint, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


def compare_sweeps(first: Path, second: Path) -> SweepComparison:
    """Compare the points that two sweeps have in common, by setting and seed.

    Returns:
        A comparison of each pair of audits. All intervals hold together (Bonferroni over the
        points).

    Raises:
        UsageError: If they have no point in common.
        StoreError: If a record or a run is missing.
    """
    one, other = _points(load_sweep(first)), _points(load_sweep(second))
    common = [key for key in one if key in other]
    if not common:
        raise UsageError(
            f"{str(first)!r} and {str(second)!r} have no point in common; compare sweeps over "
            "grids that share settings and seeds."
        )
    points = tuple(
        ComparedPoint(
            changes=one[key].changes, seed=one[key].seed,
            comparison=compare_results(
                [_result(first, one[key]), _result(second, other[key])], len(common)
            ),
        )
        for key in common
    )  # fmt: skip
    return SweepComparison(
        confidence=min(point.comparison.confidence for point in points), points=points,
        only_first=_without(one, other), only_second=_without(other, one),
    )  # fmt: skip


def _points(record: SweepRecord) -> _Points:
    return {key_of(point): point for point in record.points}


def _without(these: _Points, those: _Points) -> tuple[str, ...]:
    return tuple(
        f"{describe(point.changes)}, seed {point.seed}"
        for key, point in these.items()
        if key not in those
    )


def _result(folder: Path, point: SweepPoint) -> AuditResult:
    place = folder if folder.is_dir() else folder.parent
    runs = runs_of(place, [point])
    if len(runs) != 1:
        raise StoreError(
            f"{str(place)!r} holds {len(runs)} runs named {point.run}; it must hold one. Compare "
            "the folder that leakbound sweep wrote, with the runs of one grid and one data set."
        )
    return load_result(runs[0])
