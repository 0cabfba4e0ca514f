"""Do the replies of the pairs tell their contexts apart better than the score of the attack?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from leakbound.auditing.controls import p_values_of
from leakbound.auditing.verdict import Obstacle
from leakbound.estimators import Estimator, Observations
from leakbound.estimators.base import ReplyPair
from leakbound.stats import rank_test
from leakbound.stats.witness.features import SCALARS, ReplyFeatures, measured
from leakbound.stats.witness.pool import EXPLAINED, Line
from leakbound.tasks import ANSWER

__all__ = ["RepliesTold", "Told", "unread"]

LEVEL = 0.01  # so rarely is a system that tells nothing held to what its replies can certify
KEPT = 64  # of so many first pairs the replies are kept
APART = 8  # of these, so many that are told apart: as many as there are control pairs
TIMES = np.array([name.startswith("seconds") for name in SCALARS])
Floats = npt.NDArray[np.float64]
Shown = Sequence[tuple[ReplyPair, str]]
Told = Mapping[str, Shown]
Measurement = Callable[[ReplyFeatures], float]


def unread(told: Told, estimator: Estimator) -> Iterator[Obstacle]:
    """Do replies tell something that what decides does not read?

    Args:
        told: What `RepliesTold` found.
        estimator: What decides.

    Yields:
        The reason code with its sentence.
    """
    if told and "replies" not in estimator.reads:
        yield (
            "attack_blind",
            "measurements of whole replies (their length, wording, failures) tell the contexts of "
            "the pairs apart better than the score of the attack does, and the estimator "
            f"{estimator.name} reads scores alone; audit with --estimator e_process.",
        )


class RepliesTold:
    """Measurements and scores of both contexts of all pairs, apart for each channel.

    A control context holds the canary many times and a pair holds it once, so what showed the
    control may not be what shows a record.

    Args:
        two_sided: Whether scores may be higher or lower with the canary.
    """

    def __init__(self, two_sided: bool) -> None:
        self._two_sided, self._seen = two_sided, dict[str, _Measured]()

    def measured(self, observations: Observations) -> Observations:
        """Measure the replies of some pairs, once for all that read them.

        Args:
            observations: What they show, with their replies where these are read (PRIVATE).

        Returns:
            The same with measurements in the place of replies.
        """
        if not observations.channels:
            return self._of_channel(ANSWER, observations)
        parts = {name: self._of_channel(name, one) for name, one in observations.channels.items()}
        return replace(observations, channels=parts)

    def _of_channel(self, name: str, part: Observations) -> Observations:
        if not part.reply_pairs:
            return part
        pairs = tuple(
            ((one and measured(one, canary), other and measured(other, canary)), canary)
            for (one, other), canary in part.reply_pairs
        )
        found = replace(part, reply_pairs=pairs)
        self._seen.setdefault(name, _Measured()).add(found, pairs)
        return found

    def found(self) -> Told:
        """Compare what the replies and the scores of each channel tell.

        Returns:
            For each channel whose replies tell the contexts apart better than the score does, the
            replies and canaries of some pairs that they tell apart (PRIVATE).
        """
        found = {name: one.told(self._two_sided) for name, one in self._seen.items()}
        return {name: shown for name, shown in found.items() if shown is not None}


class _Measured:
    """Scores and measurements of one channel, for both contexts of each pair."""

    def __init__(self) -> None:
        self._scores: tuple[list[float], list[float]] = ([], [])
        self._scalars: tuple[list[Floats], list[Floats]] = ([], [])
        self._strings: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._kept: list[tuple[ReplyPair, str]] = []

    def add(self, part: Observations, pairs: Shown) -> None:
        if part.trial_scores is not None:
            self._scores[0].extend(part.trial_scores.member.tolist())
            self._scores[1].extend(part.trial_scores.nonmember.tolist())
        self._kept += pairs[: KEPT - len(self._kept)]
        for both in (one for one, _ in pairs if None not in one):
            for of, reply in enumerate(both):
                if isinstance(reply, ReplyFeatures):
                    self._scalars[of].append(_coarse(reply))
                    self._strings[of].update(reply.strings)

    def told(self, two_sided: bool) -> Shown | None:
        """Pairs that the best measurement tells apart; None if the score tells them better."""
        tests = [*self._tests()]
        p_value, best = min(tests, key=lambda one: one[0], default=(1.0, _nothing))
        by_replies = min(1.0, p_value * max(1, len(tests) + self._strings_seen))
        if by_replies > LEVEL or by_replies >= rank_test(*self._scores, two_sided):
            return None
        return self._apart(best)

    @property
    def _strings_seen(self) -> int:
        return len(self._strings[0].keys() | self._strings[1].keys())

    def _tests(self) -> Iterator[tuple[float, Measurement]]:
        """Of all numbers, of whether they are shown, of what others do not explain of some, and
        of the string that differs most."""
        if not self._scalars[0]:
            return
        member, nonmember = np.stack(self._scalars[0]), np.stack(self._scalars[1])
        shown, there = p_values_of(member, nonmember)
        for at in np.flatnonzero(~np.isnan(shown)):
            yield float(shown[at]), partial(_number, int(at))
        for at in np.flatnonzero(~np.isnan(there)):
            yield float(there[at]), partial(_lacks, int(at))
        yield from _unexplained(member, nonmember)
        yield from self._string()

    def _string(self) -> Iterator[tuple[float, Measurement]]:
        there, elsewhere = self._strings
        differs = {one: abs(there[one] - elsewhere[one]) for one in {*there, *elsewhere}}
        if differs:
            name = max(differs, key=lambda one: (differs[one], one))
            p_value = rank_test(self._holding(there[name]), self._holding(elsewhere[name]), True)
            yield p_value, partial(_holds, name)

    def _holding(self, count: int) -> list[float]:
        return [1.0] * count + [0.0] * (len(self._scalars[0]) - count)

    def _apart(self, best: Measurement) -> Shown:
        """Those of the kept pairs that it tells apart in the direction of most of them."""
        pairs = [
            (best(both[0]) - best(both[1]), (both, canary))
            for both, canary in self._kept
            if isinstance(both[0], ReplyFeatures) and isinstance(both[1], ReplyFeatures)
        ]
        sign = np.sign(np.nansum([np.sign(difference) for difference, _ in pairs]))
        return [shown for difference, shown in pairs if difference * sign > 0][:APART]


def _unexplained(member: Floats, nonmember: Floats) -> Iterator[tuple[float, Measurement]]:
    """p-values of what is left of a number that others should explain, such as the time of so many
    tokens."""
    for of, by in EXPLAINED:
        line = Line.fit(np.concatenate([member, nonmember]), of, by)
        left = np.stack([line.beyond(member), line.beyond(nonmember)])
        known = np.isfinite(left).all(axis=0)
        if known.any():
            high, low = left[:, known].tolist()
            yield rank_test(high, low, two_sided=True), partial(_beyond, line)


def _beyond(line: Line, reply: ReplyFeatures) -> float:
    return float(line.beyond(_coarse(reply)[None])[0])


def _coarse(reply: ReplyFeatures) -> Floats:
    """Its numbers; times in whole milliseconds, since a function in this process shows less."""
    return np.where(TIMES, reply.scalars.round(3), reply.scalars)


def _number(at: int, reply: ReplyFeatures) -> float:
    return float(_coarse(reply)[at])


def _lacks(at: int, reply: ReplyFeatures) -> float:
    return float(np.isnan(reply.scalars[at]))


def _holds(name: str, reply: ReplyFeatures) -> float:
    return float(name in reply.strings)


def _nothing(reply: ReplyFeatures) -> float:
    return 0.0
