"""How a decision threshold is chosen: a value of its own, since it decides whether a bound is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contextleak._check import within
from contextleak.stats.curves import roc

__all__ = ["BestOnSameData", "Fixed", "Split", "ThresholdRule", "best_threshold"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Member if score >= value; chosen before any trial was seen."""

    value: float = 0.5

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


ThresholdRule = Fixed | Split | BestOnSameData


def best_threshold(member: npt.ArrayLike, nonmember: npt.ArrayLike) -> float:
    """The threshold of the best balanced accuracy, half-way to the next lower score (so it sits in the gap)."""
    fpr, tpr, thresholds = roc(member, nonmember)
    best = 1 + int(np.argmax((tpr - fpr)[1:]))
    below = thresholds[best + 1] if best + 1 < thresholds.size else thresholds[best]
    return float((thresholds[best] + below) / 2)
