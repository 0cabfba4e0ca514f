"""Exact unconditional bounds: against enumeration, and their true error at the edge of claims."""

from __future__ import annotations

import inspect
import math
import sys
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from leakbound_lab.conformance import assert_estimator_conforms
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit, ndtr, ndtri
from scipy.stats import beta, binom

from leakbound.errors import UsageError
from leakbound.estimators import ClopperPearson, TrialDesign, Unconditional
from leakbound.estimators.base import Claim
from leakbound.stats import (
    Assumption,
    Bonferroni,
    binomial_lower,
    binomial_upper,
    clopper_pearson,
    clopper_pearson_power,
    gdp,
)
from leakbound.stats.counts.unconditional import (
    NUISANCE_SHARE,
    RESOLUTION,
    _ApproxClaims,
    _Region,
    _Trials,
    _window,
    rates_keep,
    unconditional,
    unconditional_mu,
    unconditional_power,
)

Floats = npt.NDArray[np.float64]
ALPHA = 0.05


def edge_q(p: float, epsilon: float, delta: float) -> float:
    """The smallest FPR that a claim allows beside a TPR."""
    slope = math.exp(epsilon)
    return min(1.0, max(0.0, (p - delta) / slope, 1 - delta - slope * (1 - p)))


def log_likelihood(x: int, n: int, p: float) -> float:
    p = min(max(p, 1e-300), 1 - 1e-16)
    return x * math.log(p) + (n - x) * math.log1p(-p)


def ratio(x: int, y: int, n: int, m: int, epsilon: float, delta: float) -> float:
    """Twice the log likelihood ratio against a claim, by an optimiser; 0 inside the claim."""
    if y / m >= edge_q(x / n, epsilon, delta):
        return 0.0

    def loss(at: float) -> float:
        p = float(expit(at))
        q = edge_q(p, epsilon, delta)
        return -log_likelihood(x, n, p) - log_likelihood(y, m, q)

    start = np.linspace(-25.0, 25.0, 301)
    at = int(np.argmin([loss(p) for p in start]))
    low, high = start[max(at - 1, 0)], start[min(at + 1, 300)]
    best = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10})
    free = log_likelihood(x, n, x / n) + log_likelihood(y, m, y / m)
    return 2 * (free + min(best.fun, loss(start[at])))


def limit(x: int, y: int, n: int, m: int, delta: float) -> float:
    """The order of outcomes: the largest claim that the likelihood ratio rejects."""
    need = ndtri(1 - ALPHA) ** 2
    if ratio(x, y, n, m, 0.0, delta) < need:
        return 0.0
    return float(brentq(lambda e: ratio(x, y, n, m, e, delta) - need, 0.0, 20.0, xtol=1e-9))


def twin(x: int, y: int, n: int, m: int, delta: float) -> float:
    """The same bound by enumeration of all outcomes, a dense grid of p and Brent's method."""
    levels = np.array([[limit(i, j, n, m, delta) for j in range(m + 1)] for i in range(n + 1)])
    if levels[x, y] == 0:
        return 0.0
    region = levels >= levels[x, y] - 1e-6
    spent = NUISANCE_SHARE * ALPHA
    (p_low, p_high), (q_low, q_high) = (
        (
            beta.ppf(spent / 4, k, size - k + 1) if k else 0.0,
            beta.isf(spent / 4, k + 1, size - k) if k < size else 1.0,
        )
        for k, size in ((x, n), (y, m))
    )

    def chance(p: float, q: float) -> float:
        one, other = binom.pmf(range(n + 1), n, p), binom.pmf(range(m + 1), m, q)
        return float(one @ region @ other) - (ALPHA - spent)

    found = math.inf
    for p in np.linspace(p_low, p_high, 1501)[1:-1]:
        if chance(p, q_low) <= 0:
            continue
        q = q_high if chance(p, q_high) > 0 else brentq(lambda q: chance(p, q), q_low, q_high)  # noqa: B023
        first = math.log((p - delta) / q) if p > delta and q > 0 else -math.inf
        second = math.log((1 - q - delta) / (1 - p)) if q < 1 - delta else -math.inf
        found = min(found, max(first, second))
    return max(0.0, found)


