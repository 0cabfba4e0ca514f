"""Numbers that a reply shows, such as the similarity of a match or how many were found."""

from __future__ import annotations

import math
import re

__all__ = ["NUMBERS", "coarse", "numbers_in", "numbers_of"]

NUMBERS = (
    "number_1", "number_2", "number_3", "last_number", "largest_number", "smallest_number",
)  # fmt: skip
MOST = 1e15  # larger numbers, such as identifiers, count as this one
_NUMERAL = re.compile(
    r"(?P<sign>(?<!\w)[-−])?(?P<whole>\d+)(?P<rest>(?:[.,:]\d+)*)"
    r"(?P<power>[eE][-+]?\d{1,3}\b)?(?P<percent>\s?%)?"
)
_GROUP, _MARK = re.compile(r",(?=\d{3}(?!\d))"), re.compile("[.,:]")


def numbers_in(text: str) -> list[float]:
    """Read the numerals of a text.

    Args:
        text: Any text.

    Returns:
        Their values, in order; percentages as fractions. Of numerals with several marks, such as
        times and dates, the first is taken for a decimal point.

    Examples:
        >>> numbers_in("97 % of 1,200 at 0.5, best -3e-2")
        [0.97, 1200.0, 0.5, -0.03]
    """
    return [_value(found) for found in _NUMERAL.finditer(text)]


def numbers_of(text: str) -> dict[str, float]:
    """Measure the numbers of a text.

    Args:
        text: Any text.

    Returns:
        For each of `NUMBERS` its value; NaN where the text shows no such number.
    """
    found = numbers_in(text)
    first = [found[at] if at < len(found) else math.nan for at in range(3)]
    others = (found[-1], max(found), min(found)) if found else (math.nan,) * 3
    return dict(zip(NUMBERS, (*first, *others), strict=True))


def coarse(value: float) -> float:
    """What may be stored of a number whose text may not.

    Args:
        value: The number; NaN where none is shown.

    Returns:
        The number to two decimal places between -1 and 1, and to its first digit beyond.

    Examples:
        >>> [coarse(one) for one in (0.973, 47.0, 52_310.0)]
        [0.97, 50.0, 50000.0]
    """
    if math.isnan(value):
        return value
    return round(value, 2) if abs(value) < 1 else float(f"{value:.0e}")


def _value(found: re.Match[str]) -> float:
    parts = found.groupdict("")
    whole, *rest = _MARK.split(_GROUP.sub("", parts["whole"] + parts["rest"]))
    size = min(float(f"{whole}.{''.join(rest)}0{parts['power']}"), MOST)
    return (-size if parts["sign"] else size) / (100 if parts["percent"] else 1)
