"""The result type of every estimator: a number and everything needed to interpret it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from leakbound._check import at_least, count

Kind = Literal["lower_bound", "point_estimate", "credible"]
IMPLIED = "the implied epsilon holds only if the mechanism is Gaussian"
MOST_DIGITS = 16  # decimal places of a float near 1
WORDS = {
    "score": "the score of the attack",
    "replies": "whole replies",
    "codes": "quoted codes",
    "distribution": "the output distribution, computed before noise",
}
CHANNELS = {"seconds": "reply times"}  # others have their name


def cut(value: float | None, digits: int = 2) -> str:
    """Format a bound for display. Digits are truncated, never rounded up.

    Args:
        value: The bound, or None, which becomes a dash.
        digits: Number of decimal places, at most 16.

    Examples:
        >>> cut(2.999), cut(None), cut(math.inf)
        ('2.99', '–', '∞')
    """
    places = count("digits", digits, 0, MOST_DIGITS)
    if value is None:
        return "–"
    if math.isinf(at_least("value", value, -math.inf)):
        return "∞"
    if abs(value) >= 2.0**53:  # a whole number
        return f"{value:.{places}f}"
    return f"{math.floor(value * 10**places) / 10**places:.{places}f}"


def beside(value: float | None, limit: float, digits: int = 2) -> tuple[str, str]:
    """Format a bound and what it is compared with, so that a reader sees which is larger.

    Args:
        value: The bound, or None. Its digits are truncated, never rounded up.
        limit: What it is compared with.
        digits: Least number of decimal places of the bound; both get as many as it takes.

    Examples:
        >>> beside(1.00417, 1.0), beside(0.5, 1.0), beside(None, 1.0)
        (('1.004', '1'), ('0.50', '1'), ('–', '1'))
    """
    at_least("limit", limit, -math.inf)
    if value is None or math.isinf(value):
        return cut(value), f"{limit:g}"
    for places in range(count("digits", digits), MOST_DIGITS + 1):
        shown, other = cut(value, places), f"{limit:.{max(6, places)}g}"
        if (float(shown) > float(other)) == (value > limit):
            return shown, other
    return repr(value), repr(limit)


@dataclass(frozen=True, slots=True)
class BoundReading:
    """What a bound was read from: of the evidence that was combined, the part that carries it.

    Attributes:
        of: `score` of single outputs, `codes` that replies quoted, whole `replies`, or the output
            `distribution`, which is computed from votes and other aggregates before noise.
        channel: The channel that was read; empty where channels are not read apart.
        right: Guesses of this reading, whether the canary was present, that were right.
        guesses: All guesses: one a trial for a score; one a pair for replies and for channels,
            whose contexts are compared; of codes, the replies to canary-in contexts, of which
            `right` quote theirs. 0 where it makes none, as a distribution.
        leads: How replies differ when the canary is present, or that a score is lower there, in a
            sentence; empty if unknown.

    Examples:
        >>> BoundReading("replies", "seconds").words
        'reply times'
    """

    of: Literal["score", "codes", "replies", "distribution"]
    channel: str = ""
    right: int = 0
    guesses: int = 0
    leads: str = ""

    @property
    def words(self) -> str:
        """Its name in a sentence."""
        if self.channel:
            return CHANNELS.get(self.channel, f"the channel {self.channel}")
        return WORDS[self.of]

    @property
    def compares(self) -> bool:
        """Whether a guess compares the two contexts of a pair."""
        return self.of == "replies" or bool(self.channel)


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
        reading: What it was read from; None if the method does not say.

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
    reading: BoundReading | None = None

    def __float__(self) -> float:
        """Refuse conversion to a number, which would drop kind and confidence."""
        raise TypeError(
            "an Estimate is not a bare number; read .epsilon or .mu together with .kind and "
            ".confidence."
        )
