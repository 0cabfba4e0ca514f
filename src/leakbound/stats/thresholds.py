"""How a decision threshold is chosen:

a value of its own, since it decides whether a bound is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from leakbound._check import confidence_level, within
from leakbound.errors import UsageError
from leakbound.stats.curves import clean_scores, roc
from leakbound.stats.estimate import Estimate

__all__ = [
    "BestOnSameData",
    "Bonferroni",
    "Fixed",
    "Split",
    "ThresholdRule",
    "best_threshold",
    "bonferroni",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Member if score >= value; chosen before any trial was seen."""

    value: float = 0.5

    def __post_init__(self) -> None:
        if self.value != self.value:
            raise UsageError("the threshold is NaN; it must be a number.")

    def __str__(self) -> str:
        return f"fixed at {self.value:g}"


@dataclass(frozen=True, slots=True)
class Split:
    """Chosen on the first `fraction` of the pairs, which then take no part in any bound."""

    fraction: float = 0.2

    def __post_init__(self) -> None:
        within("fraction", self.fraction, 0.01, 0.9)

    def __str__(self) -> str:
        return f"split: chosen on the first {self.fraction:.0%} of the pairs, which enter no bound"


@dataclass(frozen=True, slots=True)
class BestOnSameData:
    """Chosen on the tested trials: good for a point estimate only, never for a bound."""

    def __str__(self) -> str:
        return "best on the tested data (point estimates only)"


@dataclass(frozen=True, slots=True)
class Bonferroni:
    """Every one of k thresholds fixed beforehand is tried, each at 1 - alpha/k; empty:

    the score's own levels.
    """

    values: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not all(value == value for value in self.values):
            raise UsageError("Bonferroni got a threshold that is NaN; thresholds are numbers.")

    def __str__(self) -> str:
        return f"best of {len(self.values) or 'several'} thresholds fixed beforehand, each at its share of the error (Bonferroni)"


ThresholdRule = Fixed | Split | Bonferroni | BestOnSameData


class FromCounts(Protocol):
    """An estimator of error counts, such as clopper_pearson or gdp."""

    def __call__(
        self, tp: int, fn: int, fp: int, tn: int, delta: float, confidence: float, threshold: str, /
    ) -> Estimate: ...


def bonferroni(
    estimator: FromCounts,
    member: npt.ArrayLike,
    nonmember: npt.ArrayLike,
    thresholds: Sequence[float],
    delta: float,
    confidence: float = 0.95,
) -> Estimate:
    """The best bound over thresholds fixed beforehand, each at confidence 1 - (1 - confidence)/k,
    so all hold together.

    member, nonmember: scores, "member" if score >= threshold. The best is by mu where the estimator
    has one, else by
    epsilon. Raises UsageError for no thresholds or NaN scores.
    """
    rule = Bonferroni(tuple(thresholds))
    if not rule.values:
        raise UsageError(
            "bonferroni got no thresholds; it needs at least one, chosen before the trials were "
            "seen."
        )
    m, n = clean_scores("member", member), clean_scores("nonmember", nonmember)
    each = 1 - (1 - confidence_level(confidence)) / len(rule.values)
    found = [
        estimator(tp, m.size - tp, fp, n.size - fp, delta, each, f"{rule} (tau = {tau:g})")
        for tau in rule.values
        for tp, fp in [(int((m >= tau).sum()), int((n >= tau).sum()))]
    ]
    best = max(found, key=lambda e: (e.mu or 0.0, e.epsilon or 0.0))
    return replace(best, confidence=confidence)


def best_threshold(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> float:
    """The threshold of the best balanced accuracy, half-way to the next lower score (so it sits in
    the gap).
    """
    fpr, tpr, thresholds = roc(member, nonmember)
    best = 1 + int(np.argmax((tpr - fpr)[1:]))
    below = thresholds[best + 1] if best + 1 < thresholds.size else thresholds[best]
    return float((thresholds[best] + below) / 2)
