"""The outcome of a paper's claim, given what a recipe measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leakbound_lab.reproduce.claim_tests import EXACT, PValues, compare, compare_with_number
from leakbound_lab.reproduce.claims import Inequality, PaperClaim, Side, fill
from leakbound_lab.reproduce.values import MeasuredValue, PrintedValue, Sample

LEVEL = 0.05
CLOSE = 1e-9  # exact values that differ by less are equal
ClaimStatus = Literal["shown", "too_few_trials", "cannot_show", "reversed"]
OUTCOMES: Mapping[ClaimStatus, str] = {
    "shown": "shown",
    "too_few_trials": "not shown (too few trials)",
    "cannot_show": "cannot show here",
    "reversed": "reversed",
}


@dataclass(frozen=True, slots=True)
class TestedInequality:
    text: str
    quantity: str
    values: str
    difference: float | None
    claimed: float | None
    opposite: float | None
    test: str
    units: str
    obstacle: str
    status: ClaimStatus


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """The outcome of a claim.

    A claim is shown if the tests of all its inequalities are significant at the level. A claim with
    an inequality that does not hold is therefore shown with at most that probability. What it needs
    has to be shown, too: that the attack sees something, or that examples help. A claim is
    reversed if the negation of one inequality is significant at the level divided by their number.
    So each of the two errors has at most the probability of the level, over all inequalities of the
    recipe together.
    """

    status: ClaimStatus
    reason: str
    tested: tuple[TestedInequality, ...]
    level: float = LEVEL
    explained: str = ""

    @property
    def words(self) -> str:
        return OUTCOMES[self.status]


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The numbers of one side; exact if there is no sample. `cell` is the number in the table,
    which differs from the mean of a sample on another scale.
    """

    value: float
    sample: Sample | None = None
    ceiling: float | None = None
    cell: float | None = None

    @property
    def shown(self) -> str:
        return f"{self.value if self.cell is None else self.cell:.4g}"


class _Missing(Exception):
    """A side that cannot be compared; the message says why."""


class _Cells:
    def __init__(
        self,
        measured: Sequence[MeasuredValue],
        printed: Sequence[PrintedValue],
        names: Mapping[str, str],
        exact: bool,
    ) -> None:
        self._names, self._exact = names, exact
        self._measured = {(m.setting, str(m.quantity)): m for m in reversed(measured)}
        self._printed = {
            (p.setting, str(p.quantity)): float(p.value)
            for p in reversed(printed)
            if not isinstance(p.value, str)
        }

    def evidence(self, side: Side) -> _Evidence:
        if side.kind == "number":
            return _Evidence(side.number)
        key = fill(side.setting, self._names), side.quantity
        if "{model" in key[0]:
            raise _Missing("it takes two models; give --model twice.")
        if side.kind == "printed":
            return _Evidence(self._printed[key])
        if key not in self._measured:
            raise _Missing(f"{key[0]}, {key[1]} was not measured.")
        found = self._measured[key]
        return _ceiling(found) if side.kind == "ceiling" else self._value(found)

    def _value(self, found: MeasuredValue) -> _Evidence:
        if found.exact or self._exact:
            return _Evidence(found.value, None, found.ceiling)
        if found.sample is None:
            raise _Missing(f"{found.setting}, {found.quantity} is one number without a spread.")
        return _Evidence(found.sample.mean, found.sample, found.sample.ceiling, found.value)


def _ceiling(found: MeasuredValue) -> _Evidence:
    known = found.sample.ceiling if found.sample and found.sample.ceiling else found.ceiling
    if known is None:
        raise _Missing(f"{found.setting}, {found.quantity} has no known ceiling.")
    return _Evidence(known)


def judge(
    claim: PaperClaim,
    measured: Sequence[MeasuredValue],
    printed: Sequence[PrintedValue] = (),
    names: Mapping[str, str] | None = None,
    exact: bool = False,
) -> ClaimOutcome:
    cells = _Cells(measured, printed, names or {}, exact)
    many = len(claim.holds)
    tested = tuple(_test(one, cells, LEVEL / many) for one in claim.holds)
    if unmet := _unmet(claim.needs, cells):
        return ClaimOutcome(*unmet, tested)
    if all(one.status == "shown" for one in tested):
        return ClaimOutcome("shown", "", tested, explained=claim.caveat)
    for status in ("reversed", "cannot_show"):
        if found := [one for one in tested if one.status == status]:
            explained = claim.explained if status == "reversed" else ""
            return ClaimOutcome(status, _reason(found), tested, explained=explained)
    return ClaimOutcome("too_few_trials", _reason_of_few(tested), tested)


