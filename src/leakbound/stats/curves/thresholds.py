"""How a decision threshold is chosen, as a value: it decides whether a bound is valid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, numbers, within
from leakbound.errors import UsageError
from leakbound.stats.arrays import Floats
from leakbound.stats.curves.curves import clean_scores, roc
from leakbound.stats.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Fixed:
    """Member if score >= value. The value is chosen before any trial is seen."""

    value: float = 0.5

    def __post_init__(self) -> None:
        if math.isnan(self.value):
            raise UsageError("value is NaN; it must be a number.")

    def __str__(self) -> str:
        return f"fixed at {self.value:g}"


@dataclass(frozen=True, slots=True)
class Split:
    """Chosen on the first pairs, which no bound then uses.

    Attributes:
        fraction: Share of the pairs that choose the threshold, in [0.01, 0.9].
    """

    fraction: float = 0.2

    def __post_init__(self) -> None:
        within("fraction", self.fraction, 0.01, 0.9)

    def __str__(self) -> str:
        return f"split: chosen on the first {self.fraction:.0%} of the pairs, which enter no bound"


@dataclass(frozen=True, slots=True)
class BestOnSameData:
    """Chosen on the tested trials. Valid for point estimates only, never for a bound."""

    def __str__(self) -> str:
        return "best on the tested data (point estimates only)"


@dataclass(frozen=True, slots=True)
class Bonferroni:
    """Every one of k predefined thresholds is tried, each at confidence 1 - alpha/k.

    Attributes:
        values: The thresholds. If empty, the levels of the score are used.
    """

    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        numbers("thresholds", self.values)

    def __str__(self) -> str:
        return (
            f"best of {len(self.values) or 'several'} thresholds fixed beforehand, each at its "
            "share of the error (Bonferroni)"
        )


ThresholdRule = Fixed | Split | Bonferroni | BestOnSameData


# A bound from (tp, fn, fp, tn, delta, confidence, threshold), such as `clopper_pearson` or `gdp`.
FromCounts = Callable[..., Estimate]


def bonferroni(
    estimator: FromCounts,
    member: npt.ArrayLike,
    nonmember: npt.ArrayLike,
    thresholds: Sequence[float],
    delta: float,
    confidence: float = 0.95,
) -> Estimate:
    """The best bound over thresholds fixed beforehand: the largest mu, or else epsilon.

    Each of the k bounds is taken at confidence 1 - (1 - confidence)/k, so all hold together.

    Args:
        estimator: The bound from error counts, `clopper_pearson` or `gdp`.
        member: Scores of the canary-in context; "member" if score >= threshold.
        nonmember: Scores of the canary-out context.
        thresholds: At least one threshold, fixed before the scores were seen.

    Raises:
        UsageError: If there is no threshold, or a score or threshold is NaN.

    Guarantee:
        Exceeds the truth with probability at most 1 - confidence (Bonferroni).

    Examples:
        >>> from leakbound.stats import clopper_pearson
        >>> found = bonferroni(clopper_pearson, [1.0] * 99, [0.0] * 99, [0.2, 0.5], delta=0.0)
        >>> found.confidence, round(found.epsilon, 2)
        (0.95, 3.1)
    """
    rule = Bonferroni(tuple(numbers("thresholds", thresholds).tolist()))
    if not rule.values:
        raise UsageError(
            "bonferroni got no thresholds; it needs at least one, chosen before the trials were "
            "seen."
        )
    m, n = clean_scores("member", member), clean_scores("nonmember", nonmember)
    each = 1 - (1 - confidence_level(confidence)) / len(rule.values)
    found = []
    for tau in rule.values:
        cells = error_cells(m, n, tau)
        found.append(estimator(*cells, delta, each, f"{rule} (tau = {tau:g})"))
    best = max(found, key=lambda e: (e.mu or 0.0, e.epsilon or 0.0))
    return replace(best, confidence=confidence)


def error_cells(member: Floats, nonmember: Floats, tau: float) -> tuple[int, int, int, int]:
    """(tp, fn, fp, tn) of the rule "member if score >= tau"."""
    tp, fp = int((member >= tau).sum()), int((nonmember >= tau).sum())
    return tp, member.size - tp, fp, nonmember.size - fp


def best_threshold(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> float:
    """The threshold with the best balanced accuracy, halfway to the next lower score.

    Arguments and errors are those of `roc`.

    Examples:
        >>> best_threshold([3.0, 4.0], [0.0, 1.0])
        2.0
    """
    fpr, tpr, thresholds = roc(member, nonmember)
    best = 1 + int(np.argmax((tpr - fpr)[1:]))
    top, below = map(float, thresholds[[best, min(best + 1, thresholds.size - 1)]])
    halfway = top / 2 + below / 2
    return top if math.isnan(halfway) else halfway
