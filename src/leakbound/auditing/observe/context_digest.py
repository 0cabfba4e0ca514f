"""Functions of the context: what is the same each time a context is asked, and differs between
neighbours, as a checksum does. Whoever knows the other records can look up which one is there.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby

from leakbound.auditing.design.pairs import Pair
from leakbound.auditing.observe.controls import StoredBatch
from leakbound.auditing.store.run_store import EvidenceRow
from leakbound.tasks import reply_of
from leakbound.witness.features import SCALARS, ReplyFeatures, as_features

LEVEL = 0.001
RATE = 1 / 8  # of two values that recur and differ, if replies are independent: at most
Readings = Mapping[str, Hashable]


def context_digest(pairs: Sequence[StoredBatch], values: int) -> str | None:
    """The reading of replies, with at least so many values, that is a function of the context.

    `pairs` are pairs of contexts with what they were answered each time. If what is read were
    independent of the contexts, it would be named with a probability of at most `LEVEL`, over all
    readings.
    """
    each = [
        [[*map(_readings, side)] for side in zip(*map(_replies, one), strict=True)] for one in pairs
    ]
    names = dict.fromkeys(name for sides in each for side in sides for one in side for name in one)
    if not names or len(names) * RATE ** len(each) > LEVEL:
        return None
    return next((name for name in names if _is_function(each, name, values)), None)


def _is_function(each: Sequence[Sequence[Sequence[Readings]]], name: str, values: int) -> bool:
    seen = {one.get(name) for sides in each for side in sides for one in side}
    return len(seen) >= values and all(_looks_up(sides, name) for sides in each)


def _looks_up(sides: Sequence[Sequence[Readings]], name: str) -> bool:
    """Does a reading recur in both contexts of a pair, and differ between them?"""
    member, nonmember = ({one.get(name) for one in side} for side in sides)
    return len(member) == len(nonmember) == 1 and member != nonmember


def _replies(asked: tuple[Pair, EvidenceRow]) -> Iterator[ReplyFeatures | None]:
    pair, row = asked
    for reply in map(reply_of, row.both):
        yield None if reply is None else as_features(reply, pair.asked.target)


def _readings(reply: ReplyFeatures | None) -> Readings:
    """Numbers of a reply, and its strings by kind; all of them together last."""
    if reply is None:
        return {}
    numbers = {
        name.replace("_", " "): None if math.isnan(value) else value
        for name, value in zip(SCALARS, reply.scalars.tolist(), strict=True)
        if not name.startswith("seconds")
    }
    kinds = groupby(sorted(reply.strings), lambda text: text.partition(":")[0])
    strings = {f"each {kind}": tuple(texts) for kind, texts in kinds}
    whole = (*numbers.values(), *strings.values(), *sorted(reply.scores.items()))
    return {**numbers, **strings, "the reply as a whole": whole}
