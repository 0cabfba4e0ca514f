"""Statistics against their definitions, written out: ranks, excesses, curves, histograms, laws."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, norm

from leakbound.stats import (
    CategoricalLaw,
    GaussianLaw,
    VoteScores,
    auroc_standard_error,
    best_threshold,
    exact_privacy_loss,
    joint_beta,
    privacy_profile,
    rank_test,
    tpr_at_fpr,
)
from leakbound.stats.counts.one_run import Ranked
from leakbound.stats.counts.two_samples import (
    benjamini_hochberg,
    conformal_p_values,
    excess_test,
    smallest_excess,
)
from leakbound.stats.curves.curves import RATES, pair_accuracies, rate_at_fpr, roc
from leakbound.stats.noise.best_votes import BestVotes
from leakbound.stats.noise.output_distributions import DiscreteGaussianLaw
from leakbound.stats.noise.votes import DiscreteBestVotes, DiscreteMargins

Floats = npt.NDArray[np.float64]
FEW = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=6)


# Ranks, and excesses over a threshold


@given(FEW, FEW)
def test_the_excess_is_the_largest_of_all_thresholds(high: list[float], low: list[float]) -> None:
    """Standardised as a hypergeometric count; the p-value is the share of divisions as extreme."""
    values, n = high + low, len(high)

    def excess(first: list[float], level: float) -> float:
        above, mine = sum(v >= level for v in values), sum(v >= level for v in first)
        share = n / len(values)
        variance = above * share * (1 - share) * (len(values) - above) / (len(values) - 1)
        return (mine - above * share) / math.sqrt(variance)

    test, levels = excess_test(high, low, draws=400), sorted(set(values))[1:]
    if not levels:
        assert test == (1.0, 0.0, 0.0, 400)
        return
    assert test.statistic == pytest.approx(max(excess(high, level) for level in levels))
    assert test.statistic == pytest.approx(excess(high, test.threshold))
    divisions = combinations(range(len(values)), n)
    every = [max(excess([values[i] for i in some], v) for v in levels) for some in divisions]
    exact = sum(one >= test.statistic - 1e-9 for one in every) / len(every)
    assert test.p_value == pytest.approx(exact, abs=5 * math.sqrt(0.25 / 400))
    assert 401 * test.p_value == pytest.approx(max(1, round(401 * test.p_value)))


def test_no_values_exceed_nothing_and_larger_ones_all() -> None:
    """Of 12,870 divisions one is as extreme, and none of 400 that are drawn: 1 of 401 is left."""
    assert excess_test([9.0] * 8, [0.0] * 8, draws=400).p_value == 1 / 401
    assert excess_test([], [1.0], draws=9) == excess_test([1.0], [], draws=9) == (1, 0, 0, 9)


def test_the_smallest_excess_is_the_first_that_rejects() -> None:
    low, high = [50.0] * 8, [0.5 + i for i in range(8)]
    found = smallest_excess(high, low, 0.05)
    assert found is not None

    def p_value(raised: int) -> float:
        return excess_test([99.0] * raised + sorted(high)[raised:], low).p_value

    assert p_value(found) <= 0.05 < p_value(found - 1)
    assert smallest_excess([], low, 0.05) is smallest_excess([1.0], low, 0.05) is None


@given(FEW, FEW)
def test_a_conformal_p_value_counts_the_reference_at_or_above(
    scores: list[float], reference: list[float]
) -> None:
    wanted = [(1 + sum(r >= s for r in reference)) / (len(reference) + 1) for s in scores]
    assert conformal_p_values(scores, reference).tolist() == pytest.approx(wanted)


@given(st.lists(st.integers(1, 20).map(lambda i: i / 20), max_size=8), st.sampled_from([0.1, 0.5]))
def test_benjamini_and_hochberg_step_up(p_values: list[float], rate: float) -> None:
    """k p-values are rejected for the largest k of which at least k are below k rate / n."""
    n = len(p_values)
    enough = [k for k in range(1, n + 1) if sum(p <= rate * k / n for p in p_values) >= k]
    limit = rate * max(enough) / n if enough else -1.0
    assert benjamini_hochberg(p_values, rate).tolist() == [p <= limit for p in p_values]


@pytest.mark.parametrize("counts", [(30, 20, 5, 18, 20, 9), (560, 0, 500, 500, 0, 560)])
def test_many_values_with_ties_are_nearly_normal(counts: tuple[int, ...]) -> None:
    """Three kinds, and two kinds beyond those that are counted: half a step closer than seen."""
    low, high = (np.repeat([0.0, 1.0, 2.0], some).tolist() for some in (counts[:3], counts[3:]))
    values, n, m = np.array(high + low), len(high), len(low)
    ranks = np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])
    step = min(np.diff(np.unique(ranks)))
    middle = n * ranks.mean()
    spread = math.sqrt(n * m / (n + m) * ranks.var(ddof=1))  # of a sum drawn without replacement
    seen = ranks[:n].sum()
    up, down = norm.sf([seen - step / 2 - middle, middle - step / 2 - seen], scale=spread)
    assert rank_test(high, low) == pytest.approx(up)
    assert rank_test(low, high) == pytest.approx(down)
    assert rank_test(high, low, two_sided=True) == pytest.approx(min(1.0, 2 * min(up, down)))


@given(st.integers(2, 40), st.floats(0.01, 1.0))
def test_as_many_highest_as_lowest_scores_are_guessed(n: int, fraction: float) -> None:
    scores = np.random.default_rng(n).permutation(n).astype(float)
    found, rule = Ranked(fraction).guesses(scores), Ranked(fraction)
    each = max(1, math.floor(fraction * n) // 2)
    assert rule.each(n) == each
    assert [g for _, g in sorted(zip(scores, found.tolist(), strict=True))] == (
        [-1] * each + [0] * (n - 2 * each) + [1] * each
    )


# Curves


@pytest.mark.parametrize("rate", [0.2, 1.0, 5.0])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 9), (40, 3)])
def test_the_error_of_an_auroc_is_that_of_exponential_scores(rate: float, m: int, n: int) -> None:
    """Members Exp(1), others Exp(rate): chances that one, or two, beat one, or two."""
    area, two_beat = rate / (1 + rate), rate / (2 + rate)
    beats_two = 1 - 2 / (1 + rate) + 1 / (1 + 2 * rate)
    variance = area + (m - 1) * two_beat + (n - 1) * beats_two - (m + n - 1) * area**2
    assert auroc_standard_error(area, m, n) == pytest.approx(math.sqrt(variance / (m * n)))
    assert auroc_standard_error(1.0, m, n) == 0.0


@given(FEW, FEW, st.integers(0, 6))
@example([1.0], [0.0, 0.0, 1.0], 1)  # 1 - 2/3 exceeds 1/3
def test_a_rate_at_a_limit_is_the_best_of_all_thresholds(
    member: list[float], nonmember: list[float], most: int
) -> None:
    fpr = most / len(nonmember) if most <= len(nonmember) else 1.0
    rates = [
        sum(m >= tau for m in member) / len(member)
        for tau in [*member, *nonmember, math.inf]
        if sum(n >= tau for n in nonmember) / len(nonmember) <= fpr
    ]
    assert tpr_at_fpr(member, nonmember, fpr) == pytest.approx(max(rates))


@given(FEW, FEW)
def test_the_best_threshold_lies_halfway_below_the_best_score(
    member: list[float], nonmember: list[float]
) -> None:
    """Of one of equally good scores; the lowest of all has none below."""
    scores = sorted({*member, *nonmember}, reverse=True)

    def better(tau: float) -> float:
        above = [sum(one >= tau for one in side) / len(side) for side in (member, nonmember)]
        return round(above[0] - above[1], 9)

    pairs = zip(scores, [*scores[1:], scores[-1]], strict=True)
    most = max(map(better, scores))
    halfway = [(score + below) / 2 for score, below in pairs if better(score) == most]
    assert best_threshold(member, nonmember) in halfway


@pytest.mark.parametrize("rate", RATES[100::20])
def test_scores_that_tell_nothing_have_the_rate_that_was_asked_for(rate: float) -> None:
    """Of a thousand, as many as the rate allows: a threshold is tried for each of its rates."""
    same = np.random.default_rng(0).permutation(1000).astype(float).reshape(100, 10)
    assert rate_at_fpr(same, same, rate).tpr == pytest.approx(math.floor(1000 * rate) / 1000)


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_a_pair_is_guessed_at_the_threshold_of_the_others(pairs: int, k: int, seed: int) -> None:
    """By the rule "above" at any score, or below all; at any of those that are equally good."""
    member, nonmember = np.random.default_rng([pairs, k, seed]).integers(0, 5, (2, pairs, k))
    levels = [-math.inf, *sorted({*member.ravel().tolist(), *nonmember.ravel().tolist()})]

    def right(i: int, tau: float) -> float:
        return float((1 + (member[i] > tau).mean() - (nonmember[i] > tau).mean()) / 2)

    found = pair_accuracies(member, nonmember)
    for i in range(pairs):
        others = [j for j in range(pairs) if j != i] or [i]
        means = [sum(right(j, tau) for j in others) for tau in levels]
        best = [
            right(i, tau)
            for tau, mean in zip(levels, means, strict=True)
            if mean > max(means) - 1e-9
        ]
        assert any(found[i] == pytest.approx(one) for one in best)


def test_an_interval_at_a_limit_is_a_bootstrap_of_the_pairs() -> None:
    """Twelve pairs of 50 outputs, drawn again; its own draws differ, and so do its ends, a bit."""
    rng = np.random.default_rng(4)
    member = rng.normal(1.0, 1, (12, 50)) + rng.normal(0, 1, (12, 1))
    nonmember = rng.normal(size=(12, 50))

    def best(some: npt.NDArray[np.int64]) -> float:
        fpr, tpr, _ = roc(member[some], nonmember[some])
        return float(tpr[fpr <= 0.1].max())

    drawn = [best(rng.integers(0, 12, 12)) for _ in range(1000)]
    for confidence in (0.9, 0.5):
        found = rate_at_fpr(member, nonmember, 0.1, confidence)
        tail = (1 - confidence) / 2
        wanted = np.quantile(drawn, [tail, 1 - tail])
        assert found.tpr == pytest.approx(best(np.arange(12)), abs=0.02)
        assert (found.low, found.high) == pytest.approx(tuple(wanted), abs=0.03)
    assert rate_at_fpr(member, nonmember, 1.0).tpr == 1.0


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 2), min_size=1, max_size=8), st.integers(0, 8))
def test_single_outputs_have_the_rate_of_the_curve(pairs: list[tuple[int, int]], most: int) -> None:
    """Every threshold at a canary-out score is tried, as there are few."""
    member, nonmember = np.array(pairs, float).T[..., None]
    fpr = min(1.0, most / len(pairs))
    found = rate_at_fpr(member, nonmember, fpr)
    above = [
        (member > tau).mean()
        for tau in [-math.inf, *nonmember.ravel()]
        if (nonmember > tau).mean() <= fpr
    ]
    assert found.tpr == pytest.approx(max(above), abs=1e-6)
    assert most > 0 or (found.low, found.high) == (0.0, 1.0)
    assert 0 <= found.low <= found.tpr <= found.high <= 1


# Counts with a prior


@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize("cells", [(9, 1, 2, 8), (30, 10, 3, 57), (8, 32, 1, 59)])
def test_the_credible_bound_leaves_its_share_of_the_posterior(
    cells: tuple[int, int, int, int], delta: float
) -> None:
    """By quadrature: the mass of rates that epsilon allows is 1 - confidence."""
    tp, fn, fp, tn = cells
    bound = joint_beta(*cells, delta, 0.9).epsilon or 0.0
    slope = math.exp(bound)

    def allowed(fpr: float) -> float:
        least = max((1 - delta - fpr) / slope, 1 - delta - slope * fpr, 0.0)
        return float(beta.pdf(fpr, 0.5 + fp, 0.5 + tn) * beta.sf(least, 0.5 + fn, 0.5 + tp))

    corner = (1 - delta) / (1 + slope)
    mass = quad(allowed, 0, corner, limit=200)[0] + quad(allowed, corner, 1, limit=200)[0]
    assert bound > 0
    assert mass == pytest.approx(0.1, abs=2e-4)


# Noisy votes


def beaten(one: float, others: list[float], sigma: float, threshold: float) -> float:
    """Chance that a noisy count exceeds all others by a threshold, by quadrature."""

    def density(noise: float) -> float:
        below = [norm.cdf((one + noise - threshold - other) / sigma) for other in others]
        return float(norm.pdf(noise / sigma) / sigma * np.prod(below))

    return float(quad(density, -10 * sigma, 10 * sigma, limit=200)[0])


@pytest.mark.parametrize(("classes", "sigma"), [(2, 1.0), (3, 0.5), (4, 3.0)])
def test_a_noisy_count_wins_as_often_as_by_quadrature(classes: int, sigma: float) -> None:
    levels = (-1.0, 0.0, 2.0)
    votes = BestVotes(5, classes, sigma, levels)
    histogram = [3.0, 2.0, *[0.0] * (classes - 2)]
    wanted = [beaten(3.0, histogram[1:], sigma, level) for level in levels]
    assert votes.chances([histogram])[0] == pytest.approx(wanted, abs=1e-9)
    wins = BestVotes(5, classes, sigma, wins=True)
    assert wins.chances([histogram])[0] == pytest.approx(wanted[1], abs=1e-9)
    one = beaten(1.0, [4.0, *[0.0] * (classes - 2)], sigma, 0.0)
    none = beaten(0.0, [5.0, *[0.0] * (classes - 2)], sigma, 0.0)
    assert [float(v[0]) for v in wins.expected()] == pytest.approx([one, none], abs=1e-9)
    law = GaussianLaw(np.array(histogram), sigma)
    margins = law.margin_chances(0, 2.0, 2 * np.array(levels))
    assert margins == pytest.approx(wanted, abs=1e-9)
    assert law.win_chance(0) == pytest.approx(wanted[1], abs=1e-9)


def moved(histogram: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The histogram, and those with one vote for another class."""
    found = {histogram}
    for a, b in product(range(len(histogram)), repeat=2):
        if a != b and histogram[a]:
            found.add(tuple(v - (i == a) + (i == b) for i, v in enumerate(histogram)))
    return found


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("votes", "classes"), [(3, 2), (4, 3), (3, 4)])
def test_the_support_bounds_every_pair_and_nothing_else(
    votes: int, classes: int, shared: bool
) -> None:
    """Every linear payoff has the same least value over the listed pairs and over all of them."""
    scores = BestVotes(votes, classes, 1.5, (0.0, 1.0), shared=shared)
    every = [h for h in product(range(votes + 1), repeat=classes) if sum(h) == votes]
    pairs = [(a, b) for a in every for b in (moved(a) if shared else every)]
    x, y = (scores.chances([pair[i] for pair in pairs]) for i in (0, 1))
    listed = scores.support()
    assert listed is not None
    for angle in np.linspace(0, 2 * math.pi, 37):
        b, c = math.cos(angle), math.sin(angle)
        least = (b * listed[0] + c * listed[1]).min(0)
        assert least == pytest.approx((b * x + c * y).min(0), abs=1e-9)


