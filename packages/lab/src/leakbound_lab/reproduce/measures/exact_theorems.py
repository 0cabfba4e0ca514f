"""Worked examples of two theorems: what holds of PoE's Theorem 3.4 and of CI's Theorem 3.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

from leakbound_lab.reproduce.context import RecipeContext
from leakbound_lab.reproduce.values import MeasuredValue, Quantity

DRAWS = 400  # draws of the examples: a standard error below 0.02
EXPECTED = np.array([0.3, 0.2, 0.0, -0.5])  # mean contribution of an example to each answer
RESIDUAL = np.array([-1.0, 1.0, 0.0, 0.0])  # bounded by 1, as Assumption 3.2 allows
CONTEXTS = 1000  # worked pairs of contexts for each λ
VOCABULARY = 50
Floats = npt.NDArray[np.float64]


def convergence_of_experts(
    context: RecipeContext, examples: Sequence[int]
) -> Iterator[MeasuredValue]:
    """Distance of a product of experts from the distribution over all examples together.

    Contributions of examples are independent and bounded. The interaction of examples is one
    bounded residual, the same for any number of them, as in Assumption 3.2.

    Args:
        context: Not used.
        examples: Numbers of examples n.

    Yields:
        Total variation with the n-th root of Theorem 3.4 (against its limit), and without it
        (against the product of experts), as a model answers.
    """
    for n in examples:
        sums = _contributions(n).sum(1)
        rooted = softmax((sums + RESIDUAL) / n, axis=1)
        away = _total_variation(rooted, softmax(EXPECTED))
        yield _exact(f"n = {n}, n-th root, as in the theorem", Quantity.TOTAL_VARIATION, away)
        apart = _total_variation(softmax(sums + RESIDUAL, axis=1), softmax(sums, axis=1))
        yield _exact(f"n = {n}, as a model answers", Quantity.TOTAL_VARIATION, apart)


def _contributions(n: int) -> Floats:
    """(draws, n, answers) within 1 of their mean."""
    noise = np.random.default_rng([n, 34]).uniform(-1, 1, (DRAWS, n, EXPECTED.size))
    return np.asarray(EXPECTED + noise)


def _total_variation(one: Floats, other: Floats) -> float:
    return float(abs(one - other).sum(1).mean() / 2)


def influence_and_pmi(context: RecipeContext, lams: Sequence[float]) -> Iterator[MeasuredValue]:
    """Influence of a part of a context on a token, divided by λ times the difference of its PMIs.

    Theorem 3.1 says that the two are proportional. The influence is exactly |λ ΔPMI - Δ ln Z|,
    where Z normalizes the mixed probabilities. Z is 1 only at λ = 0 and λ = 1.

    Args:
        context: Not used.
        lams: Values of λ above 0.

    Yields:
        The largest ratio, and the largest fraction of 2 λ max |ΔPMI| that an influence reaches.
    """
    for lam in lams:
        ratio, share = _work_out(lam)
        largest = float(ratio.max())
        shown = f"{largest:.3f} at most, from {ratio.min():.3f}; mean {ratio.mean():.3f}"
        yield MeasuredValue(f"λ = {lam:g}", Quantity.INFLUENCE_RATIO, largest, shown, exact=True)
        yield _exact(f"λ = {lam:g}", Quantity.INFLUENCE_OF_BOUND, float(share.max()))


def _work_out(lam: float) -> tuple[Floats, Floats]:
    """(contexts,) ratios of influence and λ ΔPMI, and fractions of the bound."""
    logits = np.random.default_rng([31]).normal(0, 2, (3, CONTEXTS, VOCABULARY))
    prior, whole, without = (log_softmax(each, axis=1) for each in logits)
    mixed = [log_softmax(lam * one + (1 - lam) * prior, axis=1) for one in (whole, without)]
    token = whole.argmax(1)[:, None]
    moved = np.take_along_axis(mixed[0] - mixed[1], token, 1)[:, 0]
    pmi = whole - without  # the difference of both PMIs; the prior cancels
    here = lam * abs(np.take_along_axis(pmi, token, 1)[:, 0])
    return abs(moved) / here, abs(moved) / (2 * lam * abs(pmi).max(1))


def _exact(setting: str, quantity: Quantity, value: float) -> MeasuredValue:
    return MeasuredValue(setting, quantity, value, f"{value:.3f}", exact=True)
