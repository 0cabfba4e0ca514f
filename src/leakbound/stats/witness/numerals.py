"""Numbers that a reply shows, such as the similarity of a match or how many were found."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
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
LONGEST_LABEL = 40  # characters that are looked at before a number
MOST = 1e15  # larger numbers, such as identifiers, count as this one
_RUN = re.compile(
    r"(?P<sign>(?<!\w)[-−])?(?P<run>\d+(?:[ .,:/-]\d+)*)"
    r"(?P<power>[eE][-+]?\d{1,3}\b)?(?P<percent>\s?%)?"
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL, _TWO = re.compile(r"\d+[.,]\d+"), re.compile(r"\d+[:/]\d+")
_WORD = re.compile(r"([^\W\d_]+)[^\w%]*$")


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number as a text shows it.

    Attributes:
        value: What it says; a percentage as a fraction. Digits that stand together but are no
            number, such as those of a date, a telephone number or a spaced PIN, are read as one.
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
        >>> [one.value for one in numerals_in("97 % of 1,200 at 0.5, best -3e-2; 06 12 34 56")]
        [0.97, 1200.0, 0.5, -0.03, 6123456.0]
    """
    found, end = list[Numeral](), 0
    for match in _RUN.finditer(text):
        word = _WORD.search(text[max(end, match.start() - LONGEST_LABEL) : match.start()])
        found += _numerals(match, word is not None and word[1].lower() in LABELS)
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


def coarse(value: float) -> float:
    """What may be stored of a number whose text may not.

    Args:
        value: The number; NaN where none is shown.

    Returns:
        The number to two digits; below 10 to two decimal places.

    Examples:
        >>> [coarse(one) for one in (0.973, 1.257, 52.31, 4821.0)]
        [0.97, 1.26, 52.0, 4800.0]
    """
    return round(value, 2) if math.isnan(value) or abs(value) < 10 else float(f"{value:.1e}")


def _numerals(found: re.Match[str], labelled: bool) -> Iterator[Numeral]:
    parts = found.groupdict("")
    pieces = [*_pieces(parts["run"])]
    for at, (digits, decimal) in enumerate(pieces):
        last = at == len(pieces) - 1
        power, percent = (parts["power"], parts["percent"]) if last else ("", "")
        size = min(float(f"{digits}{power}"), MOST) / (100 if percent else 1)
        sign = -1 if parts["sign"] and at == 0 else 1
        yield Numeral(sign * size, decimal or bool(power or percent), labelled and at == 0)


def _pieces(run: str) -> Iterator[tuple[str, bool]]:
    """Digits and perhaps a decimal point of each number of a run, and whether it has one."""
    if " " in run and not run.replace(" ", "").isdecimal():
        for piece in run.split(" "):
            yield from _pieces(piece)
    elif _GROUPED.fullmatch(run):
        yield run.replace(",", ""), "." in run
    elif _DECIMAL.fullmatch(run):
        yield run.replace(",", "."), True
    elif _TWO.fullmatch(run):
        yield from ((one, False) for one in re.split("[:/]", run))
    else:
        yield re.sub(r"\D", "", run), False


def _first(values: Iterable[float]) -> float:
    return next(iter(values), math.nan)


def _extremes(values: list[float]) -> tuple[float, float]:
    return (max(values), min(values)) if values else (math.nan, math.nan)
