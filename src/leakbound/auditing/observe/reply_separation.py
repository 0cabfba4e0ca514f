"""Do the replies of the pairs tell their contexts apart better than the score of the attack?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leakbound.auditing.observe.controls import p_values_of
from leakbound.estimators import Observations
from leakbound.estimators.base import Claim, ReplyPair
from leakbound.stats import rank_test, sign_test
from leakbound.tasks import ANSWER
from leakbound.witness.corpus import Corpus
from leakbound.witness.features import SCALARS, ReplyFeatures, as_features
from leakbound.witness.pool import POOL, PoolModel

# A smaller change of a rate shows no canary: of 20 records that match nothing, a search index that
# returns 2 shows each in a tenth of the replies, and any record that matches in all.
CHANGE = 0.2
LEVEL = 0.01  # so rarely is a system that tells nothing held to what its replies can certify
KEPT = 64  # of so many first pairs the replies are kept
APART = 8  # of these, so many that are told apart: as many as there are control pairs
MOST_LOG = 150.0  # of odds that no number of pairs shows
DECIMALS = 9  # of what is computed; equal replies may differ in the last places
TIMES = np.array([name.startswith("seconds") for name in SCALARS])
TIMED = np.append(TIMES, [name.startswith("seconds") for name in POOL])
Floats = npt.NDArray[np.float64]
Shown = Sequence[tuple[ReplyPair, str]]


@dataclass(frozen=True, slots=True, repr=False)
class SeparationTest:
    """How the replies of a channel tell the contexts of pairs apart."""

    shown: Shown | None
    in_pairs: bool


Separations = Mapping[str, SeparationTest]


def separates_alone(told: Separations) -> bool:
    """Do single replies of any channel tell the contexts apart better than its score does?"""
    return any(one.shown is not None for one in told.values())


class ReplySeparation:
    """Measurements and scores of both contexts of all pairs, apart for each channel.

    A control context holds the canary many times and a pair holds it once, so what showed the
    control may not be what shows a record.
    """

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
        seen.add_scores(part)
        if not part.reply_pairs:
            return part
        pairs = tuple(
            ((one and as_features(one, canary), other and as_features(other, canary)), canary)
            for (one, other), canary in part.reply_pairs
        )
        seen.add(pairs)
        return replace(part, reply_pairs=pairs)

    def by_score(self, name: str) -> float:
        """Does the score of a channel tell the contexts of the pairs apart, and not by rare
        chance?
        """
        seen = self._seen.get(name, _Measured())
        return seen.by_score(self._two_sided) if abs(seen.change()) >= CHANGE else 1.0

    def found(self) -> Separations:
        """Compare what the replies and the scores of each channel tell."""
        each = self._seen.items()
        found = {name: one.told(self._two_sided, self._claim) for name, one in each}
        return {name: one for name, one in found.items() if one.in_pairs or one.shown is not None}


class _Measured:
    """Scores and measurements of one channel, for both contexts of each pair."""

    def __init__(self) -> None:
        self._scores: tuple[list[float], list[float]] = ([], [])
        self._corpus = Corpus()  # both replies of each pair that has both
        self._kept: list[tuple[ReplyPair, str]] = []  # the first of these pairs

    def add_scores(self, part: Observations) -> None:
        if part.trial_scores is not None:
            self._scores[0].extend(part.trial_scores.member.tolist())
            self._scores[1].extend(part.trial_scores.nonmember.tolist())

    def by_score(self, two_sided: bool) -> float:
        return rank_test(*self._scores, two_sided)

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
                self._corpus.replies += [self._corpus.encode(_coarse(one)) for one in known]
                self._kept += [(both, canary)] * (len(self._kept) < KEPT)

    def told(self, two_sided: bool, claim: Claim) -> SeparationTest:
        """What measurements tell better than the score does."""
        if not self._corpus.replies:
            return SeparationTest(None, False)
        # (replies, measurements) of all replies
        scalars = np.stack([one.scalars for one in self._corpus.replies])
        pooled = PoolModel.fit(self._corpus)[1].round(DECIMALS)
        numbers = np.column_stack([scalars, np.where(np.isfinite(pooled), pooled, np.nan)])
        by_score = self.by_score(two_sided)
        tests = [*self._tests(numbers)]
        p_value, best = min(tests, key=lambda one: one[0])
        p_value *= len(tests) + len(self._corpus.names)
        alone = p_value <= LEVEL and p_value < by_score
        in_pairs = _in_pairs(numbers[:, ~TIMED], claim) <= LEVEL
        return SeparationTest(self._apart(best) if alone else None, in_pairs)

    def _tests(self, numbers: Floats) -> Iterator[tuple[float, Floats]]:
        """p-value, and member less nonmember for each pair, of all measurements, of whether they
        are shown, and of the string that differs most."""
        shown, there = p_values_of(numbers[::2], numbers[1::2])
        for at in np.flatnonzero(~np.isnan(shown)):
            yield float(shown[at]), _differences(numbers[:, at])
        for at in np.flatnonzero(~np.isnan(there)):
            yield float(there[at]), _differences(np.isnan(numbers[:, at]).astype(float))
        yield from self._string()

    def _string(self) -> Iterator[tuple[float, Floats]]:
        replies, size = self._corpus.replies, len(self._corpus.names)
        there, elsewhere = (
            np.bincount(np.concatenate([one.strings for one in replies[of::2]]), minlength=size)
            for of in (0, 1)
        )
        if size:  # a masked reply may hold none
            differs = int(np.argmax(np.abs(there - elsewhere)))
            holds = np.array([float(differs in one.strings) for one in replies])
            yield rank_test(holds[::2].tolist(), holds[1::2].tolist(), True), _differences(holds)

    def _apart(self, differences: Floats) -> Shown:
        """Those of the kept pairs that it tells apart in the direction of most of them."""
        kept = differences[: len(self._kept)]
        sign = np.sign(np.nansum(np.sign(kept)))
        return [self._kept[at] for at in np.flatnonzero(kept * sign > 0)][:APART]


def _in_pairs(numbers: Floats, claim: Claim) -> float:
    """The least p-value that a measurement differs in one direction, times their number, of those
    that do so more often than the claim allows.

    Of X, Y with (epsilon, 0)-DP, P(X > Y) <= e^(2 epsilon) P(Y > X), as both change places. That
    limit is compared with what is seen, without a margin: at the claim itself, a system may be
    inconclusive by chance.
    """
    signs = np.sign(_differences(numbers))
    up, down = (signs > 0).sum(axis=0), (signs < 0).sum(axis=0)
    factor = math.exp(min(claim.epsilon, MOST_LOG))
    allowed = factor**2 * np.minimum(up, down) + (1 + factor) * claim.delta * len(signs)
    more = np.flatnonzero(np.maximum(up, down) > allowed)
    found = min((sign_test(signs[:, at].tolist()) for at in more), default=1.0)
    return float(min(1.0, max(1, (up + down > 0).sum()) * found))


def _differences(numbers: Floats) -> Floats:
    return np.asarray(numbers[::2] - numbers[1::2])


def _coarse(reply: ReplyFeatures) -> ReplyFeatures:
    """Times in whole milliseconds: a network hides less."""
    return replace(reply, scalars=np.where(TIMES, reply.scalars.round(3), reply.scalars))
