"""Places on the x axis of a figure: names or numbers that have room at the size of a phone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from leakbound.report.figures import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOM = 260.0  # points that an axis has
LETTER, LINE = 6.0, 15.0  # points of a letter, and of a slanted line
SLANT = 60  # degrees
LONGEST = 48  # characters of a name; the table has all of it


def name_places(axes: Axes, names: Sequence[str], at: Sequence[float] = ()) -> float:
    """Name places of the x axis: level where all names have room, else slanted."""
    if not names:
        return 0.0
    places, room = list(at or range(len(names))), ROOM / len(names)
    if max(map(len, names)) * LETTER <= room - LETTER:
        axes.set_xticks(places, list(names))
        return 0.0
    step = math.ceil(LINE / room)
    shown = [_slant(name, room * step) for name in names][::step]
    axes.set_xticks(places[::step], shown, rotation=SLANT, ha="right", rotation_mode="anchor")
    longest = max(len(line) for name in shown for line in name.split("\n"))
    return longest * LETTER * math.sin(math.radians(SLANT)) / 72


def _slant(name: str, room: float) -> str:
    """In as many lines as have room."""
    short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return wrapped(short, max(12, math.ceil(len(short) / int(room // LINE)) + 2))


def number_places(axes: Axes, places: Sequence[float]) -> None:
    """Numbers at places of the x axis, as far as they have room."""
    written = [f"{place:g}" for place in places]
    spots = [math.log(place) for place in places] if (axes.get_xscale() == "log") else list(places)
    scale = ROOM / ((spots[-1] - spots[0]) or 1.0)
    shown: list[int] = []
    for here, spot in enumerate(spots):
        if shown:
            letters = (len(written[here]) + len(written[shown[-1]])) / 2 + 1
            if (spot - spots[shown[-1]]) * scale < letters * LETTER:
                continue
        shown.append(here)
    axes.set_xticks([places[one] for one in shown], [written[one] for one in shown])
    axes.minorticks_off()
