"""Controls: does the attack see a context that is full of the canary?"""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.estimators import PairedScores
from leakbound.stats import rank_test

__all__ = ["LEVEL", "ControlCheck", "check_controls"]

LEVEL = 0.05  # p-value at which the positive control counts as seen


@dataclass(frozen=True, slots=True)
class ControlCheck:
    """What the control pairs showed. It gates no_violation, and enters no bound.

    Args:
        pairs: Control pairs: the canary everywhere in one context, nowhere in the other.
        p_value: One-sided p-value of an exact rank test that scores are higher with the canary;
            None where no control was asked.
        exempt: Whether none is needed: the system guarantees 0-DP, so no attack can see anything.
    """

    pairs: int
    p_value: float | None
    exempt: bool = False

    @property
    def seen(self) -> bool:
        """Whether the attack saw the positive control."""
        return self.exempt or (self.p_value is not None and self.p_value <= LEVEL)


def check_controls(scores: PairedScores | None, exempt: bool) -> ControlCheck:
    """Compare the scores of the control pairs.

    Args:
        scores: (pairs,) mean scores of the outputs of both contexts; None without control pairs.
        exempt: Whether the system guarantees 0-DP.

    Returns:
        What they show.
    """
    if scores is None or not len(scores):
        return ControlCheck(0, None, exempt)
    p_value = rank_test(scores.member.tolist(), scores.nonmember.tolist())
    return ControlCheck(len(scores), p_value, exempt)
