"""ROC curves and what is read off them.

Scores: higher means member; ties count half in the AUROC.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from leakbound._check import within
from leakbound.errors import UsageError

__all__ = ["auroc", "auroc_standard_error", "clean_scores", "roc", "tpr_at_fpr"]

Floats = npt.NDArray[np.float64]


def clean_scores(name: str, scores: npt.ArrayLike) -> Floats:
    """A flat array of scores without NaN, at least one."""
    array = np.array(scores, float).ravel()
    if array.size == 0:
        raise UsageError(f"{name} holds no scores; it needs at least one.")
    if np.isnan(array).any():
        raise UsageError(
            f"{name} holds {int(np.isnan(array).sum())} NaN scores; drop or repair the trials "
            "they come from."
        )
    return array


def roc(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """(fpr, tpr, threshold) of every rule "member if score >= threshold", from (0, 0) to (1, 1),
    thresholds falling.
    """
    m, n = clean_scores("member", member), clean_scores("nonmember", nonmember)
    m.sort()
    n.sort()
    values = np.unique(np.concatenate([m, n]))[::-1]
    tp, fp = (1 - np.searchsorted(world, values) / world.size for world in (m, n))
    return np.r_[0.0, fp], np.r_[0.0, tp], np.r_[math.inf, values]


def auroc(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> float:
    """P(member score > non-member score) + half of P(equal):

    the area under the ROC curve. A point estimate.
    """
    fpr, tpr, _ = roc(member, nonmember)
    return float(np.trapezoid(tpr, fpr))


def auroc_standard_error(area: float, members: int, nonmembers: int) -> float:
    """Standard error of an AUROC (Hanley and McNeil 1982)."""
    within("area", area, 0.0, 1.0)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (members - 1) * (q1 - area**2) + (nonmembers - 1) * (q2 - area**2)
    return math.sqrt(max(0.0, spread) / (members * nonmembers))


def tpr_at_fpr(member: npt.ArrayLike, nonmember: npt.ArrayLike, fpr: float) -> float:
    """Largest observed true-positive rate with a false-positive rate of at most `fpr`.

    A point estimate.
    """
    within("fpr", fpr, 0.0, 1.0)
    x, y, _ = roc(member, nonmember)
    return float(y[x <= fpr].max())
