"""The test of declared noise: each of its p-values against scipy, and the grid that it finds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binomtest, chi2, kstest, norm

from leakbound.errors import UsageError
from leakbound.stats import noise_goodness_of_fit

Floats = npt.NDArray[np.float64]


def twice(low: float, high: float) -> float:
    return min(1.0, 2 * min(low, high))


def shape(z: Floats) -> float:
    """By the inequality of Dvoretzky, Kiefer and Wolfowitz."""
    return min(1.0, 2 * math.exp(-2 * z.size * kstest(z.ravel(), "norm").statistic ** 2))


def scale(z: Floats) -> float:
    square = float((z**2).sum())
    return twice(chi2.cdf(square, z.size), chi2.sf(square, z.size))


def centre(z: Floats) -> float:
    return float(2 * norm.sf(abs(z.sum()) / math.sqrt(z.size)))


def independence(z: Floats) -> float:
    """Neighbours of one sign are as likely as neighbours of two, along both axes."""
    found = []
    for one, other in ((z[1:], z[:-1]), (z[:, 1:], z[:, :-1])):
        if one.size:
            alike, n = int((np.sign(one) == np.sign(other)).sum()), one.size
            tails = (binomtest(alike, n, alternative=way).pvalue for way in ("less", "greater"))
            found.append(twice(*tails))
    return min(1.0, len(found) * min(found))


@pytest.mark.parametrize("size", [(9, 1), (40, 3), (8, 2)])
@pytest.mark.parametrize(("factor", "shift"), [(1.0, 0.0), (0.8, 0.0), (1.2, 0.3), (0.7, -0.5)])
def test_every_p_value_is_that_of_its_test(
    size: tuple[int, int], factor: float, shift: float
) -> None:
    z = shift + factor * np.random.default_rng(list(size)).normal(size=size)
    found = noise_goodness_of_fit(2.5 * z, 2.5, level=0.2)
    tests = shape(z), scale(z), centre(z), independence(z)
    assert (found.shape, found.scale, found.centre, found.independence) == pytest.approx(tests)
    assert found.p_value == pytest.approx(min(1.0, 5 * min(tests)))
    assert found.fits == (5 * min(tests) > 0.2)
    assert found.sigma_ratio == pytest.approx(math.sqrt((z**2).mean()))
    assert (found.draws, found.repeats, found.step, found.level) == (size[0], 1.0, None, 0.2)


def test_neighbours_that_always_or_never_agree_are_as_rare_as_equal_coins() -> None:
    """Nine draws: eight coins, 2 / 2^8; and one side of each of eight rows of two."""
    up = 0.3 + 0.1 * np.arange(9)
    for z in (up, up * (-1.0) ** np.arange(9)):
        assert noise_goodness_of_fit(z, 1.0).independence == pytest.approx(2 / 2**8)
    rows = np.stack([up, -up], 1)
    assert noise_goodness_of_fit(rows, 1.0).independence == pytest.approx(2 * min(2**-8, 2**-15))


@pytest.mark.parametrize(("equal", "repeats"), [(2, 1.0), (3, 0.0)])
def test_more_than_one_equal_value_in_a_thousand_is_a_repeat(equal: int, repeats: float) -> None:
    z = np.random.default_rng(2).normal(size=2000)
    z[:equal] = z[-equal:]
    assert noise_goodness_of_fit(z, 1.0).repeats == repeats


def smoothed(at: Floats, step: float, rounded: bool) -> Floats:
    """F + V p of each value on the grid, as a normal quantile; the draws are the test's own."""
    grid = np.arange(-400, 401)
    if rounded:
        mass = norm.cdf((grid + 0.5) * step) - norm.cdf((grid - 0.5) * step)
    else:
        mass = np.exp(-((grid * step) ** 2) / 2)
    mass /= mass.sum()
    below = {int(k): float(mass[grid < k].sum()) for k in np.unique(at)}
    own = {int(k): float(mass[grid == k].sum()) for k in np.unique(at)}
    uniform = np.random.default_rng(0).random(at.shape)
    chance = np.vectorize(lambda k, v: below[int(k)] + v * own[int(k)])(at, uniform)
    return np.asarray(norm.ppf(chance))


@pytest.mark.parametrize("sigma", [0.7, 4.0])
@pytest.mark.parametrize("unit", [1.0, 0.25])
@pytest.mark.parametrize("rounded", [True, False])
def test_values_on_a_grid_are_made_continuous(sigma: float, unit: float, rounded: bool) -> None:
    """The better of the rounded and the discrete Gaussian counts."""
    rng, grid = np.random.default_rng(11), np.arange(-60, 61)
    mass = np.exp(-(grid**2) / (2 * sigma**2))
    discrete = rng.choice(grid, size=(60, 2), p=mass / mass.sum())
    at = np.round(rng.normal(0, sigma, (60, 2))) if rounded else discrete.astype(float)
    found = noise_goodness_of_fit(unit * at, unit * sigma)
    fits = []
    for kind in (True, False):
        z = smoothed(at, 1 / sigma, kind)
        fits.append((shape(z), scale(z), centre(z), independence(z)))
    best = max(fits, key=lambda tests: min(1.0, 5 * min(tests)))  # as the rounded, if both do
    assert found.step == pytest.approx(unit)
    assert (found.shape, found.scale, found.centre, found.independence) == pytest.approx(best)
    assert found.repeats == 1.0
    assert found.sigma_ratio == pytest.approx(math.sqrt((at**2).mean()) / sigma)


def test_what_lies_on_no_coarse_grid_is_compared_as_it_is() -> None:
    """Equal values without a step, all 0, and a grid too fine to matter."""
    z = np.random.default_rng(3).normal(size=40)
    for values in (np.tile(z, 2), np.zeros(20), np.round(np.tile(z, 2), 6)):
        found = noise_goodness_of_fit(values, 1.0)
        assert (found.step, found.repeats, found.fits) == (None, 0.0, False)


@pytest.mark.parametrize("size", [(7,), (7, 3), (9, 0), (9, 2, 2), ()])
def test_what_is_no_table_of_draws_is_refused(size: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="at least 8 draws"):
        noise_goodness_of_fit(np.ones(size), 1.0)
    assert noise_goodness_of_fit(np.random.default_rng(1).normal(size=8), 1.0).fits
