"""Scores of member and non-member trials in files of other tools, and a verdict from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from leakbound.auditing.decide.obstacles import (
    Conclusion,
    Obstacle,
    above_zero,
    blind_unless,
    unshown_sentence,
)
from leakbound.auditing.observe.controls import LEVEL
from leakbound.auditing.observe.rejections import above_guessing
from leakbound.errors import DataError, UsageError
from leakbound.estimators import Claim
from leakbound.estimators.random_guessing import is_random_guessing, random_guessing
from leakbound.estimators.score_bounds import DecidingName, ScoreBounds, ScoreDesign, ScoredTrials
from leakbound.stats import Estimate, beside, cut, rank_test
from leakbound.tasks.rows.sources import SourceRow, source_rows

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


def load_scores(
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
        sides: dict[bool, list[float]] = {True: [], False: []}
        for row in rows[0]:
            sides[_is_member(row, names)].append(_score(row, names))
        member, nonmember = sides[True], sides[False]
    for kind, scores in (("member", member), ("non-member", nonmember)):
        if not scores:
            raise DataError(
                f"there is no score of a {kind}; each kind needs at least one, and the column "
                f"{names.member!r} says which is which."
            )
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


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether anything shows that an attack sees a leak where there is one."""

    p_value: float
    controls: bool = False


def sees_leak(
    trials: ScoredTrials, controls: ScoredTrials | None = None, two_sided: bool = False
) -> Seen:
    """Test whether an attack sees anything."""
    asked = trials if controls is None else controls
    p_value = rank_test(asked.member.tolist(), asked.nonmember.tolist(), two_sided)
    return Seen(p_value, controls is not None)


def conclude_scores(
    found: ScoreBounds, method: DecidingName, claim: Claim, seen: Seen
) -> Conclusion:
    """Hold the bound of one method against a claim."""
    bound, most = found.estimate(method), found.largest(method)
    epsilon = bound.epsilon or 0.0
    if epsilon > claim.epsilon:
        shown, _ = beside(epsilon, claim.epsilon)
        why = (
            f"the bound {shown} ({method}) exceeds {_name_of(claim)}: a system that satisfies the "
            f"claim shows this with a probability of at most {1 - found.confidence:.2g}."
        )
        return Conclusion("violation", None, (why,))
    against = (*_few(most, claim, found), *_blind(seen, above_zero((bound, *found.estimates))))
    if against:
        return Conclusion("inconclusive", against[0][0], tuple(why for _, why in against))
    sentence = (
        f"the bound {cut(epsilon)} ({method}) does not exceed {_name_of(claim)}; these trials "
        f"could have certified up to epsilon {cut(most)}. This attack found no violation; another "
        "might."
    )
    return Conclusion("no_violation", None, (sentence,))


def conclude_guessing(
    sides: tuple[ScoreBounds, ScoreBounds],
    method: DecidingName,
    seen: Seen,
    powers: Sequence[tuple[float, float]] = (),
) -> Conclusion:
    """Is an attack better, or worse, than random guessing?"""
    claim = random_guessing()
    for side, found in zip(("higher", "lower"), sides, strict=True):
        epsilon = found.estimate(method).epsilon or 0.0
        if epsilon > 0:
            error = 2 * (1 - found.confidence)
            what = above_guessing(epsilon, method, error, f"members score {side}")
            return Conclusion("violation", None, (what,))
    said = conclude_scores(sides[0], method, claim, seen)
    if said.verdict != "no_violation":
        return said
    return replace(said, sentences=(*said.sentences, unshown_sentence(powers)))


def _name_of(claim: Claim) -> str:
    if is_random_guessing(claim):
        return "epsilon 0, which is random guessing"
    return f"the claimed epsilon {claim.epsilon:g}"


def _few(most: float, claim: Claim, found: ScoreBounds) -> Iterator[Obstacle]:
    if most <= claim.epsilon:
        counts = found.counts
        yield (
            "too_few_trials",
            f"{counts['tested_member']} member and {counts['tested_nonmember']} non-member trials "
            f"can certify at most epsilon {cut(most)}, even with a perfect attack; the claim is "
            f"{claim.epsilon:g}. Use more trials.",
        )


def _blind(seen: Seen, bound: Estimate | None) -> Iterator[Obstacle]:
    if seen.p_value <= LEVEL:
        return
    advice = (
        "The controls do not differ either: use another attack."
        if seen.controls
        else "Give the scores of a positive control, a system that leaks for certain, with "
        "--controls."
    )
    why = (
        "nothing shows that this attack sees anything: members and non-members do not clearly "
        f"differ (p = {seen.p_value:.2g}). {advice}"
    )
    yield blind_unless(bound, why)
