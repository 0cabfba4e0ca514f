"""The one result type of every estimator:

a number never travels without what it takes to read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Estimate", "Kind", "cut"]

Kind = Literal["lower_bound", "point_estimate", "credible"]


def cut(value: float | None, digits: int = 2) -> str:
    """A bound for people: cut to `digits`, never rounded up."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """One statement about leakage.

    epsilon: the bound or estimate at `delta` (None where the method speaks of mu alone); mu: in
    Gaussian DP;
    kind: what the number is; confidence: of a bound (None for a point estimate); counts: what it
    was computed from;
    threshold: how the decision threshold was chosen; assumptions: what must be true for the number
    to mean what it says.
    """

    method: str
    kind: Kind
    epsilon: float | None
    delta: float
    confidence: float | None
    counts: Mapping[str, int]
    assumptions: tuple[str, ...]
    mu: float | None = None
    threshold: str = "given"
    details: Mapping[str, float] = field(default_factory=dict)

    def __float__(self) -> float:
        raise TypeError(
            "an Estimate is not a bare number; read .epsilon or .mu together with .kind and "
            ".confidence."
        )