def _test(one: Inequality, cells: _Cells, corrected: float) -> TestedInequality:
    text = str(
        replace(one, larger=_name_of(one.larger, cells), smaller=_name_of(one.smaller, cells))
    )
    try:
        larger, smaller = cells.evidence(one.larger), cells.evidence(one.smaller)
    except _Missing as missing:
        return TestedInequality(
            text, one.larger.quantity, "", None, None, None, "none", "", str(missing), "cannot_show"
        )
    found = _p_values(larger, smaller, one.by)
    obstacle = _obstacle(one, larger, smaller, found)
    values = f"{larger.shown} and {smaller.shown}"
    return TestedInequality(
        text, one.larger.quantity, values, found.difference, found.claimed, found.opposite,
        found.test, found.units, obstacle, _status(found, obstacle, corrected),
    )  # fmt: skip


def _name_of(side: Side, cells: _Cells) -> Side:
    return replace(side, setting=fill(side.setting, cells._names))


def _status(found: PValues, obstacle: str, corrected: float) -> ClaimStatus:
    if found.claimed <= LEVEL:
        return "shown"
    if obstacle:
        return "cannot_show"
    return "reversed" if found.opposite <= corrected else "too_few_trials"


def _p_values(larger: _Evidence, smaller: _Evidence, by: float) -> PValues:
    if larger.sample is not None and smaller.sample is not None:
        return compare(larger.sample, smaller.sample, by)
    if larger.sample is not None:
        return compare_with_number(larger.sample, smaller.value + by)
    if smaller.sample is not None:
        up, down, test, units, gap, equal = compare_with_number(smaller.sample, larger.value - by)
        return PValues(down, up, test, units, -gap, equal)
    gap = larger.value - smaller.value - by
    holds = gap > CLOSE or (by < 0 and gap > -CLOSE)
    return PValues(float(not holds), float(holds), EXACT, "", gap)


def _obstacle(one: Inequality, larger: _Evidence, smaller: _Evidence, found: PValues) -> str:
    """Why no number of trials could show the inequality; "" if some number could."""
    needed = smaller.value + one.by
    if larger.ceiling is not None and larger.ceiling <= needed + CLOSE:
        most = f"{one.larger} is at most {larger.ceiling:.4g}"
        return f"{one.larger.quantity}: {most}, and has to be above {needed:.4g}."
    if found.equal and found.units and one.by >= 0:
        same = f"{one.larger} and {one.smaller} are equal in all of {found.units.split(',')[0]}"
        return f"{one.larger.quantity}: {same}."
    return ""


def _unmet(needs: Sequence[Inequality], cells: _Cells) -> tuple[ClaimStatus, str] | None:
    """The needs of a claim that the tests refute, or else do not show."""
    found = [(need.because, _test(need, cells, LEVEL / len(needs))) for need in needs]
    refuted = [
        one.obstacle if one.test == "none" else f"{because} ({_why(one)})."
        for because, one in found
        if one.status in ("reversed", "cannot_show")
    ]
    if refuted:
        return "cannot_show", " ".join(dict.fromkeys(refuted))
    open_ = [
        f"Too few trials to rule out that {because} ({_why(one)}, p = {one.claimed:.2g})."
        for because, one in found
        if one.status == "too_few_trials"
    ]
    return ("too_few_trials", " ".join(dict.fromkeys(open_))) if open_ else None


def _why(one: TestedInequality) -> str:
    return (one.obstacle or f"{one.quantity}: {one.text}: {one.values}").rstrip(".")


def _reason(found: Sequence[TestedInequality]) -> str:
    shown = []
    for one in found[:3]:
        tested = not one.obstacle and one.test != EXACT
        opposite = f", p of the opposite {one.opposite:.2g}" if tested else ""
        shown.append(one.obstacle or f"{one.quantity}: {one.text}: {one.values}{opposite}.")
    more = f" And {len(found) - 3} more." if len(found) > 3 else ""
    return " ".join(dict.fromkeys(shown)) + more


def _reason_of_few(tested: Sequence[TestedInequality]) -> str:
    """The tests that were not significant."""
    few = [one for one in tested if one.status == "too_few_trials"]
    shown = [
        f"{one.quantity}: {one.text}: {one.values}, p = {one.claimed:.2g} ({one.units})."
        for one in few[:3]
    ]
    more = f" And {len(few) - 3} more." if len(few) > 3 else ""
    return " ".join(shown) + more
