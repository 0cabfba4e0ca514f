"""Do the replies of the pairs tell their contexts apart better than the score of the attack?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy

from leakbound.auditing.observe.controls import p_values_of
from leakbound.estimators.base import Claim, Observations, PairedScores, ReplyPair
from leakbound.estimators.witness import TIMES
from leakbound.stats import rank_test, sign_test
from leakbound.stats.arrays import Floats, Ints
from leakbound.stats.counts.unconditional import rates_keep
from leakbound.tasks import ANSWER
from leakbound.witness.features import ReplyFeatures, as_features
from leakbound.witness.pool import POOL, Corpus, PoolModel

# A smaller change of a rate shows no canary: of 20 records that match nothing, a search index that
# returns 2 shows each in a tenth of the replies, and any record that matches in all.
CHANGE = 0.2
LEVEL = 0.01  # so rarely is a system that tells nothing held to what its replies can certify
KEPT = 64  # of so many first pairs the replies are kept
APART = 8  # of these, so many that are told apart: as many as there are control pairs
BEYOND = 0.1  # p-value from which pairs count as differing more often than a claim allows
MOST_LOG = 150.0  # of odds that no number of pairs shows
OFTEN = 8  # replies that hold a string that is compared: few could show nothing, whatever they are
DECIMALS = 9  # of what is computed; equal replies may differ in the last places
TIMED = np.append(TIMES, [name.startswith("seconds") for name in POOL])
Shown = Sequence[tuple[ReplyPair, str]]


@dataclass(frozen=True, slots=True, repr=False)
class SeparationTest:
    shown: Shown | None
    in_pairs: bool


@dataclass(frozen=True, slots=True)
class ChangeTest:
    """p-values of whether any reading differs where the canary is, those of whole replies corrected
    for their number; 1 where the rates are certainly too near (`small`)."""

    pairs: int
    readings: int
    by_score: float
    by_replies: float
    small: bool


Separations = Mapping[str, SeparationTest]


def separates_alone(told: Separations) -> bool:
    """Do single replies of any channel tell the contexts apart better than its score does?"""
    return any(one.shown is not None for one in told.values())


class ReplySeparation:
    """Measurements and scores of both contexts of all pairs: what shows a record, not a control."""

    def __init__(self, two_sided: bool, claim: Claim) -> None:
        self._two_sided, self._seen = two_sided, dict[str, _Measured]()
        self._claim = claim

    def measured(self, observations: Observations) -> Observations:
        """Measure the replies of some pairs, once for all that read them."""
        if not observations.channels:
            return self._of_channel(ANSWER, observations)
        parts = {name: self._of_channel(name, one) for name, one in observations.channels.items()}
        return replace(observations, channels=parts)

    def _of_channel(self, name: str, part: Observations) -> Observations:
        seen = self._seen.setdefault(name, _Measured())
        if part.trial_scores is not None:
            seen.add_scores(part.trial_scores)
        if not part.reply_pairs:
            return part
        pairs = tuple(map(_featured, part.reply_pairs))
        seen.add(pairs)
        return replace(part, reply_pairs=pairs)

    def by_score(self, name: str) -> tuple[float, float]:
        """Does the score tell the contexts apart, over all pairs and in their last quarter?"""
        seen = self._seen.get(name, _Measured())
        if abs(seen.change()) < CHANGE:
            return 1.0, 1.0
        every = seen.by_score(self._two_sided)
        return every, max(every, seen.by_score(self._two_sided, late=True))

    def changed(self, least: float, level: float) -> ChangeTest:
        """Is anything of the replies as a whole different where the canary is?"""
        return self._seen.get(ANSWER, _Measured()).changed(least, self._claim, level)

    def found(self) -> Separations:
        """Compare what the replies and the scores of each channel tell."""
        each = self._seen.items()
        found = {name: one.told(self._two_sided, self._claim) for name, one in each}
        return {name: one for name, one in found.items() if one.in_pairs or one.shown is not None}


class _Measured:
    def __init__(self) -> None:
        self._scores: tuple[list[float], list[float]] = ([], [])
        self._corpus = Corpus()  # both replies of each pair that has both
        self._kept: list[tuple[ReplyPair, str]] = []  # the first of these pairs

    def add_scores(self, scores: PairedScores) -> None:
        self._scores[0].extend(scores.member.tolist())
        self._scores[1].extend(scores.nonmember.tolist())

    def by_score(self, two_sided: bool, late: bool = False) -> float:
        """Of all pairs, or of the last quarter alone."""
        high, low = self._scores
        first = len(high) * 3 // 4 if late else 0
        return rank_test(high[first:], low[first:], two_sided)

    def change(self) -> float:
        """How much more often a score is higher with the canary than lower, over all pairings."""
        high, low = (np.sort(side) for side in self._scores)
        if not high.size:
            return 0.0
        below = [np.searchsorted(low, high, side).mean() for side in ("left", "right")]
        return float(sum(below) / low.size - 1)

    def add(self, pairs: Shown) -> None:
        for both, canary in pairs:
            known = [one for one in both if isinstance(one, ReplyFeatures)]
            if len(known) == len(both):
                for one in known:  # times in whole milliseconds: a network hides less
                    coarse = np.where(TIMES, one.scalars.round(3), one.scalars)
                    self._corpus.replies.append(self._corpus.encode(replace(one, scalars=coarse)))
                self._kept += [(both, canary)] * (len(self._kept) < KEPT)

    def changed(self, least: float, claim: Claim, level: float) -> ChangeTest:
        """Is any reading different where the canary is, by `least` or against the claim?"""
        numbers = self._numbers() if self._corpus.replies else None
        tests = [] if numbers is None else [*self._tests(numbers), *_unusual(numbers)]
        readings = len(tests) + len(self._often()) if tests else 0
        member, nonmember = map(np.asarray, self._scores)
        each = level / 2 if readings else level
        by_replies = [
            readings * p for p, one, other in tests
            if p * readings < 1 and not _certainly_small(one, other, each / readings, least, claim)
        ]  # fmt: skip
        small = _certainly_small(member, nonmember, each, least, claim)
        return ChangeTest(
            len(member), readings, 1.0 if small else self.by_score(two_sided=True),
            min(1.0, min(by_replies, default=1.0)), small,
        )  # fmt: skip

    def _numbers(self) -> Floats:
        scalars = np.stack([one.scalars for one in self._corpus.replies])
        pooled = PoolModel.fit(self._corpus)[1].round(DECIMALS)
        return np.column_stack([scalars, np.where(np.isfinite(pooled), pooled, np.nan)])

    def told(self, two_sided: bool, claim: Claim) -> SeparationTest:
        """What measurements tell better than the score does."""
        if not self._corpus.replies:
            return SeparationTest(None, False)
        numbers = self._numbers()
        by_score = self.by_score(two_sided)
        in_pairs = _in_pairs(numbers[:, ~TIMED], claim) <= LEVEL
        tests = [*self._tests(numbers)]
        if not tests:
            return SeparationTest(None, in_pairs)
        p_value, member, nonmember = min(tests, key=lambda one: one[0])
        p_value *= len(tests) + len(self._often())
        alone = p_value <= LEVEL and p_value < by_score
        return SeparationTest(self._apart(member - nonmember) if alone else None, in_pairs)

    def _tests(self, numbers: Floats) -> Iterator[tuple[float, Floats, Floats]]:
        """p-value and values of all measurements, whether they are shown, and the best string."""
        shown, there = p_values_of(numbers[::2], numbers[1::2])
        for at in np.flatnonzero(~np.isnan(shown)):
            yield float(shown[at]), numbers[::2, at], numbers[1::2, at]
        lacks = np.isnan(numbers).astype(float)
        for at in np.flatnonzero(~np.isnan(there)):
            yield float(there[at]), lacks[::2, at], lacks[1::2, at]
        yield from self._string()

    def _string(self) -> Iterator[tuple[float, Floats, Floats]]:
        replies, often = self._corpus.replies, self._often()
        if often.size:  # a masked reply may hold none
            size = len(self._corpus.names)
            there, elsewhere = (
                np.bincount(np.concatenate([one.strings for one in replies[of::2]]), minlength=size)
                for of in (0, 1)
            )
            differs = int(often[np.argmax(np.abs(there - elsewhere)[often])])
            holds = np.array([float(differs in one.strings) for one in replies])
            member, nonmember = holds[::2], holds[1::2]
            yield rank_test(member.tolist(), nonmember.tolist(), True), member, nonmember

    def _often(self) -> Ints:
        """Strings that many replies hold, and not all; one of those that stand in the same ones."""
        counts, replies = self._corpus.counts(), self._corpus.replies
        some = np.flatnonzero((counts >= OFTEN) & (counts < len(replies)))
        holds = np.zeros((len(replies), some.size), bool)
        for row, one in zip(holds, replies, strict=True):
            row[np.searchsorted(some, np.intersect1d(some, one.strings))] = True
        _, first = np.unique(np.packbits(holds, axis=0), axis=1, return_index=True)
        return some[np.sort(first)]

    def _apart(self, differences: Floats) -> Shown:
        """Those of the kept pairs that it tells apart in the direction of most of them."""
        kept = differences[: len(self._kept)]
        sign = np.sign(np.nansum(np.sign(kept)))
        return [self._kept[at] for at in np.flatnonzero(kept * sign > 0)][:APART]


def _unusual(numbers: Floats) -> Iterator[tuple[float, Floats, Floats]]:
    """Whether a measurement is further from its median, on either side, where the canary is."""
    for column in numbers.T:
        known = column[~np.isnan(column)]
        if len(known) == len(column) and len(np.unique(known)) > 2:
            away = np.abs(column - np.median(known))
            yield rank_test(away[::2].tolist(), away[1::2].tolist(), True), away[::2], away[1::2]


def _certainly_small(one: Floats, other: Floats, level: float, least: float, claim: Claim) -> bool:
    """Whether two rates certainly keep the claim, and differ by less than has to be seen."""
    values = np.unique(np.concatenate([one, other]))
    if len(one) != len(other) or not len(one) or len(values) > 2 or np.isnan(values).any():
        return False
    high, low = (int((side == values[-1]).sum()) for side in (one, other))
    kept = partial(rates_keep, high, low, len(one), level=level)
    return kept(min(claim.epsilon, MOST_LOG), claim.delta) and kept(0.0, least)


def change_between(
    scores: PairedScores, replies: Shown, least: float, claim: Claim, level: float
) -> ChangeTest:
    measured = _Measured()
    measured.add_scores(scores)
    measured.add(tuple(map(_featured, replies)))
    return measured.changed(least, claim, level)


def _featured(pair: tuple[ReplyPair, str]) -> tuple[ReplyPair, str]:
    (one, other), canary = pair
    return (one and as_features(one, canary), other and as_features(other, canary)), canary


def _in_pairs(numbers: Floats, claim: Claim) -> float:
    """The least p-value that a measurement differs in one direction, times their number, of those
    that do so more often than the claim allows.

    Of X, Y with (epsilon, 0)-DP, P(X > Y) <= e^(2 epsilon) P(Y > X), as both change places. What is
    seen counts if it is beyond that limit with a p-value of at most `BEYOND`: a system at the claim
    itself may be inconclusive by chance, and 19 pairs that all differ in one direction are beyond a
    claim of 1.
    """
    signs = np.sign(numbers[::2] - numbers[1::2])
    up, down = (signs > 0).sum(axis=0), (signs < 0).sum(axis=0)
    factor = math.exp(min(claim.epsilon, MOST_LOG))
    share = min(1.0, factor**2 / (1 + factor**2) + (1 + factor) * claim.delta)
    beyond = scipy.special.bdtrc(np.maximum(up, down) - 1.0, up + down, share) <= BEYOND
    more = np.flatnonzero(beyond & (up + down > 0))
    found = min((sign_test(signs[:, at].tolist()) for at in more), default=1.0)
    return float(min(1.0, max(1, (up + down > 0).sum()) * found))
