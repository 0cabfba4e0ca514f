"""The exponential mechanism: its distribution, samples, and the budget of one choice."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from leakbound.mechanisms.parts.tokens import finite, is_failed
from leakbound.privacy import share_down, zcdp_rho
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
    """Normalised log-probabilities, clamped.

    Guarantee: For any scores, two rows differ by at most C in each entry.
    """
    raw = finite(scores)
    top = raw.max(-1, keepdims=True)
    log_p = raw - top - np.log(np.exp(raw - top).sum(-1, keepdims=True))
    return np.where(is_failed(raw)[..., None], -clip, np.clip(log_p, -clip, 0.0))


def epsilon_per_choice(epsilon: float, delta: float, count: int) -> float:
    """Largest epsilon for each of `count` adaptively chosen exponential mechanisms in a budget.

    Guarantee:
        `count` mechanisms with that bounded range compose to (epsilon, delta)-DP under their common
        relation.

    Reference:
        Cesar and Rogers, "Bounding, concentrating, and truncating" (ALT 2021); Canonne, Kamath and
        Steinke (NeurIPS 2020), Proposition 12.
    """
    # the last factor covers rounding errors: the composition never exceeds epsilon
    concentrated = math.sqrt(8 * zcdp_rho(epsilon, delta) / count) * (1 - 1e-12)
    return max(share_down(epsilon, count), concentrated)
