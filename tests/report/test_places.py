"""Names and numbers on the x axis of figures: none is cut, and none covers another."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest

from leakbound.report.decisions.comparison import bounds_figure
from leakbound.report.figures import (
    MEMBER,
    SHAPES,
    STROKES,
    Chart,
    Plot,
    name_ticks,
    number_ticks,
    svg,
)
from leakbound.report.sweep.figure_data import FigureData, FigurePoint, Range, Series
from leakbound.report.sweep.figures import chart_of

PHONE = 364  # px that a page leaves for a figure in a window of 390
LONG = [f"mechanism report_noisy_max, partitions {n}" for n in range(12)]


def sizes(figure: str) -> set[float]:
    """Sizes of all text on a phone."""
    (width,) = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ', figure))
    return {
        float(px) * PHONE / width
        for px in re.findall(r"font(?:-size)?: (?:\w+ )?([\d.]+)px", figure)
    }


def placed(names: Sequence[str]) -> FigureData:
    here = Range(0.0, 0.0, 0.0)
    points = [FigurePoint(Range(n, n, n), here, 1, one, one) for n, one in enumerate(names)]
    series = Series("lower bound, 95%; " + LONG[0], "bound", tuple(points))
    return FigureData("bound", "Bound", "setting", "ε", (series,), 3, tuple(names), 0, False)


@pytest.mark.parametrize("names", [["few_shot"], LONG, [str(n) for n in range(60)]])
def test_no_text_of_a_sweep_is_too_small_for_a_phone(names: list[str]) -> None:
    assert min(sizes(svg(chart_of(placed(names))))) >= 11


def test_no_text_of_several_systems_is_too_small_for_a_phone() -> None:
    systems = [(name, 0.5, 1.0, 1.0) for name in LONG]
    assert min(sizes(bounds_figure(systems))) >= 11


def test_names_without_room_are_slanted_and_of_too_many_only_some_are_shown() -> None:
    chart = Chart("title", "x", "y", [Plot(range(12), range(12))])
    name_ticks(chart, ["a", "b"])
    assert not chart.slanted
    level = svg(chart)
    name_ticks(chart, LONG)
    assert chart.slanted
    assert [text.replace("\n", " ") for _, text in chart.x_ticks] == LONG
    assert svg(chart).count("rotate(-60)") == 12 > level.count("rotate(-60)")
    name_ticks(chart, [f"setting number {n}" for n in range(60)])
    assert 10 <= len(chart.x_ticks) <= 20


def test_numbers_without_room_are_left_out() -> None:
    chart = Chart("title", "x", "y")
    number_ticks(chart, [1, 1.01, 1.02, 2])
    assert chart.x_ticks == [(1, "1"), (2, "2")]
    chart.x_log = True
    number_ticks(chart, [0.1, 1, 10])
    assert [at for at, _ in chart.x_ticks] == [0.1, 1, 10]
    number_ticks(chart, [4])
    assert chart.x_ticks == [(4, "4")]


def height(*names: str) -> float:
    marks = [Plot([0, 1], [0, 1], name=name) for name in names]
    return float(svg(Chart("t", "x", "y", marks)).split('viewBox="0 0 332 ')[1].split('"')[0])


def test_a_legend_takes_room_for_each_of_its_lines() -> None:
    assert height(" ".join(LONG[:3])) > height("a") > height()
    assert height("a", "b") == height("a")  # beside each other


def test_places_follow_their_values_and_what_is_not_finite_is_left_out() -> None:
    """On an axis from 0 to 10, and on one of powers; a line is interrupted at infinity."""
    line = Plot([0, 5, 6, 10], [1, 1e-2, math.inf, 1e-4], MEMBER, "leak <b>")
    chart = Chart("t", "x", "y", [line], x_ends=(0, 10), y_ends=(1e-4, 1), y_log=True)
    drawn = svg(chart)
    path = next(one for one in re.findall(r"<path [^>]*>", drawn) if MEMBER in one)
    (start, left, middle), (again, right, _) = (
        re.findall(r"([ML])([\d.]+) ([\d.]+)", path)[at] for at in (1, 2)
    )
    first = re.search(r"M([\d.]+) ([\d.]+)", path)
    assert first is not None
    assert (start, again) == ("L", "M")
    assert float(left) == pytest.approx((float(first[1]) + float(right)) / 2, abs=0.1)
    assert float(middle) - float(first[2]) == pytest.approx(chart.height / 2, abs=0.1)
    assert "leak &lt;b&gt;" in drawn
    assert ">10⁻⁴</text>" in drawn
    assert drawn.count("<title>t</title><desc>") == 1


@pytest.mark.parametrize("marker", [*SHAPES, *STROKES])
def test_every_marker_is_drawn_around_its_place(marker: str) -> None:
    drawn = svg(Chart("t", "x", "y", [Plot([1], [1], MEMBER, "", "", marker=marker, size=6)]))
    (path,) = (one for one in re.findall(r"<path [^>]*>", drawn) if MEMBER in one)
    spots = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]
    assert max(math.dist(spot, spots[0]) for spot in spots) == pytest.approx(5.5, abs=3)
