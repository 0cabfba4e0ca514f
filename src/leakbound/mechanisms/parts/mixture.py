"""Mixtures of logits with and without a context, and the largest weight that a bound allows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from leakbound.mechanisms.parts.tokens import log_softmax
from leakbound.privacy.rounding import bisect
from leakbound.stats.arrays import Floats

# Bisection steps for the largest lambda: 2^-40 of the interval, far finer than a bound can resolve.
STEPS = 40


def mix_logits(context: Floats, prior: Floats, lam: float, temperature: float) -> Floats:
    """ln of softmax[(lam context + (1 - lam) prior)/T]."""
    return log_softmax((lam * context + (1 - lam) * prior) / temperature)


def largest_lambda(
    context: Floats, prior: Floats, bound: float, largest: float, temperature: float
) -> float:
    """A lambda in [0, largest] with max |ln p_lambda - ln p_0| <= bound."""
    p0 = mix_logits(context, prior, 0.0, temperature)

    def holds(lam: float) -> bool:
        return bool(np.abs(mix_logits(context, prior, lam, temperature) - p0).max() <= bound)

    return largest_weight(holds, largest, STEPS)


def largest_weight(holds: Callable[[float], bool], largest: float, halvings: int) -> float:
    """The largest weight up to `largest` for which a property holds that holds for all smaller."""
    if holds(largest):
        return largest
    return bisect(lambda weight: not holds(weight), 0.0, largest, halvings)[0]
