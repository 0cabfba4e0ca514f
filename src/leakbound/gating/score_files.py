"""Scores of member and non-member trials in files of other tools, and a verdict from them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from pydantic_core import to_jsonable_python

from leakbound._records import bounds_plot, data_frame, write_record
from leakbound.auditing.decide.obstacles import (
    Conclusion,
    Obstacle,
    Reason,
    Verdict,
    above_zero,
    blind_unless,
    unshown_sentence,
)
from leakbound.auditing.observe.controls import LEVEL
from leakbound.auditing.observe.rejections import above_guessing
from leakbound.errors import DataError, UsageError
from leakbound.estimators import Claim, threshold_rule
from leakbound.estimators.random_guessing import (
    RANDOM_GUESSING,
    is_random_guessing,
    of_one_side,
    power_against_guessing,
    random_guessing,
)
from leakbound.estimators.score_bounds import (
    DECIDING,
    DecidingName,
    ScoreBounds,
    ScoreDesign,
    ScoredTrials,
    ScoreRule,
    score_bounds,
)
from leakbound.stats import Bonferroni, Estimate, Fixed, Power, Split, beside, cut, rank_test
from leakbound.stats.counts.one_run import Ranked
from leakbound.tasks.rows.sources import SourceRow, source_rows

TURNED = 1e-3  # p-value from which scores are said to be the wrong way round
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
                "another with --score-field, --member-field or --pair-field."
            )


def load_scores(
    files: Sequence[Path],
    design: ScoreDesign | None = None,
    in_order: bool = False,
    columns: Columns | None = None,
) -> ScoredTrials:
    """Read scores of one file with both kinds of trials, or of two files."""
    names = columns or Columns()
    rows = [[*source_rows(str(file))] for file in files]
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
            "--score-field, --member-field and --pair-field."
        )
    return str(row.fields[name])


def claim_of(epsilon: float | None, name: str | None, delta: float) -> Claim | None:
    """The claim that scores are held against; None if none is stated."""
    if name is None:
        return None if epsilon is None else Claim(epsilon, delta)
    if name != RANDOM_GUESSING:
        raise UsageError(f"the claim is {name!r}; it must be {RANDOM_GUESSING}, or an epsilon.")
    if epsilon is not None or delta:
        raise UsageError(
            f"the claim {name} is epsilon 0 at delta 0; leave --epsilon and --delta out."
        )
    return random_guessing()


def rule_of(threshold: str | float | Sequence[float] | None) -> ScoreRule | None:
    """How a threshold is chosen: as in an audit; several numbers, and ranks."""
    if threshold is None:
        return None
    if isinstance(threshold, int | float):
        return Fixed(float(threshold))
    if not isinstance(threshold, str):
        return Bonferroni(tuple(threshold))
    if (ranked := Ranked.named(threshold)) is not None:
        return ranked
    if "," not in threshold:
        return threshold_rule(threshold, Split())
    try:
        return Bonferroni(tuple(float(one) for one in threshold.split(",")))
    except ValueError:
        raise UsageError(
            f"the threshold is {threshold!r}; it must be numbers with commas."
        ) from None


@dataclass(frozen=True, slots=True, repr=False)
class ScoreResult:
    """What scores of an attack show.

    Attributes:
        bounds: Every bound that the scores allow.
        claim: What was claimed; None if nothing was, and then there is no verdict.
        decided_by: The method whose bound is held against the claim.
        verdict: As of an audit; with its reason and its sentences.
        power: Of a test of random guessing, for several accuracies of an attack.
    """

    bounds: ScoreBounds
    claim: Claim | None
    decided_by: DecidingName
    verdict: Verdict | None = None
    reason: Reason | None = None
    sentences: tuple[str, ...] = ()
    power: tuple[tuple[float, Power], ...] = ()

    @property
    def bound(self) -> Estimate:
        """The bound that decides."""
        return self.bounds.estimate(self.decided_by)

    @property
    def epsilon(self) -> float:
        """What is leaked at least: epsilon of `bound`."""
        return self.bound.epsilon or 0.0

    def to_pandas(self) -> Any:
        """A table with a row for each estimate."""
        names = ("method", "kind", "epsilon", "mu", "delta", "confidence", "threshold")
        return data_frame(
            {**{name: getattr(one, name) for name in names}, "decides": one is self.bound}
            for one in self.bounds.estimates
        )

    to_frame = to_pandas

    def save(self, path: str | Path) -> Path:
        """Write everything as a JSON file that only its owner can read."""
        plain = to_jsonable_python(asdict(self), inf_nan_mode="strings")
        return write_record(path, json.dumps(plain, indent=2) + "\n")

    def plot(self, axes: Any = None) -> Any:
        """Draw all lower bounds on epsilon, on matplotlib axes of its own if none are given."""
        claim = None if self.claim is None else self.claim.epsilon
        return bounds_plot(self.bounds.estimates, claim, axes)

    def __str__(self) -> str:
        return "\n  ".join([repr(self), *(one[:1].upper() + one[1:] for one in self.sentences)])

    def __repr__(self) -> str:
        claimed = "" if self.claim is None else f", claim={self.claim.epsilon:g}"
        said = "" if self.verdict is None else f", verdict={self.verdict!r}"
        return (
            f"ScoreResult(epsilon={cut(self.epsilon)}, delta={self.bounds.delta:g}{claimed}{said}, "
            f"decided_by={self.decided_by!r})"
        )


def judge_scores(
    trials: ScoredTrials, claim: Claim | None, delta: float = 0.0, confidence: float = 0.95,
    rule: ScoreRule | None = None, seed: int = 0, estimator: DecidingName | None = None,
    seen: Seen | None = None,
) -> ScoreResult:  # fmt: skip
    """Bounds of scores and, if there is a claim, a verdict; `seen` by controls, or else by them."""
    if estimator not in (None, *DECIDING):
        raise UsageError(f"estimator is {estimator!r}; it must be one of {', '.join(DECIDING)}.")
    delta = delta if claim is None else claim.delta
    found = score_bounds(trials, delta, confidence, rule, seed)
    method = estimator or ("one_run" if trials.design == "one_run" else "e_process")
    turned = (*_wrong_way_round(trials),)
    if claim is None:
        return ScoreResult(found, None, method, sentences=turned)
    guessing = is_random_guessing(claim)
    seen = seen or sees_leak(trials, two_sided=guessing)
    if not guessing:
        said = conclude_scores(found, method, claim, seen)
        why = said.sentences if said.verdict == "violation" else (*said.sentences, *turned)
        return ScoreResult(found, claim, method, said.verdict, said.reason, why)
    pairs = found.counts["pairs"]
    pairs = found.estimate(method).counts["guesses"] if method == "one_run" else pairs
    power = power_against_guessing(method, pairs, found.confidence)
    each = of_one_side(confidence)  # two-sided: half of the error for each
    one, other = (score_bounds(t, 0.0, each, rule, seed) for t in (trials, trials.swapped))
    said = conclude_guessing((one, other), method, seen, [(at, one.safe) for at, one in power])
    return ScoreResult(found, claim, method, said.verdict, said.reason, said.sentences, power)


def _wrong_way_round(trials: ScoredTrials) -> Iterator[str]:
    """Members whose scores are clearly lower have no bound of their own."""
    p_value = rank_test(trials.nonmember.tolist(), trials.member.tolist())
    if p_value <= TURNED:
        yield (
            f"members score clearly lower than others (p = {p_value:.2g}), and a bound is read "
            "from members that score higher: if these are losses, say so (lower_is_member), which "
            "has to be known before the scores are seen."
        )


# Whether anything shows that an attack sees a leak: the p-value, and whether controls were asked.
Seen: TypeAlias = tuple[float, bool]


def sees_leak(
    trials: ScoredTrials, controls: ScoredTrials | None = None, two_sided: bool = False
) -> Seen:
    """Test whether an attack sees anything."""
    asked = trials if controls is None else controls
    p_value = rank_test(asked.member.tolist(), asked.nonmember.tolist(), two_sided)
    return p_value, controls is not None


def conclude_scores(
    found: ScoreBounds, method: DecidingName, claim: Claim, seen: Seen
) -> Conclusion:
    """Hold the bound of one method against a claim."""
    bound, most = found.estimate(method), found.largest(method)
    epsilon = bound.epsilon or 0.0
    if epsilon > claim.epsilon:
        shown, _ = beside(epsilon, claim.epsilon)
        why = (
            f"the bound {shown} ({method}) exceeds {_name_of(claim)}. If the claim were true, a "
            f"result this extreme would occur at most {100 * (1 - found.confidence):.2g}% of the "
            "time."
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
            f"can show at most ε = {cut(most)}, even with a perfect attack; the claim is "
            f"{claim.epsilon:g}. Use more trials.",
        )


def _blind(seen: Seen, bound: Estimate | None) -> Iterator[Obstacle]:
    p_value, asked = seen
    if p_value <= LEVEL:
        return
    advice = (
        "The controls do not differ either: use another attack."
        if asked
        else "Give the scores of a positive control, a system that leaks for certain, with "
        "--control-scores."
    )
    why = (
        "nothing shows that this attack sees anything: members and non-members do not clearly "
        f"differ (p = {p_value:.2g}). {advice}"
    )
    yield blind_unless(bound, why)
