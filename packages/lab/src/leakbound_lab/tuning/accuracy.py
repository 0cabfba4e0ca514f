"""Which contexts of the pilot were called right: scores of outputs against one threshold."""

from __future__ import annotations

import numpy as np

from leakbound.attacks import SCORES, Score
from leakbound.stats import Fixed
from leakbound.stats.arrays import Floats
from leakbound.tasks import Mechanism

DRAWS = 50  # outputs of a context with noise, as many as CL (Appendix A.7) queries an example
PREDICTED = "predicted_member"


def pilot_score(score: Score) -> Score:
    """What the pilot reads of outputs."""
    return SCORES[PREDICTED]() if score.learns else score


def outputs_each(score: Score, mechanism: Mechanism) -> int:
    """How many outputs of a context are drawn."""
    return DRAWS if mechanism.needs and score.access == "white_box" else 1


def right_shares(member: Floats, nonmember: Floats, score: Score) -> tuple[Floats, Floats]:
    """How often contexts are called right.

    Examples:
        >>> from leakbound.attacks import SCORES
        >>> shares = right_shares(np.array([[3.0, 1.0]]), np.array([[0.0, 2.0]]),
        ...                       SCORES["label_margin"]())
        >>> [share.tolist() for share in shares]
        [[1.0], [0.5]]
    """
    rule = score.threshold
    at = rule.value if isinstance(rule, Fixed) else _best(member.ravel(), nonmember.ravel())
    return (member >= at).mean(1), (nonmember < at).mean(1)


def _best(member: Floats, nonmember: Floats) -> float:
    """The threshold that is right most often; the lowest of several."""
    levels = np.append(np.unique(np.concatenate([member, nonmember])), np.inf)
    missed = np.searchsorted(np.sort(member), levels) / member.size
    refused = np.searchsorted(np.sort(nonmember), levels) / nonmember.size
    return float(levels[np.argmax(refused - missed)])
