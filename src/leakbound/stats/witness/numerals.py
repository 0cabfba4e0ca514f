"""Numbers that a reply shows, such as the similarity of a match or how many were found."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["NUMBERS", "Numeral", "coarse", "numbers_of", "numerals_in"]

PLACES = tuple(f"number_{at}" for at in range(1, 9))  # the first numbers of a reply, in order
EXTREMES = ("largest_number", "smallest_number")
DECIMALS = (  # of numerals with a decimal mark, a percent sign or an exponent
    "first_decimal", "largest_decimal", "smallest_decimal",
    "largest_fraction", "smallest_fraction",  # of those from -1 to 1, as similarities are
)  # fmt: skip
LABELLED = ("first_labelled", "largest_labelled", "smallest_labelled")  # after a word of LABELS
NUMBERS = (*PLACES, "last_number", *EXTREMES, *DECIMALS, *LABELLED)
LABELS = frozenset({
    "confidence", "count", "distance", "found", "hits", "likelihood", "match", "matched", "matches",
    "probability", "rank", "ranking", "rating", "relevance", "result", "results", "score", "scores",
    "similarity", "total",
})  # fmt: skip
MOST = 1e15  # larger numbers, such as identifiers, count as this one
_NUMERAL = re.compile(
    r"(?P<sign>(?<!\w)[-−])?(?P<whole>\d+)(?P<rest>(?:[.,:]\d+)*)"
    r"(?P<power>[eE][-+]?\d{1,3}\b)?(?P<percent>\s?%)?"
)
_GROUP, _MARK = re.compile(r",(?=\d{3}(?!\d))"), re.compile("[.,:]")
_WORD = re.compile(r"([^\W\d_]+)[^\w%]*$")


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number as a text shows it.

    Attributes:
        value: What it says; a percentage as a fraction. Of numerals with several marks, such as
            times and dates, the first is taken for a decimal point.
        decimal: Whether it has a decimal mark, a percent sign or an exponent.
        labelled: Whether the word before it is one of `LABELS`.
    """

    value: float
    decimal: bool
    labelled: bool


def numerals_in(text: str) -> list[Numeral]:
    """Read the numerals of a text.

    Args:
        text: Any text.

    Returns:
        The numerals, in order.

    Examples:
        >>> [one.value for one in numerals_in("97 % of 1,200 at 0.5, best -3e-2")]
        [0.97, 1200.0, 0.5, -0.03]
    """
    found, end = list[Numeral](), 0
    for match in _NUMERAL.finditer(text):
        found.append(_read(match, text[max(end, match.start() - 40) : match.start()]))
        end = match.end()
    return found


def numbers_of(text: str) -> dict[str, float]:
    """Measure the numbers of a text.

    Args:
        text: Any text.

    Returns:
        For each of `NUMBERS` its value; NaN where the text shows no such number.
    """
    found = numerals_in(text)
    values = [one.value for one in found]
    decimals = [one.value for one in found if one.decimal]
    fractions = [value for value in decimals if abs(value) <= 1]
    labelled = [one.value for one in found if one.labelled]
    places = [*values[: len(PLACES)], *[math.nan] * (len(PLACES) - len(values))]
    first, last = _first(decimals), _first(values[-1:])
    return dict(zip(
        NUMBERS,
        (*places, last, *_extremes(values), first, *_extremes(decimals), *_extremes(fractions),
         _first(labelled), *_extremes(labelled)),
        strict=True,
    ))  # fmt: skip


def coarse(name: str, value: float) -> float:
    """What may be stored of a number whose text may not.

    Args:
        name: One of `NUMBERS`.
        value: The number; NaN where none is shown.

    Returns:
        Nothing (NaN) of places, which would tell digits that stand apart, such as those of a PIN;
        of decimals, and of numbers after a word of `LABELS`, two places below 10 and two digits
        above; of other numbers the first digit.

    Examples:
        >>> coarse("number_1", 4821.0), coarse("largest_number", 4821.0)
        (nan, 5000.0)
        >>> [coarse("first_decimal", one) for one in (0.973, 1.257, 52.31)]
        [0.97, 1.26, 52.0]
    """
    if name in PLACES or name == "last_number" or math.isnan(value):
        return math.nan
    if name in (*DECIMALS, *LABELLED):
        return round(value, 2) if abs(value) < 10 else float(f"{value:.1e}")
    return float(f"{value:.0e}") if abs(value) >= 1 else round(value, 2)


def _read(found: re.Match[str], before: str) -> Numeral:
    parts: Mapping[str, str] = found.groupdict("")
    whole, *rest = _MARK.split(_GROUP.sub("", parts["whole"] + parts["rest"]))
    size = min(float(f"{whole}.{''.join(rest)}0{parts['power']}"), MOST)
    value = (-size if parts["sign"] else size) / (100 if parts["percent"] else 1)
    word = _WORD.search(before)
    decimal = bool(rest or parts["power"] or parts["percent"]) and ":" not in parts["rest"]
    return Numeral(value, decimal, word is not None and word[1].lower() in LABELS)


def _first(values: Iterable[float]) -> float:
    return next(iter(values), math.nan)


def _extremes(values: list[float]) -> tuple[float, float]:
    return (max(values), min(values)) if values else (math.nan, math.nan)