@pytest.mark.parametrize(
    ("x", "y", "n", "m", "delta"),
    [
        (4, 0, 5, 7, 1e-5),
        *(
            pytest.param(*cells, marks=pytest.mark.slow)
            for cells in (
                (5, 0, 5, 5, 0.0),
                (1, 0, 1, 12, 0.0),
                (7, 1, 8, 8, 0.1),
                (9, 3, 9, 6, 0.0),
                (6, 0, 10, 10, 0.0),
                (8, 2, 10, 10, 0.1),
            )
        ),
    ],
)
def test_the_bound_equals_that_of_an_enumeration(
    x: int, y: int, n: int, m: int, delta: float
) -> None:
    """From below, by the resolution at most and what the grid of the twin misses."""
    fast = unconditional(x, n - x, y, m - y, delta).epsilon or 0.0
    slow = twin(x, y, n, m, delta)
    assert slow - RESOLUTION - 2e-3 <= fast <= slow + 1e-5


@cache
def bounds(n: int, m: int, delta: float) -> Floats:
    """(n + 1, m + 1) bounds of all outcomes on epsilon, or on mu where delta is negative."""
    found = np.zeros((n + 1, m + 1))
    for x, y in product(range(n + 1), range(m + 1)):
        if x * m <= y * n:
            continue  # at or below the diagonal nothing is shown; see the test below
        if n == m and n - x < y:
            found[x, y] = found[m - y, n - x]  # the same errors with their names exchanged
            continue
        if delta < 0:
            found[x, y] = unconditional_mu(x, n - x, y, m - y).mu or 0.0
        else:
            found[x, y] = unconditional(x, n - x, y, m - y, delta).epsilon or 0.0
    return found


def worst_error(values: Floats, truth: float, edges: list[tuple[float, float]]) -> float:
    """Largest exact chance, over pairs of rates, that a bound exceeds the truth."""
    n, m = values.shape[0] - 1, values.shape[1] - 1
    p, q = np.array(edges).T[:, :, None]
    chances = binom.pmf(np.arange(n + 1), n, p) @ (values > truth)
    return float((chances * binom.pmf(np.arange(m + 1), m, q)).sum(1).max())


def rates() -> Floats:
    """Dense where rates are small, for both errors."""
    inner = np.linspace(0.0, 1.0, 801)
    small = np.logspace(-6, -1, 200)
    return np.unique(np.concatenate([inner, small, 1 - small]))


@pytest.mark.parametrize(
    ("n", "m", "delta"),
    [*((n, n, d) for n in (1, 5) for d in (0.0, 1e-5, 0.1)),
     *((n, n, 1e-5) for n in (10, 20)), (7, 13, 1e-5),
     *(pytest.param(n, m, d, marks=pytest.mark.slow)
       for n, m in [(10, 10), (7, 13)] for d in (0.0, 0.1))],
)  # fmt: skip
def test_the_true_error_never_exceeds_what_is_allowed(n: int, m: int, delta: float) -> None:
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
        edges = [(p, edge_q(p, epsilon, delta)) for p in rates()]
        assert worst_error(bounds(n, m, delta), epsilon, edges) <= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("n", [20, 50])
def test_the_true_error_never_exceeds_what_is_allowed_at_more(n: int, delta: float) -> None:
    test_the_true_error_never_exceeds_what_is_allowed(n, n, delta)


@pytest.mark.parametrize(
    ("n", "m"), [(5, 5), (7, 13), pytest.param(13, 13, marks=pytest.mark.slow)]
)
def test_the_true_error_of_the_bound_on_mu(n: int, m: int) -> None:
    for mu in (0.0, 0.3, 1.0, 2.0, 4.0):
        edges = [(p, float(ndtr(ndtri(p) - mu))) for p in rates()[1:-1]]
        assert worst_error(bounds(n, m, -1.0), mu, edges) <= ALPHA


@pytest.mark.parametrize(("tp", "fp"), [(0, 0), (5, 5), (20, 20), (3, 9), (0, 20)])
def test_rates_at_or_below_the_diagonal_show_nothing(tp: int, fp: int) -> None:
    assert unconditional(tp, 20 - tp, fp, 20 - fp).epsilon == 0.0
    assert unconditional_mu(tp, 20 - tp, fp, 20 - fp).mu == 0.0


@pytest.mark.parametrize("delta", [0.0, 0.07])
def test_the_smallest_claim_is_the_first_that_allows_two_rates(delta: float) -> None:
    """Also rates of 0 and 1, whose logits are infinite."""
    some = np.array([0.0, 0.05, 0.1, 0.5, 0.97, 1.0])
    p, q = np.meshgrid(some, some, indexing="ij")
    found = _ApproxClaims(delta).smallest(logit(p), logit(q))
    for one, tpr, fpr in zip(found.ravel(), p.ravel(), q.ravel(), strict=True):
        both = ((tpr - delta, fpr), (1 - fpr - delta, 1 - tpr))
        needed = [
            -math.inf if top <= 0 else math.inf if low <= 0 else math.log(top / low)
            for top, low in both
        ]
        assert one == pytest.approx(max(needed))