def test_too_many_histograms_are_not_listed() -> None:
    assert BestVotes(200, 4, 1.0).support() is None
    assert BestVotes(200, 4, 1.0, shared=False).support() is not None


def pmf(sigma: float) -> dict[int, float]:
    weights = {k: math.exp(-(k**2) / (2 * sigma**2)) for k in range(-40, 41)}
    return {k: w / sum(weights.values()) for k, w in weights.items()}


@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_discrete_noise_is_summed_over_all_of_its_values(sigma: float) -> None:
    """Two counts by every pair of noises, three by every triple near the middle."""
    p, levels = pmf(sigma), np.array([-1.0, 0.0, 0.5, 2.0])
    small = {k: w for k, w in p.items() if abs(k) <= 8 * sigma}
    two, three = DiscreteGaussianLaw(np.array([3.0, 1.0]), sigma), [3, 1, 2]
    margin = Counter[float]()
    for (a, u), (b, v) in product(p.items(), repeat=2):
        margin[3 + a - 1 - b] += u * v
    above = [sum(w for gap, w in margin.items() if 2 * gap >= level) for level in levels]
    assert two.difference_chances(0, 1, 2.0, levels) == pytest.approx(above, abs=1e-12)
    assert two.margin_chances(0, 2.0, levels) == pytest.approx(above, abs=1e-12)
    best, wins = Counter[float](), 0.0
    for noise in product(small, repeat=3):
        counts = [mean + k for mean, k in zip(three, noise, strict=True)]
        chance = math.prod(small[k] for k in noise)
        best[counts[0] - max(counts[1:])] += chance
        wins += chance * (counts[0] == max(counts)) / counts.count(max(counts))
    above = [sum(w for gap, w in best.items() if gap >= level) for level in levels]
    law = DiscreteGaussianLaw(np.array(three, float), sigma)
    assert law.margin_chances(0, 1.0, levels) == pytest.approx(above, abs=1e-9)
    assert law.win_chance(0) == pytest.approx(wins, abs=1e-9)
    votes = DiscreteBestVotes(6, 3, sigma, tuple(levels.tolist()))
    assert votes.chances([three])[0] == pytest.approx(above, abs=1e-9)
    assert DiscreteBestVotes(6, 3, sigma, wins=True).chances([three]) == pytest.approx(wins)
    known = DiscreteMargins.margin(3, sigma)
    wanted = [sum(w for gap, w in margin.items() if gap > tau) for tau in known.thresholds]
    assert known.exceedance(2) == pytest.approx(wanted, abs=1e-12)
    assert (known.thresholds % 1 == 0.5).all()


