"""Do outputs follow a distribution? Tests of draws against draws, and against what is declared.

Every p-value is exact or an upper bound (binomial and hypergeometric tails, Kolmogorov's statistic,
normal scores of independent halves), so a level far in the tail means what it says.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from leakbound.stats import CategoricalLaw, GaussianLaw, OutputDistribution
from leakbound.tasks import Outputs

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Column = Integers | Floats
TAILS = (2.0, 3.0, 4.0)  # standard deviations beyond which noise is counted
CORES = 20_000  # outputs of a test of Kolmogorov; its exact p-value is slow for more
STEPS = 2001  # of an integral over 20 standard deviations: exact to 1e-12 for normal densities


def columns_of(outputs: Outputs) -> list[Column]:
    """What is random, one array for each."""
    picked = (
        []
        if outputs.picked is None
        else [outputs.picked @ (1000 ** np.arange(outputs.picked.shape[1]))]
    )
    noisy = [] if outputs.noisy is None else list(np.asarray(outputs.noisy, float).T)
    return [np.asarray(outputs.answers, np.int64), *picked, *noisy]


def two_sample_p_value(one: Outputs, other: Sequence[Outputs]) -> float:
    """p-value that many draws at once and many single draws have one distribution."""
    singles = [np.concatenate(rows) for rows in zip(*map(columns_of, other), strict=True)]
    many = columns_of(one)
    found = [_two_samples(x, y) for x, y in zip(many, singles, strict=True)]
    return min(1.0, len(found) * min(found))


def _two_samples(x: Column, y: Column) -> float:
    if x.dtype.kind == "f":
        return float(stats.ks_2samp(x, y).pvalue)
    return same_categories_p_value(x, y)


def same_categories_p_value(x: Column, y: Column) -> float:
    """p-value that two samples of categories have one distribution."""
    kinds, at = np.unique(np.concatenate([x, y]), return_inverse=True)
    if len(kinds) < 2:
        return 1.0
    one, other = (np.bincount(p, minlength=len(kinds)) for p in (at[: len(x)], at[len(x) :]))
    drawn = stats.hypergeom(len(at), one + other, len(x))
    tails = np.minimum(drawn.cdf(one), drawn.sf(one - 1))
    return float(min(1.0, 2 * len(kinds) * tails.min()))


def independent_p_value(column: Column) -> float:
    """p-value that each draw is independent of the one before it."""
    first, second = column[: len(column) // 2 * 2 : 2], column[1::2]
    if column.dtype.kind == "f" and np.ptp(column) > 0 and (first == second).all():
        return 0.0
    cut = np.median(column)
    high, after = first > cut, second > cut
    both = int((high & after).sum())
    drawn = stats.hypergeom(len(first), int(high.sum()), int(after.sum()))
    return float(min(1.0, 2 * min(drawn.cdf(both), drawn.sf(both - 1))))


def misfit(outputs: Outputs, declared: OutputDistribution) -> float:
    """p-value that outputs follow the distribution that is declared for them."""
    if isinstance(declared, CategoricalLaw):
        chosen = outputs.answers if outputs.picked is None else outputs.picked[:, 0]
        return categories_p_value(np.asarray(chosen), np.asarray(declared.probabilities, float))
    if outputs.noisy is None:
        return 0.0
    noise = (np.asarray(outputs.noisy, float) - declared.mean) / declared.sigma
    if isinstance(declared, GaussianLaw):
        found = [float(stats.kstest(column[:CORES], "norm").pvalue) for column in noise.T]
        found += [_tail(noise, tail) for tail in TAILS]
    else:
        found = [_whole_noise(column, declared.sigma) for column in noise.T]
    half = len(noise) // 2 * 2
    found += [_unlinked(noise[:half:2, i], noise[1:half:2, i]) for i in range(noise.shape[1])]
    found += [
        _unlinked(noise[:, i], noise[:, j])
        for i, j in itertools.combinations(range(noise.shape[1]), 2)
    ]
    return min(1.0, len(found) * min(found))


def _tail(noise: Floats, tail: float) -> float:
    """Two-sided binomial p-value of the number of values beyond some standard deviations."""
    beyond = int((np.abs(noise) > tail).sum())
    drawn = stats.binom(noise.size, 2 * stats.norm.sf(tail))
    return float(min(1.0, 2 * min(drawn.cdf(beyond), drawn.sf(beyond - 1))))


def _whole_noise(column: Floats, sigma: float) -> float:
    """Discrete Gaussian noise in units of sigma, as categories."""
    steps = np.rint(column * sigma).astype(np.int64)
    if np.abs(steps - column * sigma).max() > 1e-6:
        return 0.0
    reach = int(10 * sigma) + 10
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    return categories_p_value(np.clip(steps + reach, 0, 2 * reach), weights / weights.sum())


def _unlinked(x: Floats, y: Floats) -> float:
    """Two-sided p-value that normal x and y are independent: given x, the score is normal."""
    return 2 * float(stats.norm.sf(abs(float(x @ y)) / max(float(np.linalg.norm(x)), 1e-300)))


def categories_p_value(answers: npt.ArrayLike, p: Floats) -> float:
    """p-value that categories have given probabilities."""
    seen = np.bincount(np.asarray(answers, np.int64), minlength=len(p))
    chances = np.clip(p / p.sum(), 0.0, 1.0)
    if len(seen) > len(p) or (seen[chances == 0] > 0).any():
        return 0.0
    drawn = stats.binom(int(seen.sum()), chances)
    tails = np.minimum(drawn.cdf(seen), drawn.sf(seen - 1))
    return float(min(1.0, 2 * len(p) * tails.min()))


def argmax_chances(declared: GaussianLaw) -> Floats:
    """Probability that each entry of a noisy aggregate is the largest, by integration.

    Examples:
        >>> argmax_chances(GaussianLaw(np.array([2.0, 2.0]), 1.0)).round(9).tolist()
        [0.5, 0.5]
    """
    mean, x = np.asarray(declared.mean) / declared.sigma, np.linspace(-10, 10, STEPS)
    gaps = x[:, None, None] + mean[None, :, None] - mean[None, None, :]
    below = special.log_ndtr(gaps)
    below[:, np.arange(len(mean)), np.arange(len(mean))] = 0.0
    density = np.exp(-0.5 * x**2)[:, None] * np.exp(below.sum(2))
    chances = density.sum(0)
    return np.asarray(chances / chances.sum())