@pytest.mark.parametrize("m", [1, 30, 4000, 10**6])
@pytest.mark.parametrize(
    ("low", "high"), [(-math.inf, -9.0), (-0.2, 0.1), (-3.0, 4.0), (8.0, math.inf)]
)
def test_counts_that_are_left_out_have_no_mass(m: int, low: float, high: float) -> None:
    ys = _window(m, (low, high))
    assert 0 <= ys[0] <= ys[-1] <= m
    assert (np.diff(ys) == 1).all()
    for q in expit([low, high]):
        assert binom.cdf(ys[0] - 1, m, q) + binom.sf(ys[-1], m, q) < 1e-19


@pytest.mark.parametrize("n", [30, 100, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rate", [(1.0, 0.0), (0.9, 0.1), (0.6, 0.1), (0.3, 0.05), (0.9, 0.5)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
def test_it_is_tighter_than_clopper_pearson(
    n: int, rate: tuple[float, float], delta: float
) -> None:
    x, y = (round(n * one) for one in rate)
    cells = (x, n - x, y, n - y, delta)
    assert (unconditional(*cells).epsilon or 0.0) >= (clopper_pearson(*cells).epsilon or 0.0)
    assert (unconditional_mu(*cells).mu or 0.0) >= (gdp(*cells).mu or 0.0)


def test_a_perfect_attack_has_the_closed_form() -> None:
    """p^n (1 - q)^n = alpha - beta is least claimed at the corner p = 1 - q."""
    for n in (5, 100, 5000):
        right = (ALPHA * (1 - NUISANCE_SHARE)) ** (1 / (2 * n))
        exact = math.log(right / (1 - right))
        found = unconditional(n, 0, 0, n).epsilon or 0.0
        assert exact - RESOLUTION <= found <= exact


def test_errors_of_both_kinds_count_alike() -> None:
    one, other = unconditional(60, 40, 5, 95, 0.01), unconditional(95, 5, 40, 60, 0.01)
    assert one.epsilon == pytest.approx(other.epsilon, abs=RESOLUTION)


def test_more_errors_never_raise_the_bound() -> None:
    values = bounds(20, 20, 1e-5)
    assert (np.diff(values, axis=0) >= -RESOLUTION).all()
    assert (np.diff(values, axis=1) <= RESOLUTION).all()


@pytest.mark.parametrize(("n", "claim", "delta"), [(5, 0.5, 0.0), (10, 1.0, 1e-5), (20, 1.0, 1e-5)])
@pytest.mark.parametrize("true", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("assumption", [Assumption(), Assumption(0.9, 0.02)])
def test_the_power_is_that_of_all_outcomes(
    n: int, claim: float, delta: float, true: float, assumption: Assumption
) -> None:
    """At 60 pairs it was .914 in place of .881: the likeliest point lay off the grid."""
    (tpr, fpr), k = assumption.rates(true), np.arange(n + 1)
    rejected = bounds(n, n, delta) > claim
    exact = binom.pmf(k, n, tpr) @ rejected @ binom.pmf(k, n, fpr)
    found = unconditional_power(n, true, claim, delta, assumption=assumption)
    assert exact - 0.01 <= found <= exact + 1e-6  # outcomes of a chance below 0.001 may be left out


def test_a_claim_is_stated_at_delta_0_and_95_percent_unless_said() -> None:
    """Every bound and power has the same defaults; a bound on mu implies nothing at delta 0."""
    modules = [
        m for n, m in sys.modules.items() if n.startswith(("leakbound.stats", "leakbound.es"))
    ]
    functions = {f for module in modules for f in vars(module).values() if inspect.isfunction(f)}
    for function in (f for f in functions if f.__module__.startswith("leakbound.")):
        known = inspect.signature(function).parameters
        if "confidence" in known:
            assert known["confidence"].default in (0.95, inspect.Parameter.empty), function
        if "delta" in known and "mu" not in function.__name__:
            allowed = (1e-5,) if function is gdp else (0.0, inspect.Parameter.empty)
            assert known["delta"].default in allowed, function
    for call in (unconditional_power, clopper_pearson_power):
        assert call(40, 3.0, 0.5) == call(40, 3.0, 0.5, 0.0, 0.95) > 0


@pytest.mark.parametrize("runs", [12, pytest.param(40, marks=pytest.mark.slow)])
def test_the_estimator_keeps_the_invariants_of_all(runs: int) -> None:
    """False alarms: at most 1e-6 a scene, by the binomial limit of the coverage."""
    assert_estimator_conforms(Unconditional(), seed=1, runs=runs)


def test_several_thresholds_share_the_error() -> None:
    design = TrialDesign(Claim(1.0, 1e-5), rule=Bonferroni((0.3, 0.7)), pairs=40)
    best = Unconditional().largest_certifiable(design, 40)
    plain = unconditional(40, 0, 0, 40, 1e-5, 0.975)
    assert best.epsilon == plain.epsilon


def test_fewer_pairs_are_needed_than_by_clopper_pearson() -> None:
    for epsilon, fewer in ((1.0, 5), (4.0, 84)):
        design = TrialDesign(Claim(epsilon, 1e-5))
        assert Unconditional().pairs_needed(design) == fewer
        assert (ClopperPearson().pairs_needed(design) or 0) > 1.9 * fewer
    assert Unconditional().pairs_needed(TrialDesign(Claim(13.0, 1e-5))) is None


@pytest.mark.parametrize(
    ("cells", "delta", "sentence"),
    [
        ((0, 0, 1, 1), 0.0, "there are no member trials"),
        ((-1, 2, 1, 1), 0.0, "tp is -1"),
        ((1, 1, 1, 1), 1.0, "delta is 1.0"),
    ],
)
def test_what_is_no_count_is_refused(
    cells: tuple[int, int, int, int], delta: float, sentence: str
) -> None:
    for bound in (unconditional, unconditional_mu):
        with pytest.raises(UsageError, match=sentence):
            bound(*cells, delta)


def test_the_probability_of_a_region_is_binomial() -> None:
    """Of no, of all and of some canary-in counts."""
    n, m, edge = 5, 7, np.arange(-1, 8)
    region = _Region(_Trials(n, m), np.arange(9) % (m + 1), edge)
    p, q = np.array([-2.0, 0.0, 1.5]), np.array([-1.0, 0.3, 2.0])
    assert np.allclose(region.tails(p), binom.sf(edge - 1, n, expit(p)[:, None]))
    assert np.allclose(region.masses(q), binom.pmf(region.ys, m, expit(q)[:, None]))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.0, 0.3), (1.5, 0.05)])
