"""Controls: does the attack see a context that is full of the canary?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.special import gammaincc

from leakbound.estimators import PairedScores
from leakbound.estimators.base import ReplyPair
from leakbound.stats import rank_test
from leakbound.witness import StoredReply
from leakbound.witness.features import SCALARS, measured

Floats = npt.NDArray[np.float64]
LEVEL = 0.05  # p-value at which the positive control counts as seen, shared by all tests of it
# a control context differs in its length, which the time and the tokens of any answer may follow
OF_LENGTH = ("seconds", "tokens")
NOTHING = 0.1  # a p-value above it shows nothing, and other shards do not make up for it


@dataclass(frozen=True, slots=True)
class ControlCheck:
    """What the control pairs showed. It gates no_violation, and enters no bound."""

    pairs: int
    p_value: float | None
    exempt: bool = False
    witness: float | None = None
    late: float | None = None
    single: float | None = None
    changed: float | None = None
    gaps: Annotated[tuple[float, ...], Field(exclude=True)] = field(
        default=(), repr=False, compare=False
    )

    @property
    def seen(self) -> bool:
        """Whether the attack saw the positive control."""
        return self.exempt or (self.combined is not None and self.combined <= LEVEL)

    @property
    def seen_once(self) -> bool:
        """Whether the attack saw a canary that stands once."""
        return self.exempt or (self.single is not None and self.single <= LEVEL)

    @property
    def by_replies_alone(self) -> bool:
        """Whether the attack saw the control by measurements of replies, and not by its score."""
        score = self.p_value is not None and 2 * self.p_value <= LEVEL
        return self.seen and not (self.exempt or score) and self.witness is not None

    @property
    def seen_late(self) -> bool:
        """Whether nothing shows that it did not see it after the last pair."""
        return self.late is None or self.late <= LEVEL

    @property
    def combined(self) -> float | None:
        """The least p-value, times their number; None where no control was asked."""
        known = [one for one in (self.p_value, self.witness) if one is not None]
        return min(1.0, len(known) * min(known)) if known else None

    def _again(self, late: ControlCheck) -> float:
        """The late p-value of the test that saw the control best at first."""
        both = self.p_value is not None and self.witness is not None
        times = 2 if both else 1
        score, witness = self.p_value, self.witness
        by_score = score is not None and (witness is None or score <= witness)
        found = late.p_value if by_score else late.witness
        return 1.0 if found is None else min(1.0, times * found)

    def beside(self, single: ControlCheck, trials: float) -> ControlCheck:
        """The check with what shows one canary."""
        if single.combined is None:
            return self
        return replace(self, single=min(1.0, 2 * min(single.combined, trials)))

    def followed_by(self, late: Sequence[ControlCheck]) -> ControlCheck:
        """The check with what late controls have shown."""
        known = [self._again(one) for one in late]
        if not known:
            return self
        unsure = len(known) > 1 and LEVEL < max(known) <= NOTHING
        after = [gap for one in late for gap in one.gaps]
        changed = rank_test(self.gaps, after, True) if self.gaps and after else None
        if unsure:  # Fisher's combination of independent tests
            joint = float(gammaincc(len(known), -sum(map(math.log, known))))
            return replace(self, late=joint, changed=changed)
        return replace(self, late=max(known), changed=changed)

    @property
    def shows_change(self) -> bool:
        """Whether the late control pairs differ from the first ones beyond chance."""
        return self.changed is not None and self.changed <= LEVEL


def check_controls(
    scores: PairedScores | None, exempt: bool, replies: Sequence[ReplyPair] = (),
    two_sided: bool = False,
) -> ControlCheck:  # fmt: skip
    """Compare the scores of the control pairs."""
    if scores is None or not len(scores):
        return ControlCheck(0, None, exempt)
    p_value = rank_test(scores.member.tolist(), scores.nonmember.tolist(), two_sided)
    gaps = tuple((scores.member - scores.nonmember).tolist())
    return ControlCheck(len(scores), p_value, exempt, _witness(replies), gaps=gaps)


def _witness(replies: Sequence[ReplyPair]) -> float | None:
    """The smallest two-sided p-value of all measurements, corrected for their number."""
    known = [(_scalars(one), _scalars(other)) for one, other in replies if one and other]
    if not known:
        return None
    member, nonmember = (np.stack(side) for side in zip(*known, strict=True))
    found = np.concatenate(p_values_of(member, nonmember))
    tested = found[~np.isnan(found)]
    return min(1.0, max(1, tested.size) * float(tested.min(initial=1.0)))


def p_values_of(member: Floats, nonmember: Floats) -> tuple[Floats, Floats]:
    """Compare each measurement of the replies of both contexts."""
    lacks = np.isnan(member), np.isnan(nonmember)
    both = ~(lacks[0] | lacks[1])
    mixed = ~both.all(axis=0) & ~(lacks[0] & lacks[1]).all(axis=0)
    numbers, shown = np.full((2, member.shape[1]), np.nan)
    for at in np.flatnonzero(both.any(axis=0)):
        high, low = (side[both[:, at], at] for side in (member, nonmember))
        if (np.append(high, low) != high[0]).any():
            numbers[at] = rank_test(high.tolist(), low.tolist(), True)
    for at in np.flatnonzero(mixed):
        there, elsewhere = (side[:, at].astype(float).tolist() for side in lacks)
        shown[at] = rank_test(there, elsewhere, True)
    return numbers, shown


def _scalars(reply: StoredReply) -> Floats:
    kept = [not name.startswith(OF_LENGTH) for name in SCALARS]
    return np.where(kept, measured(reply).scalars, np.nan)
