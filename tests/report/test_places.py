"""Names and numbers on the x axis of figures: none is cut, and none covers another."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from leakbound.report.decisions.comparison import SystemBounds, bounds_figure
from leakbound.report.figures import canvas, legend_below, name_places, number_places, svg
from leakbound.report.sweep.figure_data import FigureData, FigurePoint, Range, Series
from leakbound.report.sweep.figures import figure_svg

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
    assert min(sizes(figure_svg(placed(names)))) >= 11


def test_no_text_of_several_systems_is_too_small_for_a_phone() -> None:
    systems = [SystemBounds(name, 0.5, 1.0, 1.0) for name in LONG]
    assert min(sizes(bounds_figure(systems))) >= 11


def test_names_without_room_are_slanted_and_of_too_many_only_some_are_shown() -> None:
    _, axes = canvas("x", "y")
    assert name_places(axes, ["a", "b"]) == 0
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {0}
    assert name_places(axes, LONG) > 1
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {60}
    assert [label.get_text() for label in axes.get_xticklabels()] == LONG
    name_places(axes, [f"setting number {n}" for n in range(60)])
    assert 10 <= len(axes.get_xticks()) <= 20


def test_numbers_without_room_are_left_out() -> None:
    _, axes = canvas("x", "y")
    number_places(axes, [1, 1.01, 1.02, 2])
    assert list(axes.get_xticks()) == [1, 2]
    axes.set_xscale("log")
    number_places(axes, [0.1, 1, 10])
    assert list(axes.get_xticks()) == [0.1, 1, 10]
    number_places(axes, [4])
    assert list(axes.get_xticks()) == [4]


def test_a_legend_takes_room_for_each_of_its_lines() -> None:
    figure, axes = canvas("x", "y")
    (line,) = axes.plot([0, 1])
    assert legend_below(figure, [line], [" ".join(LONG[:3])]) > legend_below(figure, [line], ["a"])
    assert "report_noisy_max" in svg(figure, "a figure")
