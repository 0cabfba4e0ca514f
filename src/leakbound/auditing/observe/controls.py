"""Controls: does the attack see a context that is full of the canary, as a whole and by channel?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
import scipy
from pydantic import Field

from leakbound.attacks import ContainsCanary
from leakbound.auditing.design.pairs import Pair
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.errors import TargetError
from leakbound.estimators.base import Observations, PairedScores, ReplyPair
from leakbound.mechanisms.parts.single import release_unchanged
from leakbound.stats import rank_test
from leakbound.stats.arrays import Floats
from leakbound.systems.channels import ALL, SECONDS, TOOL_CALLS
from leakbound.tasks import ANSWER, channel_of, reply_of
from leakbound.witness.features import SCALARS, as_features

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
    def shown(self) -> bool:
        """Whether full controls, or a single canary, show that the attack sees something."""
        return self.seen or self.seen_once

    @property
    def seen_once(self) -> bool:
        """Whether the attack detected a single canary."""
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
        return _least([one for one in (self.p_value, self.witness) if one is not None])

    def _again(self, late: ControlCheck) -> float:
        """The late p-value of the test that saw the control best at first."""
        both = self.p_value is not None and self.witness is not None
        times = 2 if both else 1
        score, witness = self.p_value, self.witness
        by_score = score is not None and (witness is None or score <= witness)
        found = late.p_value if by_score else late.witness
        return 1.0 if found is None else min(1.0, times * found)

    def beside(self, single: ControlCheck, trials: float, throughout: float) -> ControlCheck:
        """The check with what shows one canary; trials that show it to the end are late ones."""
        if single.combined is None:
            return self
        least = min(single.combined, trials) if self.seen else throughout
        shown = not self.seen_late and 2 * throughout <= LEVEL
        late = 2 * throughout if shown else self.late
        return replace(self, single=min(1.0, 2 * least), late=late)

    def followed_by(self, late: Sequence[ControlCheck]) -> ControlCheck:
        """The check with what late controls have shown."""
        known = [self._again(one) for one in late]
        if not known:
            return self
        unsure = len(known) > 1 and LEVEL < max(known) <= NOTHING
        after = [gap for one in late for gap in one.gaps]
        changed = rank_test(self.gaps, after, True) if self.gaps and after else None
        if unsure:  # Fisher's combination of independent tests
            joint = float(scipy.special.gammaincc(len(known), -sum(map(math.log, known))))
            return replace(self, late=joint, changed=changed)
        return replace(self, late=max(known), changed=changed)

    @property
    def shows_change(self) -> bool:
        """Whether the late control pairs differ from the first ones beyond chance."""
        return self.changed is not None and self.changed <= LEVEL


def check_controls(
    scores: PairedScores | None, exempt: bool, replies: Sequence[ReplyPair] = (),
    two_sided: bool = False, by_length: bool = False,
) -> ControlCheck:  # fmt: skip
    if scores is None or not len(scores):
        return ControlCheck(0, None, exempt)
    p_value = rank_test(scores.member.tolist(), scores.nonmember.tolist(), two_sided)
    gaps = tuple((scores.member - scores.nonmember).tolist())
    witness = _witness(replies, by_length)
    return ControlCheck(len(scores), p_value, exempt, witness, gaps=gaps)


def _witness(replies: Sequence[ReplyPair], by_length: bool) -> float | None:
    """The smallest two-sided p-value of all measurements, corrected for their number."""
    kept = [by_length or not name.startswith(OF_LENGTH) for name in SCALARS]
    known = [
        [np.where(kept, as_features(side).scalars, np.nan) for side in (one, other)]
        for one, other in replies
        if one and other
    ]
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


StoredBatch = Sequence[tuple[Pair, EvidenceRow]]
FIRST = (ANSWER, SECONDS, TOOL_CALLS)  # channels of every system come before its own
SCORE = ContainsCanary()


def channels_shown(wanted: tuple[str, ...], controls: Sequence[EvidenceRow]) -> tuple[str, ...]:
    """The channels that are tested, fixed before the first pair."""
    known = {ANSWER, *(name for row in controls for one in row.both for name in one.channels)}
    own = sorted(known - set(FIRST))
    there = (*(name for name in FIRST if name in known), *own)
    if ALL in wanted:
        return there
    lacking = [name for name in wanted if name not in known]
    if lacking and controls:
        raise TargetError(
            f"no control reply of the system has the channel {lacking[0]!r}; name another, or let "
            "the system reply with an empty text where the channel is silent. --channels all tests "
            "those that there are."
        )
    return wanted


def observe_channels(batch: StoredBatch, whole: Observations, names: Sequence[str]) -> Observations:
    """What pairs show, with what each channel shows by itself."""
    found = {ANSWER: whole} | {
        name: _of_texts(batch, whole.first, name) for name in names if name != ANSWER
    }
    return replace(whole, channels=found)


def _of_texts(batch: StoredBatch, first: int, name: str) -> Observations:
    scores = _channel_scores(batch, name)
    drawn = PairedScores(scores.member[:, None], scores.nonmember[:, None])
    replies = replies_in(batch, name)
    return Observations(
        first, len(batch), trial_scores=scores, simulated_scores=drawn, reply_pairs=replies
    )


def replies_in(batch: StoredBatch, name: str = ANSWER) -> tuple[tuple[ReplyPair, str], ...]:
    """What a witness reads of pairs in one channel."""
    return tuple(
        (
            (reply_of(one), reply_of(other)),  # and what they may quote
            pair.asked.target or (given if isinstance(given := pair.canary.input, str) else ""),
        )
        for pair, row in batch
        for one, other in [(channel_of(row.member, name), channel_of(row.nonmember, name))]
    )


def _channel_scores(batch: StoredBatch, name: str) -> PairedScores:
    found = np.empty((2, len(batch)))
    for at, (pair, row) in enumerate(batch):
        for of, aggregate in enumerate(row.both):
            outputs = release_unchanged(channel_of(aggregate, name), 1)
            found[of, at] = SCORE.score(outputs, pair.asked, ())[0]
    return PairedScores(found[0], found[1])


def check_channels(
    batch: StoredBatch, answers: PairedScores, names: Sequence[str], by_length: bool = False
) -> dict[str, ControlCheck]:
    found = {}
    for name in names:
        both = [[channel_of(one, name) for one in row.both] for _, row in batch]
        scores = answers if name == ANSWER else _channel_scores(batch, name)
        replies = [(reply_of(one), reply_of(other)) for one, other in both]
        found[name] = check_controls(scores, False, replies, by_length=by_length)
    return found


def of_all_channels(checks: Mapping[str, ControlCheck]) -> ControlCheck:
    """Was the control seen in any channel, and is it seen still in all of these?"""
    every = [p for one in checks.values() for p in (one.p_value, one.witness) if p is not None]
    pairs = max((one.pairs for one in checks.values()), default=0)
    late = [one.late for one in checks.values() if one.seen and one.late is not None]
    changed = [one.changed for one in checks.values() if one.seen and one.changed is not None]
    single = [one.single for one in checks.values() if one.single is not None]
    return ControlCheck(
        pairs, _least(every), late=max(late, default=None), changed=_least(changed),
        single=_least(single),
    )  # fmt: skip


def _least(p_values: Sequence[float]) -> float | None:
    return min(1.0, len(p_values) * min(p_values)) if p_values else None
