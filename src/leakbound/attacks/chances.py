"""The exact chance that the score of an output lies at or above a level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from leakbound.stats import CategoricalLaw, GaussianLaw
from leakbound.stats.noise.best_votes import best_chance
from leakbound.stats.noise.discrete_votes import (
    discrete_difference_chances,
    discrete_margin_chances,
    discrete_win_chance,
)
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.tasks import Outputs

if TYPE_CHECKING:
    from leakbound.attacks.protocols import RenderedQuery, Score

Floats = npt.NDArray[np.float64]


def categorical_chances(
    score: Score,
    law: CategoricalLaw,
    outputs: Outputs,
    rendered: RenderedQuery,
    answers: tuple[str, ...],
    levels: Floats,
) -> Floats | None:
    """Chances of a mechanism that chooses among finitely many outputs."""
    kinds = len(law.probabilities)
    if outputs.noisy is not None or outputs.picked is not None or outputs.points is not None:
        return None
    if kinds > len(outputs.choices or answers) + 1:  # the last one: none of them
        return None
    each = score.score(Outputs(np.arange(kinds), choices=outputs.choices), rendered, answers)
    total = law.probabilities.sum()  # a float32 softmax sums to 1 but for rounding
    return np.asarray((each[:, None] >= levels).T @ (law.probabilities / total))


def linear_chances(law: GaussianLaw, weights: Floats, offset: float, levels: Floats) -> Floats:
    """Chances of the score `noisy @ weights - offset`."""
    middle, spread = float(law.mean @ weights) - offset, law.sigma * float(np.linalg.norm(weights))
    if spread == 0:
        return np.asarray(middle >= levels, float)
    return np.asarray(ndtr((middle - levels) / spread))


def margin_chances(law: GaussianLaw, one: int, scale: float, levels: Floats) -> Floats | None:
    """Chances of a noisy entry less the largest other one."""
    if law.sigma == 0 or law.mean.size < 2:
        return None
    others = np.delete(law.mean, one)
    found = best_chance(law.mean[[one]], others[None], law.sigma, levels / scale)
    return np.asarray(found[0])


def win_chance(law: GaussianLaw | DiscreteGaussianLaw, one: int) -> float | None:
    """Chance that a noisy count is the largest."""
    if isinstance(law, DiscreteGaussianLaw):
        return discrete_win_chance(law, one)
    wins = margin_chances(law, one, 1.0, np.zeros(1))
    return None if wins is None else float(wins[0])


def vote_chances(
    law: GaussianLaw | DiscreteGaussianLaw, one: int, other: int | None, scale: float,
    levels: Floats,
) -> Floats | None:  # fmt: skip
    """Chances of a noisy count less another one."""
    if isinstance(law, DiscreteGaussianLaw):
        if other is None:
            return discrete_margin_chances(law, one, scale, levels)
        return discrete_difference_chances(law, one, other, scale, levels)
    if other is None:
        return margin_chances(law, one, scale, levels)
    weights = np.zeros(law.mean.size)
    weights[one], weights[other] = scale, -scale
    return linear_chances(law, weights, 0.0, levels)
