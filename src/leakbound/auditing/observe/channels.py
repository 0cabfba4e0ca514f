"""Audits by channel: which channels there are, what each shows, and what is said of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from leakbound.attacks import ContainsCanary
from leakbound.auditing.design.pairs import Pair
from leakbound.auditing.observe.controls import ControlCheck, check_controls
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.errors import TargetError
from leakbound.estimators import Observations, PairedScores
from leakbound.estimators.base import ReplyPair
from leakbound.mechanisms.parts.single import release_unchanged
from leakbound.systems.channels import ALL, SECONDS, TOOL_CALLS
from leakbound.tasks import ANSWER, channel_of, reply_of

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
            "the system reply with an empty text where the channel is silent. --channel all tests "
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
    scores = _scores(batch, name)
    drawn = PairedScores(scores.member[:, None], scores.nonmember[:, None])
    replies = replies_in(batch, name)
    return Observations(
        first, len(batch), trial_scores=scores, simulated_scores=drawn, reply_pairs=replies
    )


def _text_asked_for(pair: Pair) -> str:
    """What a reply may quote: the text that gives the canary away, else that of its record."""
    given = pair.canary.input
    return pair.asked.target or (given if isinstance(given, str) else "")


def replies_in(batch: StoredBatch, name: str = ANSWER) -> tuple[tuple[ReplyPair, str], ...]:
    """What a witness reads of pairs in one channel."""
    return tuple(
        ((reply_of(one), reply_of(other)), _text_asked_for(pair))
        for pair, row in batch
        for one, other in [(channel_of(row.member, name), channel_of(row.nonmember, name))]
    )


def _scores(batch: StoredBatch, name: str) -> PairedScores:
    """(pairs,) does the canary stand in the text of a channel?"""
    found = np.empty((2, len(batch)))
    for at, (pair, row) in enumerate(batch):
        for of, aggregate in enumerate(row.both):
            outputs = release_unchanged(channel_of(aggregate, name), 1)
            found[of, at] = SCORE.score(outputs, pair.asked, ())[0]
    return PairedScores(found[0], found[1])


def check_channels(
    batch: StoredBatch, answers: PairedScores, names: Sequence[str]
) -> dict[str, ControlCheck]:
    """What the control pairs show in each channel."""
    found = {}
    for name in names:
        both = [[channel_of(one, name) for one in row.both] for _, row in batch]
        scores = answers if name == ANSWER else _scores(batch, name)
        replies = [(reply_of(one), reply_of(other)) for one, other in both]
        found[name] = check_controls(scores, False, replies)
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
