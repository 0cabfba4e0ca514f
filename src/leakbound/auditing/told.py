"""Do the replies of the pairs tell their contexts apart better than the score of the attack?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leakbound.auditing.controls import least_p_value
from leakbound.estimators import Observations
from leakbound.stats import rank_test
from leakbound.stats.witness import StoredReply
from leakbound.stats.witness.features import ReplyFeatures, features
from leakbound.tasks import ANSWER

__all__ = ["RepliesTold"]

LEVEL = 0.01  # so rarely is a system that tells nothing held to what its replies can certify
Floats = npt.NDArray[np.float64]


class RepliesTold:
    """Measurements and scores of both contexts of all pairs, apart for each channel.

    A control context holds the canary many times and a pair holds it once, so what showed the
    control may not be what shows a record.

    Args:
        two_sided: Whether scores may be higher or lower with the canary.
    """

    def __init__(self, two_sided: bool) -> None:
        self._two_sided, self._seen = two_sided, dict[str, _Measured]()

    def add(self, observations: Observations) -> None:
        """Measure some pairs.

        Args:
            observations: What they show, with their replies where these are read (PRIVATE).
        """
        for name, part in (observations.channels or {ANSWER: observations}).items():
            self._seen.setdefault(name, _Measured()).add(part)

    def channels(self) -> frozenset[str]:
        """Compare what the replies and the scores of each channel tell.

        Returns:
            Channels whose replies tell the contexts apart better than the score does.
        """
        return frozenset(n for n, one in self._seen.items() if one.beyond_score(self._two_sided))


class _Measured:
    """Scores and measurements of one channel, for both contexts of each pair."""

    def __init__(self) -> None:
        self._scores: tuple[list[float], list[float]] = ([], [])
        self._replies: tuple[list[Floats], list[Floats]] = ([], [])

    def add(self, part: Observations) -> None:
        if part.trial_scores is not None and part.reply_pairs:
            self._scores[0].extend(part.trial_scores.member.tolist())
            self._scores[1].extend(part.trial_scores.nonmember.tolist())
        for (member, nonmember), canary in part.reply_pairs or ():
            if member is not None and nonmember is not None:
                self._replies[0].append(_scalars(member, canary))
                self._replies[1].append(_scalars(nonmember, canary))

    def beyond_score(self, two_sided: bool) -> bool:
        if not self._replies[0]:
            return False
        by_replies = least_p_value(np.stack(self._replies[0]), np.stack(self._replies[1]))
        return by_replies <= LEVEL and by_replies < rank_test(*self._scores, two_sided)


def _scalars(reply: StoredReply, canary: str) -> Floats:
    found = reply if isinstance(reply, ReplyFeatures) else features(reply, canary)
    return found.scalars
