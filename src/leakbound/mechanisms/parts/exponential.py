"""The exponential mechanism, and mixtures of logits with and without a context."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from leakbound.mechanisms.parts.tokens import finite, is_failed, log_softmax
from leakbound.privacy import share_down, zcdp_rho
from leakbound.privacy.rounding import bisect
from leakbound.stats import CategoricalLaw
from leakbound.stats.arrays import Floats, Ints


def softmax_distribution(logits: Floats) -> CategoricalLaw:
    """Output distribution of the exponential mechanism with given exponents."""
    weights = np.exp(logits - logits.max())
    return CategoricalLaw(weights / weights.sum())


def gumbel_choices(logits: Floats, draws: int, rng: np.random.Generator) -> Ints:
    """Samples of the exponential mechanism, drawn with the Gumbel-max trick."""
    return np.asarray((logits + rng.gumbel(size=(draws, logits.size))).argmax(1), np.int64)


def clip_log_probabilities(scores: npt.ArrayLike, clip: float) -> Floats:
    """Normalised log-probabilities, clamped: two rows differ by at most C in each entry."""
    raw = finite(scores)
    top = raw.max(-1, keepdims=True)
    log_p = raw - top - np.log(np.exp(raw - top).sum(-1, keepdims=True))
    return np.where(is_failed(raw)[..., None], -clip, np.clip(log_p, -clip, 0.0))


def epsilon_per_choice(epsilon: float, delta: float, count: int) -> float:
    """Largest epsilon for each of `count` adaptively chosen exponential mechanisms in a budget.

    Guarantee: `count` mechanisms with that bounded range compose to (epsilon, delta)-DP under their
    common relation.
    Reference: Cesar and Rogers, "Bounding, concentrating, and truncating" (ALT 2021); Canonne,
    Kamath and Steinke (NeurIPS 2020), Proposition 12.
    """
    # the last factor covers rounding errors: the composition never exceeds epsilon
    concentrated = math.sqrt(8 * zcdp_rho(epsilon, delta) / count) * (1 - 1e-12)
    return max(share_down(epsilon, count), concentrated)


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