@pytest.mark.parametrize("level", [0.05, 0.002])
def test_rates_that_break_a_claim_are_rarely_said_to_keep_it(
    epsilon: float, delta: float, level: float
) -> None:
    """All outcomes of 14 trials each, on both edges of the claim; exchanged rates are alike."""
    n = 14
    counts = range(n + 1)
    said = np.zeros((n + 1, n + 1), bool)
    for x, y in product(counts, counts):
        if y <= x <= n - y:
            said[x, y] = rates_keep(x, y, n, epsilon, delta, level)
            said[y, x] = said[n - x, n - y] = said[n - y, n - x] = said[x, y]
    for x, y in [(3, 9), (9, 3), (11, 5), (5, 11)]:
        assert said[x, y] == rates_keep(x, y, n, epsilon, delta, level)
    assert said.any() or level < 0.05
    for p in np.linspace(0.0, 1.0, 201):
        q = edge_q(p, epsilon, delta)
        if q > 0:  # beside it, no rate breaks the claim
            chances = binom.pmf(counts, n, p), binom.pmf(counts, n, q)
            assert chances[0] @ said @ chances[1] <= level
    for x, y in np.argwhere(~said):  # limits of each rate alone say less
        high, low = binomial_upper(max(x, y), n, level), binomial_lower(min(x, y), n, level)
        assert low < edge_q(high, epsilon, delta) + 1e-12


def test_rates_of_randomised_response_far_below_the_claim_keep_it() -> None:
    """At 0.3 beside a claim of 1: separate limits showed it in two of three audits."""
    rate, rng = 1 / (1 + math.exp(-0.3)), np.random.default_rng(5)
    draws = rng.binomial(100, [rate, 1 - rate], (60, 2)).tolist()
    assert sum(rates_keep(x, y, 100, 1.0, 1e-5, 0.002) for x, y in draws) >= 48  # by 88 %