@pytest.mark.parametrize(("low", "high", "move"), [(0, 4, 1), (-3, 3, 2), (0, 40, None)])
def test_thresholds_of_votes_lie_between_values_and_around_both_ends(
    low: int, high: int, move: int | None
) -> None:
    scores, step = VoteScores(low, high, 1.5, move), move or 1
    ends = low + step / 2, high - step / 2
    around = {round(end + 1.5 * s, 6) for end in ends for s in np.arange(-4.5, 5, 0.5)}
    beside = {round(end + 1.5 * s, 6) for end in ends for s in (-0.2, 0.2)}
    found = {round(float(one), 6) for one in scores.thresholds}
    assert around | beside <= found
    inner = sorted(found - around - beside | {round(end, 6) for end in ends})
    assert len(inner) <= 9
    gaps = np.diff(inner)
    if len(inner) == (high - low) // step:  # each halfway between two values a move apart
        assert gaps == pytest.approx(step)
    else:
        assert gaps == pytest.approx((ends[1] - ends[0]) / 8)


# Output distributions

WEIGHTS = st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any)


@given(WEIGHTS, WEIGHTS, st.sampled_from([0.0, 0.01, 0.2, 0.6]), st.floats(0.0, 3.0))
def test_a_categorical_loss_is_the_least_that_its_profile_allows(
    one: list[int], other: list[int], delta: float, epsilon: float
) -> None:
    """With outputs that one of them, or both, never give."""
    p, q = (np.array(w) / sum(w) for w in (one, other))
    laws = CategoricalLaw(p), CategoricalLaw(q)

    def profile(e: float) -> float:
        sides = ((p, q), (q, p))
        return max(sum(max(0.0, a - math.exp(e) * b) for a, b in zip(*s)) for s in sides)  # noqa: B905

    assert privacy_profile(*laws, epsilon) == pytest.approx(profile(epsilon), abs=1e-12)
    found = exact_privacy_loss(*laws, delta)
    never = max(p[q == 0].sum(), q[p == 0].sum())
    assert found.epsilon is not None
    assert math.isinf(found.epsilon) == (never > delta)
    assert (found.counts, found.confidence, found.mu) == ({"pairs": 1}, 1.0, None)
    if never <= delta:
        assert profile(found.epsilon) <= delta + 1e-12
        assert found.epsilon == 0 or profile(found.epsilon - 1e-9) > delta


def test_laws_without_noise_or_without_a_difference_are_limits() -> None:
    here, there = (GaussianLaw(np.array([m, 0.0]), 0.0) for m in (1.0, 2.0))
    assert exact_privacy_loss(here, there, 1e-5).mu == math.inf
    assert exact_privacy_loss(here, here, 1e-5).mu == 0.0
    assert here.linear_chances(np.array([1.0, 1.0]), 0.5, np.array([0.4, 0.5, 0.6])).tolist() == [
        1.0, 1.0, 0.0,
    ]  # fmt: skip
    law = GaussianLaw(np.array([3.0, 1.0]), 2.0)
    wanted = norm.sf((np.array([0.0, 5.0]) - 4.0) / (2 * math.sqrt(8)))
    assert law.difference_chances(0, 1, 2.0, np.array([0.0, 5.0])) == pytest.approx(wanted)
    assert GaussianLaw(np.array([1.0]), 1.0).margin_chances(0, 1.0, np.zeros(1)) is None
    counts = DiscreteGaussianLaw(np.array([1.0, 0.0]), 2.0)
    assert privacy_profile(counts, counts, 0.0) == 0.0
    assert exact_privacy_loss(counts, counts, 0.0).epsilon == 0.0
