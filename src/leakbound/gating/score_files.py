"""Files with scores of member and non-member trials, as other tools write them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from leakbound.errors import DataError, UsageError
from leakbound.estimators.score_bounds import ScoreDesign, ScoredTrials
from leakbound.tasks.rows.sources import SourceRow, source_rows

Floats = npt.NDArray[np.float64]
SIDES = {
    **dict.fromkeys(("1", "1.0", "true", "yes", "in", "member"), True),
    **dict.fromkeys(("0", "0.0", "false", "no", "out", "nonmember", "non-member"), False),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns of a score file."""

    score: str = "score"
    member: str = "member"
    pair: str = "pair"
    lower_is_member: bool = False

    def __post_init__(self) -> None:
        if self.score in (self.member, self.pair):
            raise UsageError(
                f"the column {self.score!r} is named for the scores and for something else; name "
                "another with --score-column, --member-column or --pair-column."
            )


def read_scores(
    files: Sequence[Path],
    design: ScoreDesign | None = None,
    in_order: bool = False,
    columns: Columns | None = None,
) -> ScoredTrials:
    """Read scores of one file with both kinds of trials, or of two files."""
    names = columns or Columns()
    rows = [source_rows(str(file)) for file in files]
    paired = len(rows) == 1 and design in (None, "paired") and names.pair in rows[0][0].fields
    if design is None and not paired:
        raise DataError(
            f"nothing says how the trials were made; add --design, or a column {names.pair!r} that "
            "names the pair of each trial. paired: a member and a non-member trial belong "
            "together; unpaired: all trials are independent; one_run: all scores are of one system."
        )
    if len(rows) == 2:
        _require_one_side(rows, names)
        member, nonmember = ([_score(row, names) for row in side] for side in rows)
    elif paired:
        member, nonmember = _by_pair(rows[0], names)
    else:
        member, nonmember = _by_side(rows[0], names)
    _require_both(member, nonmember, names)
    one, other = np.array(member, float), np.array(nonmember, float)
    return ScoredTrials(one, other, design or "paired", in_order)


def _require_one_side(sides: Sequence[Sequence[SourceRow]], names: Columns) -> None:
    """Refuse a file with both kinds of trials as one of two files."""
    for rows, member in zip(sides, (True, False), strict=True):
        for row in rows:
            if names.member in row.fields and _is_member(row, names) != member:
                kind = "members" if member else "non-members"
                raise DataError(
                    f"{row.place} is not one of the {kind}, whose file it stands in; give members "
                    f"first, or one file with the column {names.member!r}."
                )


def _require_both(member: Sequence[float], nonmember: Sequence[float], names: Columns) -> None:
    for kind, scores in (("member", member), ("non-member", nonmember)):
        if not scores:
            raise DataError(
                f"there is no score of a {kind}; each kind needs at least one, and the column "
                f"{names.member!r} says which is which."
            )


def _by_side(rows: Sequence[SourceRow], names: Columns) -> tuple[list[float], list[float]]:
    sides: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        sides[_is_member(row, names)].append(_score(row, names))
    return sides[True], sides[False]


def _by_pair(rows: Sequence[SourceRow], names: Columns) -> tuple[list[float], list[float]]:
    found: dict[str, dict[bool, float]] = defaultdict(dict)
    for row in rows:
        name, side = _text(row, names.pair), _is_member(row, names)
        if not name.strip():
            raise DataError(f"{names.pair!r} of {row.place} is empty; name the pair of each trial.")
        pair = found[name]
        if side in pair:
            kind = "member" if side else "non-member"
            raise DataError(f"{row.place} is a second {kind} trial of its pair; a pair has one.")
        pair[side] = _score(row, names)
    if alone := sum(len(pair) < 2 for pair in found.values()):
        raise DataError(
            f"{alone} of {len(found)} pairs have one trial; each needs a member and a non-member."
        )
    return [pair[True] for pair in found.values()], [pair[False] for pair in found.values()]


def _is_member(row: SourceRow, names: Columns) -> bool:
    side = SIDES.get(_text(row, names.member).strip().lower())
    if side is None:
        raise DataError(
            f"{names.member!r} of {row.place} says neither member nor non-member; it must be 1 or "
            "0, true or false, in or out, yes or no."
        )
    return side


def _score(row: SourceRow, names: Columns) -> float:
    text = _text(row, names.score)
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if math.isnan(score):
        raise DataError(f"{names.score!r} of {row.place} is not a number; every trial has a score.")
    return -score if names.lower_is_member else score


def _text(row: SourceRow, name: str) -> str:
    if name in row.fields and row.fields[name] is None:
        raise DataError(f"{name!r} of {row.place} is empty; fill it, or leave the row out.")
    if name not in row.fields:
        known = ", ".join(map(repr, row.fields))
        raise DataError(
            f"{row.place} has no column {name!r}; it has {known}. Name the columns with "
            "--score-column, --member-column and --pair-column."
        )
    return str(row.fields[name])
