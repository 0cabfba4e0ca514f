"""Bound, claim and guarantee of several systems beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leakbound.report.figures import (
    CLAIM,
    MEMBER,
    NONMEMBER,
    WIDTH,
    canvas,
    legend_below,
    svg,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SYSTEMS = (
    "What each system was shown to leak at least, what was claimed, and what is guaranteed. An "
    "arrow beyond the claim is a violation."
)
NAME = 20  # characters of a line of a name


@dataclass(frozen=True, slots=True)
class SystemBounds:
    """The three numbers of a system."""

    name: str
    bound: float
    claim: float
    guarantee: float


def bounds_figure(systems: Sequence[SystemBounds]) -> str:
    """Bound, claim and guarantee of several systems side by side."""
    figure, axes = canvas("ε", "")
    rows = [len(systems) - 1 - at for at in range(len(systems))]
    bounds, claims = [one.bound for one in systems], [one.claim for one in systems]
    axes.hlines(rows, 0, bounds, color=MEMBER, lw=5, alpha=0.4)
    axes.plot(bounds, rows, ">", color=MEMBER, ms=8, label="leaks at least (bound)")
    axes.plot(claims, rows, "|", color=CLAIM, ms=18, mew=2.5, label="claimed")
    _draw_guarantees(axes, systems, rows)
    names = [wrapped(one.name, NAME) for one in systems]
    axes.set_yticks(rows, names)
    finite = [value for value in (*bounds, *claims) if math.isfinite(value)]
    axes.set(xlim=(0, 1.1 * max(finite, default=1.0)), ylim=(-0.6, len(systems) - 0.4))
    named = axes.get_legend_handles_labels()
    legend = legend_below(figure, *named, columns=2, marker_scale=0.6)
    lines = max(name.count("\n") for name in names)
    figure.set_size_inches(WIDTH, 0.9 + legend + (0.5 + 0.15 * lines) * len(systems))
    return svg(figure, "bound, claim and guarantee of each system")


def _draw_guarantees(axes: Axes, systems: Sequence[SystemBounds], rows: Sequence[int]) -> None:
    pairs = zip(systems, rows, strict=True)
    finite = [(one.guarantee, row) for one, row in pairs if math.isfinite(one.guarantee)]
    if finite:
        axes.plot(*zip(*finite, strict=True), "D", color=NONMEMBER, ms=6, label="guaranteed")
