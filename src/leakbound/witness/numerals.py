"""Numbers that a reply shows, such as the similarity of a match or how many were found."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

PLACES = tuple(f"number_{at}" for at in range(1, 49))  # the first numbers of a reply, in order
STORED_PLACES = 8  # of which so many are stored
EXTREMES = ("largest_number", "smallest_number")
DECIMALS = (  # of numerals with a decimal mark, a percent sign or an exponent
    "first_decimal", "largest_decimal", "smallest_decimal",
    "largest_fraction", "smallest_fraction",  # of those from -1 to 1, as similarities are
)  # fmt: skip
LABELLED = ("first_labelled", "largest_labelled", "smallest_labelled")  # after a word of LABELS
STEPS = ("first_step", "largest_step", "smallest_step")  # from a number to the next, as in 3 of 4
NUMBERS = (*PLACES, "last_number", *EXTREMES, *DECIMALS, *LABELLED, *STEPS)
LABELS = frozenset({
    "confidence", "count", "distance", "found", "hits", "likelihood", "match", "matched", "matches",
    "probability", "rank", "ranking", "rating", "relevance", "result", "results", "score", "scores",
    "similarity", "total",
})  # fmt: skip
LONGEST_LABEL = 40  # characters that are looked at before a number
_UNSPACED = "\u0e00"  # from here on scripts that put numbers right after words, as Chinese does
STEP_DECIMALS = 9  # of a step; what remains of equal steps differs in the last places
MOST = 1e30  # larger numbers count as this one
MOST_STORED = 1e15  # of numbers that are stored, such as identifiers
_SHARE = (  # 4.5/5: no more than 5, 10 or 100, before "/" and that number
    r"(?:[0-4](?:\.\d+)?|5)(?=\s?/\s?5\b)|(?:\d(?:\.\d+)?|10)(?=\s?/\s?10\b)"
    r"|(?:\d{1,2}(?:\.\d+)?|100)(?=\s?/\s?100\b)"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_DATE = rf"(?!{_DAY}\.{_DAY}(?:\.\s?\d|\s(?:19|20)\d\d))(?!0\d)"  # 3.12. 84, 12.3 1984, 06.12
_NUMERAL = re.compile(
    rf"(?<![\w/.,-])(?P<share>{_SHARE})\s?/\s?(?P<of>\d+)(?![\w/-]|[.,]\d)"
    r"|(?P<sign>(?<!\w)[-−])?(?P<digits>"
    r"\d{1,3}(?:,\d{3}){1,10}(?![\d,])(?:\.\d+)?"  # 1,234.5
    rf"|(?<![\d.]){_DATE}\d+\.\d+(?!\.?\d)"
    r"|(?<!\S)\d+,\d+(?![\d,\]]|\.\d)"  # a decimal comma
    r"|\d+)(?P<power>[eE][-+]?\d{1,3}\b)?(?P<percent>\s?%)?"
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_OF_DATES = "年月日号時时分秒년월일"  # letters that stand between the parts of a date
_LETTER = re.compile(rf"[^\W\d_{_OF_DATES}]")
ROW = 3  # fewest numbers of a row that may be a date, a telephone number or a spaced PIN
_WORD = re.compile(r"([^\W\d_]+)[^\w%]*$")


@dataclass(frozen=True, slots=True)
class _Numeral:
    """A number as a text shows it."""

    value: float
    decimal: bool
    labelled: bool
    of_code: bool


def numerals_in(text: str) -> list[_Numeral]:
    found = [*_NUMERAL.finditer(text)]
    ends = [0, *(one.end() for one in found)]
    gaps = [text[end : one.start()] for end, one in zip(ends, found, strict=False)]
    rows = _rows([one["of"] is not None for one in found], gaps)
    return [_parse(*each) for each in zip(found, gaps, rows, strict=True)]


def numbers_of(text: str, stored: bool = False) -> dict[str, float]:
    found = numerals_in(text)
    if stored:
        found = [
            replace(one, value=coarse(max(-MOST_STORED, min(MOST_STORED, one.value))))
            for one in found if not one.of_code
        ]  # fmt: skip
    values = [one.value for one in found]
    decimals = [one.value for one in found if one.decimal]
    fractions = [value for value in decimals if abs(value) <= 1]
    labelled = [one.value for one in found if one.labelled]
    steps = [round(b - a, STEP_DECIMALS) for a, b in pairwise(values)]
    some = values[: STORED_PLACES if stored else len(PLACES)]
    places = [*some, *[math.nan] * (len(PLACES) - len(some))]
    first, last = _first(decimals), _first(values[-1:])
    return dict(zip(
        NUMBERS,
        (*places, last, *_extremes(values), first, *_extremes(decimals), *_extremes(fractions),
         _first(labelled), *_extremes(labelled), _first(steps), *_extremes(steps)),
        strict=True,
    ))  # fmt: skip


def coarse(value: float) -> float:
    """What may be stored of a number whose text may not."""
    return round(value, 2) if math.isnan(value) or abs(value) < 10 else float(f"{value:.1e}")


def _rows(shares: Sequence[bool], gaps: Sequence[str]) -> list[bool]:
    """Of each number, by what stands before it: is it in a row of at least three? A square bracket
    after a share that begins a row ends it, as in "91/100 [1]"."""
    rows, row, first_share = list[int](), 0, False
    for share, gap in zip(shares, gaps, strict=False):
        apart = not rows or _LETTER.search(gap) or (first_share and "[" in gap)
        first_share = bool(apart) and share
        row += bool(apart)
        rows.append(row)
    sizes = Counter(one for one, share in zip(rows, shares, strict=True) for _ in range(1 + share))
    return [sizes[one] >= ROW for one in rows]


def _parse(found: re.Match[str], before: str, in_row: bool) -> _Numeral:
    parts = found.groupdict("")
    word = _WORD.search(before[-LONGEST_LABEL:])
    labelled = word is not None and word[1].lower() in LABELS
    if parts["of"]:
        return _Numeral(min(float(parts["share"]), MOST) / int(parts["of"]), True, labelled, in_row)
    grouped = _GROUPED.fullmatch(parts["digits"]) is not None
    digits = parts["digits"].replace(",", "" if grouped else ".")
    size = min(float(f"{digits}{parts['power']}"), MOST) / (100 if parts["percent"] else 1)
    decimal = "." in digits or bool(parts["power"] or parts["percent"])
    return _Numeral(
        value=-size if parts["sign"] else size,
        decimal=decimal,
        labelled=labelled,
        of_code=not decimal and (in_row or (before[-1:].isalpha() and before[-1] < _UNSPACED)),
    )


def _first(values: Iterable[float]) -> float:
    return next(iter(values), math.nan)


def _extremes(values: list[float]) -> tuple[float, float]:
    return (max(values), min(values)) if values else (math.nan, math.nan)
