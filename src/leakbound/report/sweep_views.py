"""What the figures of a sweep show, as numbers: bounds, utility, and one against the other."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from leakbound.sweeping import SweepPoint, SweepRecord

__all__ = ["Band", "Curve", "Spot", "View", "setting_name", "view_csv", "views_of"]

Kind = Literal["bound", "exact", "claim", "utility", "floor", "ceiling"]
MANY = 12  # settings that are named in a figure; more have the numbers of the table
UTILITY = {"accuracy": "accuracy", "rougeL": "ROUGE-L F1"}


@dataclass(frozen=True, slots=True)
class Band:
    """Least, median and largest of the repeats of one setting: a spread, no confidence bound."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Band:
        """Of the values of the repeats."""
        return cls(min(values), statistics.median(values), max(values))


@dataclass(frozen=True, slots=True)
class Spot:
    """One setting in a figure.

    label: what tells it from the others of its line, or its number in the table.
    """

    x: Band
    y: Band
    repeats: int
    setting: str
    label: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Settings that differ in x alone, in the order of x; or a reference curve."""

    name: str
    kind: Kind
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True)
class View:
    """One figure. ticks: names of the places on x, where these are no numbers.

    left_out: values that no place can show.
    """

    name: str
    title: str
    x: str
    y: str
    lines: tuple[Curve, ...]
    repeats: int
    ticks: tuple[str, ...] = ()
    left_out: int = 0
    connected: bool = True


def setting_name(changes: dict[str, Any], without: str | None = None) -> str:
    """A setting in few words; epsilon is written as its sign."""
    shown = {key: value for key, value in changes.items() if key != without}
    return ", ".join(
        f"{'ε' if key == 'epsilon' else key}={'none' if value is None else value}"
        for key, value in shown.items()
    )


def views_of(record: SweepRecord) -> list[View]:
    """Bounds over what changes; where utility was measured, utility over it and bounds against
    utility.
    """
    if not record.points:
        return []
    sweep = _Sweep(record)
    return [sweep.bounds(), *([sweep.utility(), sweep.frontier()] if sweep.measured else [])]


Value = Callable[["SweepPoint"], float | None]


def _used(name: str) -> Value:
    """A number of the utility of a point, where it was measured."""
    return lambda point: None if point.utility is None else getattr(point.utility, name)


class _Sweep:
    """A record with its settings placed on an axis."""

    def __init__(self, record: SweepRecord) -> None:
        self.record, self.settings = record, record.settings
        self.axis = _axis(record)
        self.measured = any(point.utility is not None for point in record.points)
        self.confidence = min(point.bound.confidence or 0.0 for point in record.points)
        self._lost = 0

    def bounds(self) -> View:
        """Lower bounds, exact losses where the law is known, and claims."""
        by = self._groups()
        lines = [
            *self._lines(
                by, "bound", f"lower bound, {self.confidence:.0%}", lambda p: p.bound.epsilon
            ),
            *self._merged(by, "exact", "exact loss of the worst pair", lambda p: p.exact),
            *self._merged(by, "claim", "claim", lambda p: p.claim.epsilon),
        ]
        return self._view("bound", f"Bound against {self._x()}", "ε", lines)

    def utility(self) -> View:
        """Utility of released answers between floor and ceiling."""
        by = self._groups()
        lines = [
            *self._merged(by, "utility", "released answers", _used("value")),
            *self._merged(by, "floor", "no examples (floor)", _used("floor")),
            *self._merged(by, "ceiling", "all examples, no privacy (ceiling)", _used("ceiling")),
        ]
        return self._view("utility", f"Utility against {self._x()}", self._measure(), lines)

    def frontier(self) -> View:
        """Utility over the bound: to the upper left is better, for what this attack can show."""
        self._lost = 0
        spots = [self._spot(at, points, lambda p: p.bound.epsilon, _used("value"))
                 for at, points in enumerate(self.settings)]  # fmt: skip
        groups: dict[str, list[Spot]] = {}
        for spot, points in zip(spots, self.settings, strict=True):
            if spot is not None:
                groups.setdefault(setting_name(points[0].changes, self.axis), []).append(spot)
        lines = [
            Curve(name or "settings", "utility", tuple(group)) for name, group in groups.items()
        ]
        lines += [line for line in self.utility().lines if line.kind in ("floor", "ceiling")]
        x = f"lower bound of ε, {self.confidence:.0%}"
        return View(
            "frontier",
            "Privacy and utility",
            x,
            self._measure(),
            tuple(lines),
            self.record.repeats,
            (),
            self._lost,
            False,
        )

    def _groups(self) -> dict[str, list[int]]:
        """Settings that differ in the axis alone."""
        found: dict[str, list[int]] = {}
        for at, points in enumerate(self.settings):
            name = setting_name(points[0].changes, self.axis) if self.axis else ""
            found.setdefault(name, []).append(at)
        return found

    def _lines(self, by: dict[str, list[int]], kind: Kind, word: str, y: Value) -> list[Curve]:
        made = [(name, self._spots(members, y)) for name, members in by.items()]
        return [
            Curve(f"{word}; {name}" if name else word, kind, spots) for name, spots in made if spots
        ]

    def _merged(self, by: dict[str, list[int]], kind: Kind, word: str, y: Value) -> list[Curve]:
        """Lines over the same places with the same values are one line."""
        lines = self._lines(by, kind, word, y)
        values = {tuple((spot.x, spot.y) for spot in line.spots): line for line in reversed(lines)}
        if len(values) == 1:
            return [Curve(word, kind, lines[0].spots)]
        return [line for line in lines if any(line is kept for kept in values.values())]

    def _spots(self, members: Iterable[int], y: Value) -> tuple[Spot, ...]:
        found = [
            self._spot(at, self.settings[at], lambda p, at=at: self._place(p, at), y)  # type: ignore[misc]
            for at in members
        ]
        return tuple(
            sorted((spot for spot in found if spot is not None), key=lambda spot: spot.x.middle)
        )

    def _place(self, point: SweepPoint, at: int) -> float:
        return float(point.changes[self.axis]) if self.axis else float(at)

    def _spot(self, at: int, points: Sequence[SweepPoint], x: Value, y: Value) -> Spot | None:
        known = [
            (a, b)
            for a, b in ((x(point), y(point)) for point in points)
            if _finite(a) and _finite(b)
        ]
        self._lost += len(points) - len(known)
        if not known:
            return None
        xs, ys = (
            [float(v) for v in column if v is not None] for column in zip(*known, strict=True)
        )
        return Spot(
            Band.of(xs), Band.of(ys), len(known), setting_name(points[0].changes), self._label(at)
        )

    def _x(self) -> str:
        return "the claimed ε" if self.axis == "epsilon" else self.axis or "setting"

    def _measure(self) -> str:
        kinds = {
            UTILITY[point.utility.kind] for point in self.record.points if point.utility is not None
        }
        return " or ".join(sorted(kinds))

    def _view(self, name: str, title: str, y: str, lines: list[Curve]) -> View:
        ticks = () if self.axis else tuple(self._label(at) for at in range(len(self.settings)))
        missing = (
            sum(not _finite(point.bound.epsilon) for point in self.record.points)
            if name == "bound"
            else 0
        )
        return View(
            name,
            title,
            self._x(),
            y,
            tuple(lines),
            self.record.repeats,
            ticks,
            missing,
            bool(self.axis),
        )

    def _label(self, at: int) -> str:
        changes = self.settings[at][0].changes
        if self.axis:
            return setting_name({self.axis: changes[self.axis]})
        return setting_name(changes) if len(self.settings) <= MANY else str(at + 1)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _axis(record: SweepRecord) -> str | None:
    """The key on x: epsilon where it changes, else the first number that does."""
    numbers = [
        key for key, values in record.grid.items() if len(values) > 1 and all(map(_number, values))
    ]
    return "epsilon" if "epsilon" in numbers else next(iter(numbers), None)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def view_csv(view: View) -> str:
    """The numbers of one figure, a row a spot. low and high are the spread of the repeats."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        ("line", "kind", "setting", "repeats", "x", "x_low", "x_high", "y", "y_low", "y_high")
    )
    for line in view.lines:
        for spot in line.spots:
            x, y = spot.x, spot.y
            writer.writerow(
                (
                    line.name,
                    line.kind,
                    spot.setting,
                    spot.repeats,
                    x.middle,
                    x.low,
                    x.high,
                    y.middle,
                    y.low,
                    y.high,
                )
            )
    return file.getvalue()
