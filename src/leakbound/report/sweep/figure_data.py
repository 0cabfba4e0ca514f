"""What the figures of a sweep show, as numbers: bounds, utility, and one against the other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound.report.sweep.words import key_name, setting_name

if TYPE_CHECKING:
    from leakbound.sweeping import SweepPoint, SweepRecord

SeriesKind = Literal["bound", "exact", "claim", "utility", "zero_shot", "non_private"]
REFERENCES = ("zero_shot", "non_private")
MANY = 12  # settings that are named in a figure; more have the numbers of the table
UTILITY = {"accuracy": "accuracy", "rougeL": "ROUGE-L F1"}


@dataclass(frozen=True, slots=True)
class Range:
    """Values of the repeats of one setting: a spread, no confidence bound."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        return cls(min(values), statistics.median(values), max(values))


@dataclass(frozen=True, slots=True)
class FigurePoint:
    x: Range
    y: Range
    repeats: int
    setting: str
    label: str


@dataclass(frozen=True, slots=True)
class Series:
    """Settings that differ in x alone, in the order of x; or a reference line."""

    name: str
    kind: SeriesKind
    points: tuple[FigurePoint, ...]


@dataclass(frozen=True, slots=True)
class FigureData:
    name: str
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    repeats: int
    ticks: tuple[str, ...] = ()
    left_out: int = 0
    connected: bool = True


def figures_of(record: SweepRecord) -> list[FigureData]:
    if not record.points:
        return []
    sweep = _Sweep(record)
    return [sweep.bounds(), *([sweep.utility(), sweep.frontier()] if record.utilities else [])]


Value = Callable[["SweepPoint"], "float | None"]


def _of_utility(name: str) -> Value:
    return lambda point: None if point.utility is None else getattr(point.utility, name)


def _bound(point: SweepPoint) -> float | None:
    return point.bound.epsilon


class _Sweep:
    """A record with its settings placed on an axis."""

    def __init__(self, record: SweepRecord) -> None:
        self.record, self.settings = record, record.settings
        self.axis = _axis(record)
        self.confidence = min(point.bound.confidence or 0.0 for point in record.points)

    def bounds(self) -> FigureData:
        """Lower bounds, exact losses where they are known, and claims."""
        series = [
            *self._series("bound", f"lower bound, {self.confidence:.0%}", _bound),
            *self._merged("exact", "exact loss of the worst pair", lambda p: p.exact_epsilon),
            *self._merged("claim", "claim", lambda p: p.claim.epsilon),
        ]
        known = (one.bound.epsilon for one in self.record.points if one.bound.epsilon is not None)
        left_out = len(self.record.points) - sum(map(math.isfinite, known))
        return self._over_axis("bound", f"Bound against {self._x()}", "ε", series, left_out)

    def utility(self) -> FigureData:
        """Utility of private outputs between both references."""
        title = f"Utility against {self._x()}"
        return self._over_axis("utility", title, self._measure(), self._utilities())

    def _utilities(self) -> list[Series]:
        return [
            *self._merged("utility", "private outputs", _of_utility("value")),
            *self._merged("zero_shot", "zero-shot baseline", _of_utility("zero_shot")),
            *self._merged("non_private", "non-private upper bound", _of_utility("non_private")),
        ]

    def frontier(self) -> FigureData:
        """Utility over the bound: upper left is better, as far as this attack can tell."""
        groups: dict[str, list[FigurePoint]] = {}
        for at, points in enumerate(self.settings):
            if (found := self._point(at, _bound, _of_utility("value"))) is not None:
                name = setting_name(points[0].changes, self.axis)
                groups.setdefault(name, []).append(found)
        series = [Series(name or "settings", "utility", tuple(g)) for name, g in groups.items()]
        shown = sum(point.repeats for one in series for point in one.points)
        return FigureData(
            name="frontier", title="Privacy and utility",
            x=f"lower bound of ε, {self.confidence:.0%}", y=self._measure(),
            series=(*series, *(one for one in self._utilities() if one.kind in REFERENCES)),
            repeats=self.record.repeats, left_out=len(self.record.points) - shown, connected=False,
        )  # fmt: skip

    def _series(self, kind: SeriesKind, word: str, y: Value) -> list[Series]:
        groups: dict[str, list[int]] = {}  # settings that differ in the axis alone
        for at, points in enumerate(self.settings):
            name = setting_name(points[0].changes, self.axis) if self.axis else ""
            groups.setdefault(name, []).append(at)
        made = {name: self._points(members, y) for name, members in groups.items()}
        return [
            Series(f"{word}; {name}" if name else word, kind, points)
            for name, points in made.items()
            if points
        ]

    def _merged(self, kind: SeriesKind, word: str, y: Value) -> list[Series]:
        """Series over the same places with the same values are one."""
        series = self._series(kind, word, y)
        values = {tuple((p.x, p.y) for p in one.points): one for one in reversed(series)}
        if len(values) == 1:
            return [Series(word, kind, series[0].points)]
        return [one for one in series if any(one is kept for kept in values.values())]

    def _points(self, members: Iterable[int], y: Value) -> tuple[FigurePoint, ...]:
        found = (self._point(at, self._place(at), y) for at in members)
        points = [point for point in found if point is not None]
        return tuple(sorted(points, key=lambda point: point.x.middle))

    def _place(self, at: int) -> Value:
        """The value on the axis, or the number of the setting."""
        axis = self.axis
        return lambda point: float(at) if axis is None else _plain_number(point.changes[axis])

    def _point(self, at: int, x: Value, y: Value) -> FigurePoint | None:
        points = self.settings[at]
        pairs = [(x(point), y(point)) for point in points]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        finite = [(a, b) for a, b in known if math.isfinite(a) and math.isfinite(b)]
        if not finite:
            return None
        xs, ys = Range.of([a for a, _ in finite]), Range.of([b for _, b in finite])
        return FigurePoint(xs, ys, len(finite), setting_name(points[0].changes), self._label(at))

    def _x(self) -> str:
        return "the claimed ε" if self.axis == "epsilon" else key_name(self.axis or "setting")

    def _measure(self) -> str:
        return " or ".join(sorted({UTILITY[one.kind] for one in self.record.utilities}))

    def _over_axis(
        self, name: str, title: str, y: str, series: Sequence[Series], left_out: int = 0
    ) -> FigureData:
        ticks = () if self.axis else tuple(map(self._label, range(len(self.settings))))
        return FigureData(
            name=name, title=title, x=self._x(), y=y, series=tuple(series),
            repeats=self.record.repeats, ticks=ticks, left_out=left_out,
            connected=bool(self.axis),
        )  # fmt: skip

    def _label(self, at: int) -> str:
        changes = self.settings[at][0].changes
        if self.axis:
            return setting_name({self.axis: changes[self.axis]})
        return setting_name(changes) if len(self.settings) <= MANY else str(at + 1)


def _axis(record: SweepRecord) -> str | None:
    numbers = [
        key
        for key, values in record.grid.items()
        if len(values) > 1 and None not in map(_plain_number, values)
    ]
    return "epsilon" if "epsilon" in numbers else next(iter(numbers), None)


def _plain_number(value: object) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number else None  # type: ignore[arg-type]
