"""The result type of every estimator: a number and everything needed to interpret it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Estimate", "Kind", "cut"]

Kind = Literal["lower_bound", "point_estimate", "credible"]


def cut(value: float | None, digits: int = 2) -> str:
    """Format a bound for display. Digits are truncated, never rounded up.

    Args:
        value: The bound, or None.
        digits: Number of decimal places.

    Returns:
        The text; a dash for None, an infinity sign for infinity.

    Examples:
        >>> cut(2.999), cut(None), cut(math.inf)
        ('2.99', '–', '∞')
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """One statement about leakage.

    Attributes:
        method: Name of the estimator.
        kind: Kind of `epsilon` and `mu`: `lower_bound`, `point_estimate` or `credible`.
        epsilon: The bound or estimate at `delta`; None if the method gives only mu. The epsilon
            that a bound on mu implies is `details["implied_epsilon"]`, never this field.
        delta: Failure probability at which epsilon is stated.
        confidence: Confidence of a bound; None for a point estimate.
        counts: Sample sizes it was computed from, such as {"pairs": 100}.
        assumptions: Assumptions under which the number is valid.
        mu: The bound or estimate in Gaussian DP; None if the method does not give it.
        threshold: How the decision threshold was chosen.
        details: Further numbers, by name.

    Examples:
        >>> Estimate("mine", "lower_bound", 1.2, 1e-5, 0.95, {"pairs": 100}, ()).epsilon
        1.2
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
        """Refuse conversion to a number, which would drop kind and confidence.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "an Estimate is not a bare number; read .epsilon or .mu together with .kind and "
            ".confidence."
        )
