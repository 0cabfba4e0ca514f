"""Do outputs follow a distribution? Tests of draws against draws, and against what is declared."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

from leakbound.privacy import discrete_gaussian_pmf
from leakbound.stats import CategoricalLaw, GaussianLaw, OutputDistribution
from leakbound.stats.output_distributions import DiscreteGaussianLaw
from leakbound.tasks import Outputs

__all__ = ["misfit", "two_sample_p_value"]

Floats = npt.NDArray[np.float64]
Column = npt.NDArray[np.int64] | npt.NDArray[np.float64]
# Expected counts below these are pooled: the chi-square approximation does not hold for them.
RARE, RARE_IN_BOTH = 5, 10
WHOLE = 1e-6  # noise on counts that is no farther than this from a whole number counts as one


def _columns(outputs: Outputs) -> list[Column]:
    """What is random: one array (draws,) each, categories as integers, coordinates as floats."""
    picked = (
        []
        if outputs.picked is None
        else [outputs.picked @ (1000 ** np.arange(outputs.picked.shape[1]))]
    )
    noisy = [] if outputs.noisy is None else list(np.asarray(outputs.noisy, float).T)
    return [np.asarray(outputs.answers, np.int64), *picked, *noisy]


def two_sample_p_value(one: Outputs, other: Sequence[Outputs]) -> float:
    """p-value that many draws at once and many single draws have one distribution.

    Args:
        one: Many draws at once.
        other: Single draws.

    Returns:
        The smallest p-value over everything that is released, after Bonferroni.
    """
    singles = [np.concatenate(rows) for rows in zip(*map(_columns, other), strict=True)]
    many = _columns(one)
    found = [_two_samples(x, y) for x, y in zip(many, singles, strict=True)]
    return min(1.0, len(found) * min(found))


def _two_samples(x: Column, y: Column) -> float:
    if x.dtype.kind == "f":
        return float(stats.ks_2samp(x, y).pvalue)
    kinds, at = np.unique(np.concatenate([x, y]), return_inverse=True)
    table = np.stack(
        [np.bincount(part, minlength=len(kinds)) for part in (at[: len(x)], at[len(x) :])]
    )
    rare = table.sum(0) < RARE_IN_BOTH
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], 1)
    table = table[:, table.sum(0) > 0]
    return float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0


def misfit(outputs: Outputs, declared: OutputDistribution) -> float:
    """p-value that outputs follow the distribution that is declared for them.

    Args:
        outputs: Many draws.
        declared: The output distribution.

    Returns:
        The smallest p-value over all tests made, after Bonferroni; 0 for noisy aggregates that are
        declared and not released.
    """
    if isinstance(declared, CategoricalLaw):
        chosen = outputs.answers if outputs.picked is None else outputs.picked[:, 0]
        return _off_categories(np.asarray(chosen), np.asarray(declared.probabilities, float))
    if outputs.noisy is None:
        return 0.0
    noise = (np.asarray(outputs.noisy, float) - declared.mean) / _deviation(declared)
    found = [_off_noise(column, declared) for column in noise.T]
    spread = np.sqrt(len(noise))
    # a draw and the next
    found += [_unlinked(noise[1:, i] @ noise[:-1, i] / spread) for i in range(noise.shape[1])]
    found += [
        _unlinked(noise[:, i] @ noise[:, j] / spread)
        for i, j in itertools.combinations(range(noise.shape[1]), 2)
    ]
    return min(1.0, len(found) * min(found))


def _deviation(declared: GaussianLaw | DiscreteGaussianLaw) -> float:
    if isinstance(declared, GaussianLaw):
        return declared.sigma
    p = discrete_gaussian_pmf(declared.sigma)
    return float(np.sqrt(p @ (np.arange(p.size) - p.size // 2) ** 2.0))


def _off_noise(noise: Floats, declared: GaussianLaw | DiscreteGaussianLaw) -> float:
    """p-value of the noise of one coordinate, in standard deviations."""
    if isinstance(declared, GaussianLaw):
        return float(stats.kstest(noise, "norm").pvalue)
    steps = noise * _deviation(declared)
    whole, p = np.rint(steps).astype(np.int64), discrete_gaussian_pmf(declared.sigma)
    if np.abs(steps - whole).max() > WHOLE or np.abs(whole).max() > p.size // 2:
        return 0.0
    return _off_categories(whole + p.size // 2, p)


def _unlinked(z: float) -> float:
    """Two-sided p-value of a normal score."""
    return 2 * float(stats.norm.sf(abs(z)))


def _off_categories(answers: npt.NDArray[np.int64], p: Floats) -> float:
    """Chi-square over the common categories, and a binomial tail for all rare ones together."""
    seen, expected = np.bincount(answers, minlength=len(p)), p * len(answers)
    if len(seen) > len(p) or (seen[expected == 0] > 0).any():
        return 0.0
    rare = expected < RARE
    tail = float(stats.binom.sf(seen[rare].sum() - 1, len(answers), min(1.0, float(p[rare].sum()))))
    if (~rare).sum() < 2:
        return min(1.0, 2 * tail)
    common = expected[~rare] * seen[~rare].sum() / expected[~rare].sum()
    return min(1.0, 2 * min(tail, float(stats.chisquare(seen[~rare], common).pvalue)))
